#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh [--kernel-version X.Y] [--debug] [--jobs N] [--where]: build the lab's User
# Mode Linux kernel out of Debian's linux-source package, once, and print the
# path of its tree, against which modules are built too. Default X.Y:
# $HPCC_KERNEL, else the distribution's own kernel version; source.sh finds
# others. --debug, or HPCC_DEBUG=1, builds one that watches itself
# (kernel.debug.config).
#
# Trees live in ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}, keyed by
# package version, configuration and patches; --where prints the path without
# building anything.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
# What the configuration amounts to, within a few percent.
OBJECTS=1130
BUILDING=
MAKE_PID=
TARBALL=
DEBUG=

say()
{
	echo "uml: $*" >&2
}

die()
{
	say "$*"
	exit 1
}

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	[ -z "$MAKE_PID" ] || kill "$MAKE_PID" 2>/dev/null || true
	[ -z "$BUILDING" ] || rm -rf "$BUILDING"
}

installed_versions()
{
	local file

	for file in /usr/src/linux-source-*.tar.xz; do
		[ -e "$file" ] || continue
		file=${file##*/linux-source-}
		echo "${file%.tar.xz}"
	done | sort -V
}

# The distribution's own; else the newest that is here.
default_version()
{
	local version

	version=$(apt-cache depends linux-source 2>/dev/null |
		  sed -n 's/.*Depends: linux-source-\([0-9.]*\)$/\1/p' | head -n 1)
	if [ -z "$version" ] || [ ! -e "/usr/src/linux-source-$version.tar.xz" ]; then
		version=$(installed_versions | tail -n 1 | grep . || echo "$version")
	fi
	[ -n "$version" ] || die "no linux-source package known; run apt-get update"
	echo "$version"
}

# The distribution's own comes as a package, others from where source.sh says.
# Sets TARBALL.
need_source()
{
	local version=$1 package=linux-source-$1

	TARBALL=/usr/src/$package.tar.xz
	[ ! -e "$TARBALL" ] || return 0
	if [ -z "$(apt-cache policy "$package" 2>/dev/null)" ]; then
		TARBALL=$("$HERE/source.sh" "$version")
		return
	fi
	[ "$(id -u)" = 0 ] ||
		die "$package is not installed; run: sudo apt-get install $package"
	say "installing $package"
	apt-get install -y --no-install-recommends "$package" >&2 ||
		die "apt-get install $package failed"
}

configuration()
{
	cat "$HERE/kernel.config" ${DEBUG:+"$HERE/kernel.debug.config"}
}

# Everything that decides what is built.
tree_key()
{
	local version=$1 hash

	hash=$({
		dpkg-query -W -f '${Version}' "linux-source-$version" 2>/dev/null ||
			stat -c %s "$TARBALL"
		configuration
		cat "$HERE/patch.sh"
		"${CC:-gcc}" -dumpversion
	} | sha256sum)
	echo "uml-$version-${DEBUG:+debug-}${hash:0:12}"
}

progress()
{
	local log=$1 started=$SECONDS

	while kill -0 "$MAKE_PID" 2>/dev/null; do
		sleep 2
		say "compiling: $(grep -cE '^  (CC|AS|AR|LD)' "$log") of about $OBJECTS objects, $((SECONDS - started)) s"
	done
}

run_make()
{
	local tree=$1 log=$1/build.log

	shift
	make -C "$tree" ARCH=um "$@" > "$log" 2>&1 < /dev/null &
	MAKE_PID=$!
	progress "$log"
	if ! wait "$MAKE_PID"; then
		MAKE_PID=
		cp "$log" "$CACHE/build.log"
		tail -n 30 "$log" >&2
		die "the build failed; all of its output is in $CACHE/build.log"
	fi
	MAKE_PID=
}

# Without the bulk that neither this build nor a module build ever reads.
# Kconfig files stay: every one of them is parsed.
unpack()
{
	local package=$1 into=$2 dir
	local -a exclude=()

	for dir in 'arch/[a-t]*' sound drivers/{gpu,media,staging,infiniband,scsi,iio} \
		   drivers/net/{ethernet,wireless,wan} tools/{perf,testing}; do
		exclude+=(--exclude="$package/$dir/*.[chS]" --exclude="$package/$dir/*.dts*")
	done
	say "unpacking $package"
	tar -C "$into" --strip-components=1 -xJf "$TARBALL" \
		"${exclude[@]}" --exclude="$package/Documentation/*.rst" \
		--exclude="$package/Documentation/*.yaml"
}

configure()
{
	local tree=$1 line name

	configuration > "$tree/hpcc.config"
	make -s -C "$tree" ARCH=um KCONFIG_ALLCONFIG="$tree/hpcc.config" \
		allnoconfig > "$tree/config.log" 2>&1 || {
		cat "$tree/config.log" >&2
		die "configuration failed"
	}
	while read -r line; do
		name=${line%%=*}
		grep -q "^$name=" "$tree/.config" ||
			say "note: this kernel has no $name"
	done < <(grep '^CONFIG_' "$tree/hpcc.config")
	grep -q '^CONFIG_UML_TIME_TRAVEL_SUPPORT=y' "$tree/.config" ||
		die "UML_TIME_TRAVEL_SUPPORT is off: virtual time is not possible"
}

# Modules need headers, scripts and symbol versions, not objects.
slim()
{
	local tree=$1

	find "$tree" \( -path "$tree/scripts" -o -path "$tree/tools" \) -prune -o \
		-type f \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) \
		-exec rm -f {} +
	rm -f "$tree/vmlinux"
	rm -rf "${tree:?}/sound" "${tree:?}/drivers" "${tree:?}/fs" \
		"${tree:?}/mm" "${tree:?}/crypto" "${tree:?}/samples"
}

