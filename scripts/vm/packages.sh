#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packages.sh NAME PACKAGE...: print a directory with the files of these Debian packages,
# and of the packages that they need and this machine lacks. A guest can use them there.
#
# The packages are downloaded once, and unpacked in
# ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/NAME-RELEASE-HASH, but not installed; HASH
# depends on the list. Remove this directory to get newer versions.
set -euo pipefail

CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
# shellcheck source=scripts/debian.sh
. "$(dirname "$(readlink -f "$0")")/../debian.sh"
BUILDING=

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	[ -z "$BUILDING" ] || rm -rf "$BUILDING"
}

# Print the packages that "apt-get install" would install.
missing()
{
	apt-get install --simulate --no-install-recommends "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'
}

build()
{
	local final=$1 list package

	shift
	list=$(missing "$@")
	BUILDING=$(mktemp -d "$final.XXXXXX")
	chmod 755 "$BUILDING"
	mkdir "$BUILDING/debs"
	# shellcheck disable=SC2086 # a list
	[ -z "$list" ] || (cd "$BUILDING/debs" && apt-get download -qq -o APT::Sandbox::User= $list) >&2
	for package in "$BUILDING"/debs/*.deb; do
		[ ! -e "$package" ] || dpkg-deb --extract "$package" "$BUILDING"
	done
	rm -rf "$BUILDING/debs"
	mv -T "$BUILDING" "$final"
	BUILDING=
}

main()
{
	local final

	if [ $# -lt 2 ] || [[ $1 == -* ]]; then
		echo "usage: packages.sh NAME PACKAGE..." >&2
		exit 2
	fi
	# shellcheck source=/dev/null
	final=$CACHE/$1-$(. /etc/os-release; echo "${VERSION_CODENAME:-unknown}")
	final+=-$(printf '%s\n' "${@:2}" | sha256sum | cut -c1-12)
	shift
	if [ ! -e "$final" ]; then
		mkdir -p "$CACHE"
		trap cleanup EXIT
		trap 'exit 130' INT TERM
		exec 9> "$CACHE/packages.lock"
		flock 9
		[ -e "$final" ] || build "$final" "$@"
		exec 9>&-
	fi
	echo "$final"
}

main "$@"
