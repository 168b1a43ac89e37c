# SPDX-License-Identifier: GPL-2.0
"""What a scenario sets up: sysctls, networks and traffic."""
