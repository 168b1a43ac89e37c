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
# gcc looks here for a compiled form of the first header of each file.
PRECOMPILED=include/linux/compiler-version.h.gch

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

# run_make TREE ARGUMENT...: run make. If some files do not compile with the precompiled headers, compile
# them without. The check of exported symbols starts three programs for each object; it is for authors.
run_make()
{
	local tree=$1 log=$1/build.log pch=$1/$PRECOMPILED/kernel

	shift
	while :; do
		[ -e "$pch" ] || pch=
		make -C "$tree" "ARCH=$MAKE_ARCH" ${pch:+-k} cmd_check_local_export= "$@" \
			>> "$log" 2>&1 < /dev/null &
		MAKE_PID=$!
		progress "$log"
		! wait "$MAKE_PID" || break
		MAKE_PID=
		if [ -z "$pch" ]; then
			cp "$log" "$CACHE/build.log"
			tail -n 30 "$log" >&2
			die "the build failed; all of its output is in $CACHE/build.log"
		fi
		rm "$pch"
	done
	MAKE_PID=
}

# precompile TREE MODULE_FLAGS ARGUMENT...: compile the headers that most files include, once for the
# kernel and once for modules, because parsing headers takes more than half of the time of a build. In
# place of the first header of a file, gcc reads the file in $PRECOMPILED that was made with the same
# options and macros, if there is one. The macros that differ in each file must not occur in it. So the
# command line gives them other names, and hpcc-names.h gives them their own names after that. The
# ARGUMENTs are those of make. sort.c uses the name of a macro, swap, as an identifier.
precompile()
{
	local tree=$1 gcc name
	local -A flags=([kernel]="" [module]="-DMODULE $2")

	shift 2
	for name in KBUILD_MODNAME __KBUILD_MODNAME KBUILD_BASENAME KBUILD_MODFILE; do
		printf '#undef %s\n#define %s HPCC_%s\n' "$name" "$name" "$name"
	done > "$tree/include/hpcc-names.h"
	# shellcheck disable=SC2016 # expanded by make
	sed -i -E 's/-D(_*KBUILD_[A-Z]+=)/-DHPCC_\1/
		s|-include .*/compiler_types.h|& -include $(srctree)/include/hpcc-names.h|' "$tree/scripts/Makefile.lib"
	run_make "$tree" "$@" prepare lib/sort.o
	gcc=$(sed -nE '1{s/^[^=]*= //; s/ -Wp,-MMD[^ ]*//; s/ -include [^ ]*//g; s/ -DHPCC_[^ ]*//g
		s/ -fverbose-asm .*//p}' "$tree/kernel/.bounds.s.cmd") || return 0
	mkdir "$tree/$PRECOMPILED"
	for name in kernel module; do
		# shellcheck disable=SC2086 # words
		(cd "$tree" && $gcc ${flags[$name]} -x c-header -o "$PRECOMPILED/$name" \
			"$TREE_SH/precompiled.h") >> "$tree/build.log" 2>&1 || true
	done
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
	rm -f "$tree/vmlinux" "$tree/$PRECOMPILED/kernel"
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
