# SPDX-License-Identifier: GPL-2.0
"""Preparation of a scenario: sysctls, network and traffic."""
