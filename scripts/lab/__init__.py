# SPDX-License-Identifier: GPL-2.0
"""The testbed."""

import os

# As scripts/debian.sh: an ordinary user's PATH lacks modprobe, ip and tc.
os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
