# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# To be sourced by all scripts: properties of the Debian on which they run.

# An ordinary user's PATH lacks the directories of modinfo, depmod, debootstrap, ip
# and tc. The Makefile, scripts/check and lab/__init__.py extend PATH in the same way.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# debian_kernel: print the version X.Y of the kernel of this Debian release; print
# nothing if the release is unknown.
debian_kernel()
(
	# shellcheck source=/dev/null
	[ ! -r /etc/os-release ] || . /etc/os-release
	case ${ID:-}-${VERSION_ID:-} in
	debian-12) echo 6.1 ;;
	debian-13) echo 6.12 ;;
	esac
)
