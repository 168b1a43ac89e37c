#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# source.sh X.Y: print the path of the tarball of linux-source-X.Y. If the tarball is not
# installed, download the package of another suite of Debian, from the mirror that this
# machine uses, and store the tarball in
# ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/source. Nothing is installed.
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
	# Rename the complete file, so that an incomplete file never has this name.
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
