#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# source.sh X.Y: print the path of linux-source-X.Y's tarball. Where the
# distribution does not offer that version, another suite of Debian does: the
# package is fetched from the mirror that this machine uses anyway, into
# ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/source, and nothing is
# installed.
set -euo pipefail

CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}/source
# shellcheck source=scripts/uml/suites.sh
. "$(dirname "$(readlink -f "$0")")/suites.sh"

say()
{
	echo "uml: $*" >&2
}

die()
{
	say "$*"
	exit 1
}

fetch()
{
	local package=$1 dir

	dir=$(mktemp -d)
	# shellcheck disable=SC2064 # as it is now
	trap "rm -rf '$dir'" EXIT
	suites_apt "$dir"
	say "fetching $package, about 140 MB, from another suite of Debian"
	(cd "$dir" && APT_CONFIG=$dir/apt.conf apt-get download -qq "$package" 2>&1) > "$dir/log" ||
		die "$package is in none of: $SUITES"
	dpkg-deb -x "$dir/$package"_*.deb "$dir"
	mkdir -p "$CACHE"
	# Named last, so that half a file is none.
	mv "$dir/usr/src/$package.tar.xz" "$CACHE/$package.tar.xz.part"
	mv "$CACHE/$package.tar.xz.part" "$CACHE/$package.tar.xz"
}

main()
{
	local package=linux-source-${1:?usage: source.sh X.Y}

	if [ -e "/usr/src/$package.tar.xz" ]; then
		echo "/usr/src/$package.tar.xz"
		return
	fi
	[ -e "$CACHE/$package.tar.xz" ] || fetch "$package"
	echo "$CACHE/$package.tar.xz"
}

main "$@"
