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
SUITES='bookworm bookworm-backports trixie trixie-backports'
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say()
{
	echo "uml: $*" >&2
}

die()
{
	say "$*"
	exit 1
}

# The mirror without its path below dists; the security archive has none of the
# versions that the others lack.
mirror()
{
	local codename=''

	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	apt-get --print-uris update 2>/dev/null |
		sed -n "s,^'\(.*\)/dists/$codename/InRelease'.*,\1,p" | head -n 1
}

# An apt of its own: sources, lists and archives of the user's are not touched.
configure_apt()
{
	local dir=$1 uri suite

	uri=$(mirror)
	[ -n "$uri" ] || die "no Debian mirror is configured here"
	mkdir -p "$dir"/{lists,cache/archives}/partial "$dir/none"
	for suite in $SUITES; do
		echo "deb [signed-by=$KEYRING] $uri $suite main"
	done > "$dir/sources.list"
	cat > "$dir/apt.conf" <<- END
		Dir::Etc::SourceList "$dir/sources.list";
		Dir::Etc::SourceParts "$dir/none";
		Dir::Etc::Preferences "$dir/none/preferences";
		Dir::Etc::PreferencesParts "$dir/none";
		APT::Sandbox::User "";
		Dir::State::Lists "$dir/lists";
		Dir::Cache "$dir/cache";
	END
	APT_CONFIG=$dir/apt.conf apt-get update -qq >&2 ||
		die "apt-get update failed for: $SUITES"
}

fetch()
{
	local package=$1 dir

	dir=$(mktemp -d)
	# shellcheck disable=SC2064 # as it is now
	trap "rm -rf '$dir'" EXIT
	configure_apt "$dir"
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
