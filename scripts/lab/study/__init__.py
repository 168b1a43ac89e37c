# SPDX-License-Identifier: GPL-2.0
"""Many runs: benches, grids, and comparisons with published results."""
