#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# patch.sh TREE: change the source of a kernel for virtual machines.
#
# Linux 6.1 does not allow FAULT_INJECTION_STACKTRACE_FILTER on x86-64, because stack traces
# were unreliable. With frame pointers they are reliable.
set -euo pipefail

sed -i '/^config FAULT_INJECTION_STACKTRACE_FILTER/,/^config /{/depends on !X86_64/d}' \
	"${1:?usage: patch.sh TREE}/lib/Kconfig.debug"