build()
{
	local package=$1 final=$2 jobs=$3

	BUILDING=$(mktemp -d "$final.XXXXXX")
	chmod 755 "$BUILDING"
	unpack "$package" "$BUILDING"
	"$HERE/patch.sh" "$BUILDING"
	configure "$BUILDING"
	run_make "$BUILDING" -j "$jobs" linux modules_prepare
	# "linux modules" would do the same, but there are no modules.
	[ -s "$BUILDING/Module.symvers" ] ||
		cp "$BUILDING/vmlinux.symvers" "$BUILDING/Module.symvers"
	slim "$BUILDING"
	mv "$BUILDING" "$final"
	BUILDING=
}

main()
{
	local version=${HPCC_KERNEL:-} jobs where=0 package final

	jobs=$(nproc)
	[ "${HPCC_DEBUG:-0}" = 0 ] || DEBUG=1
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel-version) version=${2:?--kernel-version needs a value}; shift 2 ;;
		--debug) DEBUG=1; shift ;;
		--jobs) jobs=${2:?--jobs needs a value}; shift 2 ;;
		--where) where=1; shift ;;
		*) die "unknown argument $1 (--kernel-version X.Y, --debug, --jobs N, --where)" ;;
		esac
	done
	[ -n "$version" ] || version=$(default_version)
	package=linux-source-$version
	TARBALL=/usr/src/$package.tar.xz
	[ -e "$TARBALL" ] || TARBALL=$CACHE/source/$package.tar.xz
	[ "$where" = 1 ] || need_source "$version"
	final=$CACHE/$(tree_key "$version")
	if [ "$where" = 0 ] && [ ! -x "$final/linux" ]; then
		mkdir -p "$CACHE"
		trap cleanup EXIT
		trap 'exit 130' INT TERM
		exec 9> "$CACHE/build.lock"
		flock -n 9 || { say "another build is running, waiting for it"; flock 9; }
		[ -x "$final/linux" ] || build "$package" "$final" "$jobs"
		exec 9>&-
	fi
	echo "$final"
}

main "$@"
