#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makefile, Kbuild, install-deps: the commands of a user, in a copy of the tree.

TOP=$(dirname "$(readlink -f "$0")")/../..
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir
chmod 755 "$WORK"

# prints STATUS PATTERN COMMAND...: COMMAND succeeds if STATUS is 0, and fails otherwise.
# One line of its output matches PATTERN.
prints()
{
	local status=$1 pattern=$2 out rc=0

	shift 2
	out=$("$@" 2>&1) || rc=$?
	echo "$out"
	[ "$((rc != 0))" = "$((status != 0))" ] && grep -qE "$pattern" <<< "$out"
}

# refused PATTERN COMMAND...: COMMAND fails, and prints one of our error messages, which matches
# PATTERN.
refused()
{
	local pattern=$1 out

	shift
	out=$("$@" 2>&1) && return 1
	echo "$out"
	out=$(grep -E '^modules: |^[^ ]+: (\*\*\* )?hpcc: ' <<< "$out")
	[ "$(wc -l <<< "$out")" = 1 ] && grep -qE "$pattern" <<< "$out"
}

# ---- install-deps

# Create programs that simulate a machine without bc; its apt-get prints its arguments.
fake_machine()
{
	mkdir "$WORK/bin"
	cat > "$WORK/bin/dpkg-query" <<-'SCRIPT'
		#!/bin/bash
		for package in "${@:3}"; do
			[ "$package" = bc ] && [ ! -e "$FAKE_STATE/bc" ] ||
				echo "installed $package"
		done
	SCRIPT
	cat > "$WORK/bin/apt-get" <<-'SCRIPT'
		#!/bin/bash
		echo "apt-get $*"
		case $1 in
		update) touch "$FAKE_STATE/updated" ;;
		install)
			[ -z "$FAKE_STALE" ] || [ -e "$FAKE_STATE/updated" ] || exit 100
			touch "$FAKE_STATE/bc"
			;;
		esac
	SCRIPT
	printf '#!/bin/sh\nexit 1\n' > "$WORK/bin/sudo"
	chmod +x "$WORK/bin"/*
	mkdir "$WORK/state"
}

need_some_root()
{
	[ "$(id -u)" = 0 ] || unshare -r true 2> /dev/null || skip "needs root, or user namespaces"
}

# as_root COMMAND...: as root, or as root of a user namespace
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		unshare -r "$@"
	fi
}

# deps [NAME=VALUE]...: run install-deps on that machine in its initial state
deps()
{
	rm -rf "$WORK/state/"*
	as_root env PATH="$WORK/bin:$PATH" FAKE_STATE="$WORK/state" FAKE_STALE= "$@" scripts/install-deps
}

deps_complete()
{
	local out

	mkdir -p "$WORK/state2"
	touch "$WORK/state2/bc"
	out=$(env PATH="$WORK/bin:$PATH" FAKE_STATE="$WORK/state2" scripts/install-deps 2>&1) &&
		[ -z "$out" ]
}

deps_root()
{
	need_some_root
	prints 0 'apt-get install .*--no-install-recommends.* bc$' deps
}

deps_stale_lists()
{
	need_some_root
	prints 0 'apt-get update' deps FAKE_STALE=1 && [ -e "$WORK/state/bc" ]
}

deps_nobody()
{
	cp scripts/install-deps scripts/debian.sh "$WORK"
	prints 1 '^    sudo apt-get update && sudo apt-get install --no-install-recommends bc$' \
		as_nobody env PATH="$WORK/bin:$PATH" FAKE_STATE="$WORK/nothing" "$WORK/install-deps"
}

# "make demo" does not need the programs that only tests use.
deps_demo()
{
	local tests='^(clang|llvm|tshark|sparse|shellcheck|libcmocka-dev|python3-docutils|git)$'

	[ "$(scripts/install-deps --print lab test | grep -cE "$tests")" = 8 ] &&
		! scripts/install-deps --print | grep -E "$tests" &&
		prints 0 '^scripts/install-deps$' make -n deps demo
}

# build.sh finds the kernel of a guest without apt, because apt takes a second for each guest.
no_apt()
{
	mkdir -p "$WORK/no-apt"
	printf '#!/bin/sh\ntouch "%s/no-apt/called"\nexit 1\n' "$WORK" |
		tee "$WORK/no-apt/apt-get" > "$WORK/no-apt/apt-cache"
	chmod 755 "$WORK/no-apt"/apt-*
	prints 0 '/uml-[0-9.]*-[0-9a-f]*$' env PATH="$WORK/no-apt:$PATH" scripts/uml/build.sh --where &&
		[ ! -e "$WORK/no-apt/called" ]
}

# ---- make

# Distributions with dnf have another name for the package of headers.
no_headers_dnf()
{
	mkdir "$WORK/dnf"
	printf '#!/bin/sh\n' > "$WORK/dnf/dnf"
	chmod +x "$WORK/dnf/dnf"
	refused 'dnf install kernel-devel-6.1.0-0-none' \
		env PATH="$WORK/dnf:$PATH" make modules KVER=6.1.0-0-none
}

# Run make for the guest's kernel, which always exists, with variables of another kernel.
# Nothing is compiled; make fails at the link step of the modules at the latest.
modules_for()
{
	local tree

	tree=$(scripts/uml/build.sh) || return 1
	make -n modules KDIR="$tree" ARCH=um "$@"
}

out_of_range()
{
	refused "hpcc: kernel ${1//./\\.} is outside 6\.1 to 7\.2;.*HPCC_ANY_KERNEL=1" \
		modules_for KERNELRELEASE="$1"
}

in_range()
{
	local release

	for release in 6.1.0-50-amd64 6.9.7 6.12.94+deb13-amd64 6.19-rc1 7.0.1 7.2.12+deb14-amd64; do
		prints 1 'kmod/hpcc/hook/syn\.o' modules_for KERNELRELEASE="$release" || return 1
	done
}

# lacks OPTION...: for a kernel without these options, the error names all these options
lacks()
{
	refused "hpcc: kernel 6[^ ]* was configured without $*\." modules_for "${@/%/=}"
}

# kernel_of VERSION LINKER [TOOL...]: create headers of a kernel that clang has built, and the
# programs TOOL. The Makefile of the headers prints the tools that make selected.
kernel_of()
{
	local tool

	rm -rf "$WORK/clang"
	mkdir -p "$WORK/clang/bin"
	printf 'CONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=%s\n%s\n' "$1" "$2" > "$WORK/clang/.config"
	# shellcheck disable=SC2016 # for make
	printf 'modules:\n\t@echo "LLVM=$(LLVM) CC=$(CC)"\n' > "$WORK/clang/Makefile"
	for tool in "${@:3}"; do
		printf '#!/bin/sh\n' > "$WORK/clang/bin/$tool"
		chmod +x "$WORK/clang/bin/$tool"
	done
}

# tools_are PATTERN [NAME=VALUE...]: make selects these tools for the headers of the last kernel_of()
tools_are()
{
	prints 0 "$1" env PATH="$WORK/clang/bin:/usr/bin:/bin" make modules KDIR="$WORK/clang" "${@:2}"
}

# gcc does not support the options of kernels that clang has built.
clang_kernel()
{
	kernel_of 990001 CONFIG_LD_IS_LLD=y clang-99 ld.lld-99 && tools_are '^LLVM=-99 ' || return
	tools_are '^LLVM= CC=gcc-7$' CC=gcc-7 && tools_are '^LLVM=1 ' LLVM=1 || return
	kernel_of 980001 CONFIG_LD_IS_LLD=y && tools_are '^LLVM=1 ' || return
	kernel_of 990001 CONFIG_LD_IS_BFD=y clang-99 && tools_are '^LLVM= CC=clang-99$' || return
	kernel_of 980001 CONFIG_LD_IS_BFD=y && tools_are '^LLVM= CC=clang$' || return
	kernel_of 980001 '' && sed -i 1d "$WORK/clang/.config" && tools_are '^LLVM= CC=cc$'
}

# The BBRv3 patch replaces min_tso_segs by tso_segs.
tso_segs()
{
	local tree

	tree=$(scripts/uml/build.sh) || return 1
	mkdir -p "$WORK/bbr3/net"
	sed 's/u32 (\*min_tso_segs)(struct sock \*sk);/u32 (*tso_segs)(struct sock *sk, unsigned int mss_now);/' \
		"$tree/include/net/tcp.h" > "$WORK/bbr3/net/tcp.h"
	! cmp "$tree/include/net/tcp.h" "$WORK/bbr3/net/tcp.h" || return 1
	# With another first header gcc uses no precompiled headers, which contain the old net/tcp.h.
	make -s -C "$tree" M="$PWD" ARCH=um NOSTDINC_FLAGS="-nostdinc -I$WORK/bbr3 -include linux/kconfig.h" \
		kmod/hpcc/control/ack.o kmod/ldcp/cc.o || return 1
	nm kmod/hpcc/control/ack.o | grep ' hpcc_tso_segs$' && rm kmod/hpcc/control/ack.o kmod/ldcp/cc.o .hpcc-probes
}

install_user()
{
	local dest=$WORK/dest file

	make install-user DESTDIR="$dest" PREFIX=/usr TC_LIB_DIR=/usr/lib/tc || return 1
	for file in lib/tc/q_hpcc.so lib/wireshark/plugins/hpcc.lua lib/wireshark/plugins/hpcc-carriers.lua bin/hpcc-lab bin/hpcc-replay bin/hpcc-paper bin/compare-ns3 bin/hpccmon share/man/man7/tcp_hpcc.7 \
		    share/bash-completion/completions/hpccmon share/bash-completion/completions/hpcc-lab share/man/man8/hpccmon.8 share/man/man8/tc-hpcc.8 share/man/man1/hpcc-lab.1 share/hpcc/grafana/hpcc.json share/hpcc/Kbuild share/hpcc/kmod/hpcc/main.c; do
		[ -e "$dest/usr/$file" ] || [ -L "$dest/usr/$file" ] || { echo "no $file"; return 1; }
	done
	"$dest/usr/share/hpcc/scripts/hpcc-lab" --help || return 1
	# The package recommends all packages of "make demo".
	for file in $(scripts/install-deps --print | sed 's/-[0-9.]*$//'); do
		sed -n '/^Package: hpcc-tools/,/^Description/p' debian/control | grep -qE "[ ,]$file(,|$)" ||
			[ "$file" = util-linux ] || { echo "hpcc-tools does not recommend $file"; return 1; }
	done
}

# nothing COMMAND...: COMMAND prints nothing
nothing()
{
	local left

	left=$("$@")
	echo "$left"
	[ -z "$left" ]
}

uninstall()
{
	make uninstall DESTDIR="$WORK/dest" PREFIX=/usr TC_LIB_DIR=/usr/lib/tc && nothing find "$WORK/dest" ! -type d
}

# modules KVER [NAME=VALUE]...: build the modules, install them in a directory, uninstall them
modules()
{
	local kver=$1 dest=$WORK/dest-$1 name left

	shift
	make -s -j2 install KVER="$kver" DESTDIR="$dest" PREFIX=/usr "$@" || return 1
	for name in $(our_modules); do
		left=$(find "$dest/lib/modules/$kver" -name "$name.ko*")
		[ -n "$left" ] || { echo "no $name.ko"; return 1; }
		modinfo -F vermagic "$left" | grep -F "$kver " || return 1
		modinfo -F version "$left" | grep . || return 1
	done
	make -s uninstall KVER="$kver" DESTDIR="$dest" PREFIX=/usr "$@" &&
		nothing find "$dest" \( -name '*hpcc*' -o -name '*ldcp*' \) ! -type d
}

# If no headers are installed: use the guest's kernel, which always exists.
modules_of_guest()
{
	local tree kver

	tree=$(scripts/uml/build.sh) || return 1
	kver=$(make -s -C "$tree" ARCH=um kernelrelease) || return 1
	modules "$kver" KDIR="$tree" ARCH=um
}

all_files()
{
	find . -type f | sed 's,^\./,,' | sort
}

clean()
{
	make -s clean && all_files | nothing comm -23 - "$WORK/before"
}

main()
{
	local dir kernels=()

	for dir in /lib/modules/*/build; do
		[ ! -e "$dir/Makefile" ] || kernels+=("$(basename "$(dirname "$dir")")")
	done
	copy_tree "$WORK/tree"
	cd "$WORK/tree" || exit 1
	all_files > "$WORK/before"
	fake_machine
	ktap_plan "$((20 + (${#kernels[@]} ? ${#kernels[@]} : 1)))"

	ok "install-deps: prints nothing if nothing is missing" deps_complete
	ok "install-deps: installs as root" deps_root
	ok "install-deps: updates outdated lists" deps_stale_lists
	ok "install-deps: without root, prints the command to run" deps_nobody
	ok "install-deps: make demo installs no programs of tests" deps_demo
	ok "build.sh: finds the kernel without apt" no_apt
	ok "modules: names the package of missing headers" \
		refused 'apt-get install linux-headers-6.1.0-0-none' make modules KVER=6.1.0-0-none
	ok "modules: names the dnf package of missing headers" no_headers_dnf
	ok "modules: a kernel before 6.1 is refused" out_of_range 5.10.0-9-amd64
	ok "modules: a kernel after 7.2 is refused" out_of_range 7.3.0-rc1
	ok "modules: kernels from 6.1 to 7.2 are accepted" in_range
	ok "modules: HPCC_ANY_KERNEL=1 accepts any kernel" \
		prints 1 'kmod/hpcc/hook/syn\.o' modules_for KERNELRELEASE=7.3.0-rc1 HPCC_ANY_KERNEL=1
	ok "modules: reports a missing CONFIG_NETFILTER" lacks CONFIG_NETFILTER
	ok "modules: reports a missing CONFIG_NET_SCHED" lacks CONFIG_NET_SCHED
	ok "modules: reports all missing options" lacks CONFIG_INET CONFIG_NETFILTER
	ok "modules: uses the tools that built the kernel" clang_kernel
	ok "modules: a kernel with the BBRv3 patch" tso_segs
	ok "install-user: installs all files" install_user
	ok "uninstall: leaves no file" uninstall
	[ "${#kernels[@]}" -gt 0 ] || ok "install: modules for the guest" modules_of_guest
	for dir in "${kernels[@]}"; do
		ok "install: modules for $dir" modules "$dir"
	done
	ok "clean: leaves no file" clean
	ktap_exit
}

main
