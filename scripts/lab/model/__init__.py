# SPDX-License-Identifier: GPL-2.0
"""The parts of a scenario: its keys, units, topology and workload."""
