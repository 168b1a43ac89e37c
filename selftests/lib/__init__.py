# SPDX-License-Identifier: GPL-2.0
"""Modules that several tests use. This folder has no tests."""
