# SPDX-License-Identifier: GPL-2.0
"""What tests share. No test is in here."""
