# SPDX-License-Identifier: GPL-2.0
"""Figures, tables and pages of results."""
