# SPDX-License-Identifier: GPL-2.0
"""What a scenario is: its keys, units, topology and workload."""
