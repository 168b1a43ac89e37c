# SPDX-License-Identifier: GPL-2.0
"""The testbed."""

import os

# An ordinary user's PATH lacks modprobe, ip and tc; scripts/debian.sh does the same.
os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
