# SPDX-License-Identifier: GPL-2.0
"""Running a scenario in a guest or on this host, and its results."""
