#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/deb, debian/, dkms.conf, "make dkms": the packages built as an ordinary
# user, installed in a Debian that has nothing of ours, used, and purged.
#
# That Debian (this machine's release, with kernel headers and dkms, 750 MB) is made
# once, in ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/root-RELEASE; remove it to
# get a newer one. Tests write to a layer above it, and have no network.

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
NAMES=(hpcc_common tcp_hpcc tcp_ldcp sch_hpcc)
WORK=
ROOT=
KVER=
VERSION=
NR=0
FAILED=0

skip_all()
{
	echo "KTAP version 1"
	echo "1..0 # SKIP $*"
	exit 4
}

# ---- the root

in_root()
{
	chroot "$ROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive "$@"
}

# make_root RELEASE DIR
make_root()
{
	local arch mirror

	arch=$(dpkg --print-architecture)
	mirror=$(apt-get indextargets --format "\$(REPO_URI)" "Codename: $1" 'Component: main' |
		head -n 1)
	[ -n "$mirror" ] || { echo "no mirror of $1 is configured here"; return 1; }
	ROOT=$2
	debootstrap --variant=minbase "$1" "$2" "$mirror" && mount -t proc proc "$2/proc" &&
		in_root apt-get install -q -y --no-install-recommends dkms iproute2 \
			"linux-headers-$arch" man-db openssl python3 &&
		umount "$2/proc"
}

# base_root RELEASE: print its directory.
base_root()
{
	local final=$CACHE/root-$1 new

	mkdir -p "$CACHE"
	exec 9> "$CACHE/root.lock"
	flock 9
	if [ ! -e "$final" ]; then
		echo "# making a Debian $1 in $final" >&2
		new=$(mktemp -d "$final.XXXXXX")
		chmod 755 "$new"
		# In a mount namespace of its own, for what an interruption leaves.
		if ! unshare -m "$0" --make-root "$1" "$new" > "$final.log" 2>&1; then
			tail -n 5 "$final.log" >&2
			rm -rf --one-file-system "$new"
			return 1
		fi
		mv "$new" "$final"
	fi
	exec 9>&-
	echo "$final"
}

# Here and now mounts are nobody else's.
enter_root()
{
	WORK=$(mktemp -d)
	trap 'cd /; umount -l "$WORK"; rmdir "$WORK"' EXIT
	mount -t tmpfs -o mode=755 tmpfs "$WORK"
	ROOT=$WORK/root
	mkdir "$WORK"/{upper,work,root,nobody}
	mount -t overlay -o "lowerdir=$1,upperdir=$WORK/upper,workdir=$WORK/work" overlay "$ROOT" \
		2> /dev/null || cp -a "$1/." "$ROOT"
	mount -t proc proc "$ROOT/proc"
	ip link set lo up
	KVER=$(basename "$(echo "$ROOT"/lib/modules/*)")
	# Links to module lists come with the first depmod.
	in_root depmod -a "$KVER" 2> /dev/null
	in_root mandb -q
	mkdir "$ROOT/debs"
	all_files > "$WORK/before"
}

# What no package is to blame for: logs, caches, and dkms' own key.
all_files()
{
	(cd "$ROOT" && find . -xdev \( -path ./proc -o -path ./var/log -o -path ./var/cache \
		-o -path ./var/lib/apt -o -path ./tmp -o -path ./debs -o -path ./tree \) -prune \
		-o ! -path './var/lib/dkms/mok.*' ! -path './var/lib/dpkg/*' -print | sort)
}

nothing_left()
{
	local left

	left=$(all_files | diff "$WORK/before" -)
	echo "$left"
	[ -z "$left" ]
}

# ---- tests

ok()
{
	local name=$1 out rc=0

	shift
	out=$("$@" 2>&1) || rc=$?
	NR=$((NR + 1))
	if [ "$rc" = 0 ]; then
		echo "ok $NR - $name"
		return
	fi
	echo "# exit status $rc: ${out//$'\n'/$'\n'# }"
	echo "not ok $NR - $name"
	FAILED=1
}

as_nobody()
{
	setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$WORK/nobody" "$@"
}

copy_tree()
{
	mkdir "$WORK/tree"
	(cd "$TOP" && git -c safe.directory="$TOP" ls-files -co --exclude-standard) |
		while read -r file; do
			[ ! -e "$TOP/$file" ] || echo "$file"
		done | tar -C "$TOP" -cf - -T - | tar -C "$WORK/tree" --no-same-owner -xf -
	chown -R 65534:65534 "$WORK/tree" "$WORK/nobody"
}

