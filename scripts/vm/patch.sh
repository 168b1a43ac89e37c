#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# patch.sh TREE: what a kernel for virtual machines needs changed.
#
# - Linux 6.1 does not let FAULT_INJECTION_STACKTRACE_FILTER be on x86-64, whose
#   stacks could not be told from garbage then; with frame pointers they can.
set -euo pipefail

sed -i '/^config FAULT_INJECTION_STACKTRACE_FILTER/,/^config /{/depends on !X86_64/d}' \
	"${1:?usage: patch.sh TREE}/lib/Kconfig.debug"
