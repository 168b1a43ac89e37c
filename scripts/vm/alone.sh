#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# alone.sh TREE JOB DIR...: write an initramfs to standard output. It contains the
# programs that tests of selftests/net call, all directories DIR, the job that run.sh
# wrote to JOB, and the network modules of TREE (from kernel.sh). With this initramfs
# the guest needs no file of the host while it runs. So the number of instructions
# for reading files is equal in each run, and does not depend on the load of the host.
set -euo pipefail

PACKAGES='bash dash coreutils diffutils findutils grep sed mawk util-linux mount procps iproute2 kmod
	ethtool nftables perl-base'
MODULES='net/sched net/netfilter net/ipv4 net/ipv6 net/802 net/8021q net/bridge net/llc
	net/core net/xfrm lib crypto drivers/net/veth.ko drivers/net/dummy.ko drivers/net/ifb.ko
	drivers/net/tun.ko drivers/net/vrf.ko'
STAGE=

programs()
{
	local file

	# shellcheck disable=SC2086 # a list
	dpkg -L $PACKAGES | while read -r file; do
		case $file in
		*/bin/*|*/sbin/*|*/tc/*) [ ! -f "$file" ] || echo "$file" ;;
		esac
	done
	echo /bin/sh
	echo /usr/bin/awk
	echo /usr/bin/python3
	find /usr/lib/locale/C.utf8 -type f
}

# The modules of Python's library, without its tests, IDLE and the like; and yaml.
python()
{
	local dir yaml

	dir=$(/usr/bin/python3 -c 'import os; print(os.path.dirname(os.__file__))')
	yaml=$(/usr/bin/python3 -c 'import os, yaml; print(os.path.dirname(yaml.__file__))')
	find "$dir" \( -name __pycache__ -o -name test -o -name idlelib -o -name lib2to3 \
		-o -name ensurepip -o -name 'config-*' -o -name '*-packages' \) -prune -o \
		-type f -print
	find "$yaml" -name '*.py'
}

# libraries LIST: print the libraries of the programs and Python modules in LIST.
libraries()
{
	{ grep -vE '\.(py|[ch]|o|rst|ko)$|/locale/' "$1" | xargs -d '\n' ldd 2> /dev/null || true; } |
		sed -nE 's,^.*[[:space:]](/[^ ]+) \(0x.*,\1,p' | sort -u
}

modules()
{
	local dir part

	dir=$1/lib/modules/$(cat "$1/release")
	for part in $MODULES; do
		[ ! -e "$dir/kernel/$part" ] || find "$dir/kernel/$part" -type f
	done
	find "$dir" -maxdepth 1 -name 'modules.*'
}

# ours DIR: print the files of DIR, without the files of git and the output of tests.
ours()
{
	find "$1" \( -name .git -o -name out -o -name __pycache__ \) -prune -o -type f -print
}

# stage DIR: copy the files below DIR that standard input names; copy the target of a
# link, not the link. If /bin is a link on this host, it is also a link in the copy.
stage()
(
	link=''
	[ ! -L /bin ] || link='s,^(bin|sbin|lib|lib32|lib64)/,usr/&,'
	cd "$1"
	sed -E "s,^/,,; $link" | LC_ALL=C sort -u |
		xargs -d '\n' cp -L --parents --preserve=mode -t "$STAGE/all"
)

# skeleton JOB: create the links, the mount points and /init.
skeleton()
{
	local job=$1 dir

	mkdir -p "$STAGE"/all/usr/{bin,sbin,lib,lib64} \
		"$STAGE"/all/{dev,proc,sys,run,tmp,var/tmp,etc,mnt/job,mnt/host}
	for dir in bin sbin lib lib64; do
		[ ! -L "/$dir" ] || ln -s "usr/$dir" "$STAGE/all/$dir"
	done
	cp "$job"/* "$STAGE/all/mnt/job"
	printf '%s\n' '#!/bin/sh' 'exec /bin/sh /mnt/job/init.sh' > "$STAGE/all/init"
	chmod 755 "$STAGE/all/init"
}

# Write the archive, with times and link counts that do not depend on the host: the
# number of instructions that the guest needs to parse them depends on their digits.
pack()
(
	cd "$STAGE/all"
	find . -exec touch -hd @0 {} +
	find . | LC_ALL=C sort | cpio --quiet --reproducible -o -H newc -R 0:0
)

main()
{
	local tree job dir

	tree=$(readlink -f "${1:?usage: alone.sh TREE JOB DIR...}")
	job=${2:?usage: alone.sh TREE JOB DIR...}
	shift 2
	STAGE=$(mktemp -d)
	trap 'rm -rf "$STAGE"' EXIT
	skeleton "$job"
	{
		programs
		python
		for dir; do
			ours "$dir"
		done
	} > "$STAGE/list"
	{
		cat "$STAGE/list"
		libraries "$STAGE/list"
	} > "$STAGE/files"
	grep -vE '^/(tmp|var/tmp|run)/' "$STAGE/files" | stage /
	# init.sh expects the modules, and the files that tmpfs hides, below /mnt/host.
	mkdir -p "$STAGE/view/mnt"
	ln -s / "$STAGE/view/mnt/host"
	{
		modules "$tree"
		grep -E '^/(tmp|var/tmp|run)/' "$STAGE/files" || true
	} | sed 's,^,mnt/host,' | stage "$STAGE/view"
	pack
}

main "$@"
