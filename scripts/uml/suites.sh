# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# To be sourced: access to packages of other Debian suites, through the mirror that
# this machine already uses. Nothing is installed, and the machine's own apt sources
# and package lists do not change. The caller defines say() and die().

SUITES='bookworm bookworm-backports trixie trixie-backports'
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Print the URI of the first mirror that contains this release, without the part from /dists
# on. The security archive is not needed: all of its kernel versions are also in the mirror.
suites_mirror()
{
	local codename=''

	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	apt-get --print-uris update 2>/dev/null |
		sed -n "s,^'\(.*\)/dists/$codename/InRelease'.*,\1,p" | head -n 1
}

# suites_apt DIR: after this, apt-get and apt-cache with APT_CONFIG=DIR/apt.conf
# use all suites, and store their files in DIR.
suites_apt()
{
	local dir=$1 uri suite

	uri=$(suites_mirror)
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
