#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# programs.sh PACKAGE...: unpack the Debian packages that are not installed here, and their dependencies, and
# print the directory with their files. If all packages are installed, print nothing. The script installs
# nothing, so no service starts. The directory stays in the cache. If the version of a package changes, the script creates a new directory.
set -euo pipefail

CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
NEW=

die()
{
	echo "lab: $*" >&2
	exit 1
}

# missing PACKAGE...: print NAME=VERSION of each package that apt-get would install.
missing()
{
	apt-get -s install --no-install-recommends "$@" |
		sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' | LC_ALL=C sort
}

# unpack DIR NAME=VERSION...: download these packages, and unpack them in DIR.
unpack()
{
	local dir=$1 file

	shift
	echo "lab: fetching $*" >&2
	mkdir "$dir/archives"
	(cd "$dir/archives" && apt-get -q download "$@") >&2 ||
		die "fetching packages failed; \"apt-get update\" (as root) may help"
	for file in "$dir"/archives/*.deb; do
		dpkg-deb -x "$file" "$dir"
	done
	rm -r "$dir/archives"
}

main()
{
	local list final

	[ $# -gt 0 ] || die "usage: programs.sh PACKAGE..."
	list=$(missing "$@") || die "apt-get does not find all of: $* (as root, \"apt-get update\" may help)"
	[ -n "$list" ] || return 0
	final=$CACHE/programs-$(sha256sum <<< "$list" | head -c 12)
	if [ ! -e "$final" ]; then
		mkdir -p "$CACHE"
		trap 'rm -rf "$NEW"' EXIT
		NEW=$(mktemp -d "$final.XXXXXX")
		chmod 755 "$NEW"
		# shellcheck disable=SC2086 # words
		unpack "$NEW" $list
		mv -T "$NEW" "$final" 2> /dev/null || [ -e "$final" ]
	fi
	echo "$final"
}

main "$@"
