# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# To be sourced: get a kernel's source, configure it and build it, once, in the cache.
# build.sh uses this for User Mode Linux, and ../vm/build.sh for a kernel of virtual
# machines. The caller defines TREE_NAME (prefix of messages), MAKE_ARCH, OBJECTS (number
# of objects that it compiles, within a few percent), CACHE, and configuration(), which
# prints the options that are set in addition to allnoconfig.
#
# The name of a tree in the cache contains a hash of all inputs of its build.

TREE_SH=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/debian.sh
. "$TREE_SH/../debian.sh"
BUILDING=
MAKE_PID=
TARBALL=

say()
{
	echo "$TREE_NAME: $*" >&2
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

# Print a kernel version: that of the Debian release if its source is installed, else the newest
# version whose source is installed, else that of the Debian release.
default_version()
{
	local version

	version=$(debian_kernel)
	if [ -z "$version" ] || [ ! -e "/usr/src/linux-source-$version.tar.xz" ]; then
		version=$(installed_versions | tail -n 1 | grep . || echo "$version")
	fi
	[ -n "$version" ] ||
		die "no kernel version: install linux-source, or set --kernel-version X.Y or HPCC_KERNEL=X.Y"
	echo "$version"
}

# Get the tarball of a version: install the package if the distribution has it, else use
# source.sh. Sets TARBALL.
need_source()
{
	local version=$1 package=linux-source-$1

	TARBALL=/usr/src/$package.tar.xz
	[ ! -e "$TARBALL" ] || return 0
	if [ -z "$(apt-cache policy "$package" 2>/dev/null)" ]; then
		TARBALL=$("$TREE_SH/source.sh" "$version")
		return
	fi
	[ "$(id -u)" = 0 ] ||
		die "$package is not installed; run: sudo apt-get install $package"
	say "installing $package"
	apt-get install -y --no-install-recommends "$package" >&2 ||
		die "apt-get install $package failed"
}

# want_source VERSION WHERE: set TARBALL. Get the tarball, unless WHERE is 1.
want_source()
{
	local version=$1 where=$2 package=linux-source-$1

	TARBALL=/usr/src/$package.tar.xz
	[ -e "$TARBALL" ] || TARBALL=$CACHE/source/$package.tar.xz
	[ "$where" = 1 ] || need_source "$version"
}

# tree_key VERSION FLAVOUR PATCH...: print the name of the tree.
tree_key()
{
	local version=$1 flavour=$2 hash

	shift 2
	hash=$({
		dpkg-query -W -f '${Version}' "linux-source-$version" 2>/dev/null ||
			stat -c %s "$TARBALL"
		configuration
		cat "$@"
		"${CC:-gcc}" -dumpversion
	} | sha256sum)
	echo "$TREE_NAME-$version-$flavour${hash:0:12}"
}

progress()
{
	local log=$1 started=$SECONDS next=0 every=30

	[ ! -t 2 ] || every=2
	while kill -0 "$MAKE_PID" 2>/dev/null; do
		if [ $((SECONDS - started)) -ge "$next" ]; then
			say "compiling: $(grep -cE '^  (CC|AS|AR|LD)' "$log") of about $OBJECTS objects, $((SECONDS - started)) s"
			next=$((SECONDS - started + every))
		fi
		sleep 1
	done
}

run_make()
{
	local tree=$1 log=$1/build.log

	shift
	make -C "$tree" "ARCH=$MAKE_ARCH" "$@" > "$log" 2>&1 < /dev/null &
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

# Unpack the source without the large directories that neither this build nor a build of
# modules reads. Keep their Kconfig files, because all Kconfig files are parsed.
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

# Configure the tree. Print a note for each option that this kernel version does not have.
configure()
{
	local tree=$1 line name

	configuration > "$tree/hpcc.config"
	make -s -C "$tree" "ARCH=$MAKE_ARCH" KCONFIG_ALLCONFIG="$tree/hpcc.config" \
		allnoconfig > "$tree/config.log" 2>&1 || {
		cat "$tree/config.log" >&2
		die "configuration failed"
	}
	while read -r line; do
		name=${line%%=*}
		grep -q "^$name=" "$tree/.config" ||
			say "note: this kernel has no $name"
	done < <(grep '^CONFIG_' "$tree/hpcc.config")
}

# A kernel without modules has no Module.symvers. "make modules" would create it in this way.
symbol_versions()
{
	[ -s "$1/Module.symvers" ] || cp "$1/vmlinux.symvers" "$1/Module.symvers"
}

# Delete the objects: a build of modules needs only headers, scripts and symbol versions.
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

# build_once LOCK FILE CMD...: run CMD unless FILE exists. LOCK lets one build run at a time.
build_once()
{
	local lock=$CACHE/$1 file=$2

	shift 2
	[ ! -e "$file" ] || return 0
	mkdir -p "$CACHE"
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	exec 9> "$lock"
	flock -n 9 || { say "another build is running, waiting for it"; flock 9; }
	[ -e "$file" ] || "$@"
	exec 9>&-
}