build()
{
	local before after

	cd "$WORK/tree" || return 1
	before=$(find . -type f | sort | xargs sha256sum)
	as_nobody scripts/deb "$WORK/nobody/deb" || return 1
	after=$(find . -type f | sort | xargs sha256sum)
	diff <(echo "$before") <(echo "$after") &&
		cp "$WORK"/nobody/deb/*.deb "$ROOT/debs" &&
		[ "$(ls "$ROOT/debs")" = "hpcc-dkms_${VERSION}_all.deb
hpcc-tools_${VERSION}_$(dpkg --print-architecture).deb" ]
}

# Files that two builds of the same sources differ in would be built by chance.
reproducible()
{
	cd "$WORK/tree" || return 1
	as_nobody env SOURCE_DATE_EPOCH=1 scripts/deb "$WORK/nobody/one" &&
		as_nobody env SOURCE_DATE_EPOCH=1 scripts/deb "$WORK/nobody/two" &&
		(cd "$WORK/nobody/one" && sha256sum -- *.deb) | (cd "$WORK/nobody/two" && sha256sum -c)
}

lint()
{
	local said

	said=$(as_nobody lintian --fail-on none "$ROOT"/debs/*.deb 2>&1)
	echo "$said"
	[ -z "$said" ]
}

# shellcheck disable=SC2016 # the root's shell shall expand it
install()
{
	in_root sh -c 'apt-get install -y --no-install-recommends /debs/*.deb'
}

built()
{
	local name

	in_root dkms status | grep -F "hpcc/$VERSION, $KVER" | grep ': installed' || return 1
	for name in "${NAMES[@]}"; do
		in_root test -e "/lib/modules/$KVER/updates/dkms/$name.ko" || {
			echo "no $name"
			return 1
		}
	done
}

# field NAME FIELD
field()
{
	in_root modinfo -k "$KVER" -F "$2" "$1"
}

metadata()
{
	local name

	for name in "${NAMES[@]}"; do
		in_root modinfo -k "$KVER" "$name"
		[ "$(field "$name" version)" = "$VERSION" ] || return 1
		[ "$(field "$name" license)" = GPL ] || return 1
		[ -n "$(field "$name" description)" ] || return 1
		[ "$(field "$name" name)" = "$name" ] || return 1
		[[ $(field "$name" vermagic) == "$KVER "* ]] || return 1
	done
	[[ $(field tcp_hpcc depends) == *hpcc_common* && $(field tcp_ldcp depends) == *hpcc_common* ]]
}

signed()
{
	local name

	for name in "${NAMES[@]}"; do
		[ "$(field "$name" signer)" = "DKMS module signing key" ] || return 1
	done
}

# By these the kernel asks for a congestion control, and for a qdisc: newer ones
# by an alias.
found_by_name()
{
	local name=sch_hpcc

	grep -q '^#define MODULE_ALIAS_NET_SCH' \
		"$ROOT/usr/src/linux-headers-${KVER%-*}-common/include/net/pkt_sched.h" &&
		name=net-sch-hpcc
	[ "$(in_root modprobe -S "$KVER" -R $name)" = sch_hpcc ] &&
		[ "$(in_root modprobe -S "$KVER" -R tcp_hpcc)" = tcp_hpcc ] &&
		[ "$(in_root modprobe -S "$KVER" -R tcp_ldcp)" = tcp_ldcp ] &&
		in_root modprobe -S "$KVER" --show-depends tcp_ldcp | grep hpcc_common.ko
}

plugin()
{
	in_root tc qdisc add dev lo root hpcc help 2>&1 | grep '^Usage: \.\.\. hpcc'
}

manuals()
{
	local page

	for page in "$TOP"/Documentation/*.[178]; do
		page=$(basename "$page")
		in_root man -w "${page##*.}" "${page%.*}" || return 1
	done
}

tools()
{
	in_root hpcc-lab --help | grep '^usage: hpcc-lab' &&
		in_root hpcc-replay --help | grep '^usage: hpcc-replay'
}

purge()
{
	in_root apt-get purge -y hpcc-dkms hpcc-tools && nothing_left
}

# make_dkms [NAME=VALUE]...: in the root, from a tree
make_dkms()
{
	in_root make -C /tree "KVER=$KVER" "$@"
}

dkms_from_tree()
{
	cp -r "$WORK/tree" "$ROOT/tree" && make_dkms dkms && built && metadata
}

dkms_again()
{
	sed -i 's/What tcp_hpcc and tcp_ldcp share/Other sources/' "$ROOT/tree/kmod/common.c"
	make_dkms dkms && built && [ "$(field hpcc_common description)" = "Other sources" ]
}

dkms_uninstall()
{
	make_dkms uninstall && nothing_left
}

tests()
{
	enter_root "$1"
	VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$TOP/dkms.conf")
	echo "KTAP version 1"
	echo "1..16"
	copy_tree
	ok "deb: both packages, as an ordinary user, beside the tree" build
	ok "deb: the same sources give the same packages" reproducible
	ok "deb: nothing for lintian to say" lint
	ok "install: needs no more than packages of Debian" install
	ok "install: dkms has built four modules for $KVER" built
	ok "modinfo: names, version, license, dependencies" metadata
	ok "modinfo: signed by dkms' key" signed
	ok "modprobe: finds them by the names that the kernel asks for" found_by_name
	ok "tc: finds its plugin" plugin
	ok "man: finds the manual pages" manuals
	ok "hpcc-lab, hpcc-replay: start" tools
	ok "purge: leaves nothing" purge
	ok "make dkms: adds, builds, installs" dkms_from_tree
	ok "make dkms: replaces the same version" dkms_again
	ok "make uninstall: leaves nothing of dkms" dkms_uninstall
	ok "deb: names what a broken tree fails at" broken
	exit "$FAILED"
}

# What cannot be built is no package, and is told.
broken()
{
	local said

	echo '#error "broken on purpose"' >> "$WORK/tree/qdisc/q_hpcc.c"
	cd "$WORK/tree" || return 1
	said=$(as_nobody scripts/deb "$WORK/nobody/broken" 2>&1) && return 1
	echo "$said"
	grep 'broken on purpose' <<< "$said" && [ -z "$(find "$WORK/nobody/broken" -name '*.deb')" ]
}

main()
{
	local release root cmd

	case ${1:-} in
	--make-root)
		make_root "$2" "$3"
		exit
		;;
	--in) tests "$2" ;;
	esac
	[ "$(id -u)" = 0 ] || skip_all "needs root"
	# shellcheck source=/dev/null
	release=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}")
	[ -n "$release" ] || skip_all "needs Debian"
	for cmd in debootstrap lintian dh dh_dkms; do
		command -v "$cmd" > /dev/null || skip_all "needs $cmd; scripts/install-deps deb installs it"
	done
	root=$(base_root "$release") || { echo "Bail out! cannot make a Debian $release"; exit 1; }
	exec unshare -m -n "$0" --in "$root"
}

main "$@"
