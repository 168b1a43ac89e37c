#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# root.sh SUITE [--ro DIR]... [--rw DIR]... [--] COMMAND [ARG]...: run COMMAND as root
# in a Debian system of that suite (bookworm, trixie, or trixie-backports, which is trixie
# with a newer kernel). The system contains the compiler and the packages that are needed
# to build modules. Each DIR is mounted there under its own name. All other changes are
# lost when COMMAND ends, and there is no network. Without COMMAND: print the directory
# of the system. Needs root and debootstrap.
#
# The first call installs the Debian system of a suite in
# ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/root-SUITE, from the package mirror that
# this machine uses. The directory needs 1 to 1.5 GB. Remove it to get newer packages. It
# contains the headers of the system's kernel, and scripts/vm/run.sh can use it as the tree
# of that kernel.
#
# Other scripts source this file for root_dir, root_layer, root_share and in_root, and
# define say() and die().

ROOT_HERE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
ROOT_CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
# shellcheck source=scripts/debian.sh
. "$ROOT_HERE/debian.sh"
# shellcheck source=scripts/uml/suites.sh
. "$ROOT_HERE/uml/suites.sh"
# openssl creates the key of dkms. The libraries of hpccmon are regular expressions for apt, because
# their names end with a version.
ROOT_PACKAGES='dkms gcc iproute2 libc6-dev man-db openssl procps python3
	^libjson-c[0-9]*$ ^libmicrohttpd[0-9]+(t64)?$'
# Modules that a guest with this kernel may load.
ROOT_MODULES='arch crypto lib net fs/9p fs/netfs fs/fscache drivers/virtio drivers/net/veth.ko*
	drivers/net/dummy.ko* drivers/net/tun.ko* drivers/char/hw_random'
ROOT=

in_root()
{
	chroot "$ROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive "$@"
}

# root_image RELEASE: install the parts of this kernel image that a virtual machine needs,
# if the headers do not depend on the image. The whole image is four times as large.
root_image()
{
	local image=linux-image-$1 parts path
	local -a keep=('./boot/vmlinuz*' '*/vmlinuz' '*/modules.builtin*' '*/modules.order')

	for path in $ROOT_MODULES; do
		keep+=("*/kernel/$path")
	done
	# From 7.x on, image and modules are separate packages.
	parts=$(in_root apt-cache depends --important "$image" |
		sed -nE 's/^ *\|?Depends: (linux-(binary|modules)-.*)$/\1/p')
	mkdir "$ROOT/debs"
	# shellcheck disable=SC2016,SC2086 # the shell in the root expands it; a list
	in_root sh -c 'cd /debs && apt-get download -q -o APT::Sandbox::User= "$@"' - "$image" $parts
	for path in "$ROOT"/debs/*.deb; do
		# Some packages contain only some of these files.
		dpkg-deb --fsys-tarfile "$path" |
			tar -C "$ROOT" --keep-directory-symlink -xf - --wildcards "${keep[@]}" || true
	done
	rm -r "$ROOT/debs"
}

# root_tree RELEASE: create the files that scripts/vm/run.sh needs in the tree of a kernel.
root_tree()
{
	local release=$1 image

	[ -d "$ROOT/usr/lib/modules/$release/kernel/net" ] || root_image "$release"
	image=$(find "$ROOT/boot" "$ROOT/usr/lib/modules/$release" -name 'vmlinuz*' | head -n 1)
	ln -sf "${image#"$ROOT/"}" "$ROOT/vmlinuz"
	# The first program of a virtual machine cannot load compressed modules.
	find "$ROOT/usr/lib/modules/$release/kernel" -name '*.ko.xz' \
		\( -path '*/9p*' -o -path '*/netfs/*' -o -path '*/fscache/*' -o -path '*/virtio/*' \) \
		-exec xz -d {} +
	in_root depmod "$release"
	echo "$release" > "$ROOT/release"
	"$ROOT_HERE/vm/initrd.sh" "$ROOT" > "$ROOT/initrd"
}

# root_release: print the newest kernel in the root that the modules support.
root_release()
{
	local arch want

	arch=$(dpkg --print-architecture)
	want=$(sed -n 's/^BUILD_EXCLUSIVE_KERNEL="^\(.*\)"$/\1/p' "$ROOT_HERE/../dkms.conf")
	in_root apt-cache pkgnames linux-headers- | sed -n "s/^linux-headers-\(.*-$arch\)$/\1/p" |
		grep -E "^$want" | grep -vE -- "-(cloud|rt)-" | sort -V | tail -n 1
}

# root_make SUITE DIR: create the root. To be called in its own mount namespace, so that no
# mount remains after an interruption.
root_make()
{
	local suite=${1%-backports} mirror release

	mirror=$(suites_mirror)
	[ -n "$mirror" ] || die "no Debian mirror is configured here"
	ROOT=$2
	debootstrap --variant=minbase "$suite" "$ROOT" "$mirror"
	mount -t proc proc "$ROOT/proc"
	if [ "$suite" != "$1" ]; then
		echo "deb $mirror $1 main" >> "$ROOT/etc/apt/sources.list"
		in_root apt-get update -q
	fi
	# shellcheck disable=SC2086 # a list
	in_root apt-get install -q -y --no-install-recommends $ROOT_PACKAGES
	release=$(root_release)
	in_root apt-get install -q -y --no-install-recommends -t "$1" "linux-headers-$release"
	root_tree "$release"
	umount "$ROOT/proc"
}

# root_dir SUITE: print the directory of the root, and create it if it does not exist.
root_dir()
(
	final=$ROOT_CACHE/root-$1

	[[ $1 =~ ^[a-z]+(-backports)?$ ]] ||
		die "\"$1\" is not a suite of Debian, such as bookworm, trixie or trixie-backports"
	[ "$(id -u)" = 0 ] || die "needs root"
	command -v debootstrap > /dev/null || die "needs debootstrap; scripts/install-deps vm installs it"
	mkdir -p "$ROOT_CACHE"
	exec 9> "$ROOT_CACHE/root.lock"
	flock 9
	if [ ! -e "$final" ]; then
		say "installing Debian $1 in $final"
		new=$(mktemp -d "$final.XXXXXX")
		trap 'rm -rf --one-file-system "$new"' EXIT
		trap 'exit 130' INT TERM
		chmod 755 "$new"
		if ! unshare -m "$ROOT_HERE/root.sh" --make "$1" "$new" 9>&- > "$final.log" 2>&1; then
			tail -n 5 "$final.log" >&2
			die "the installation failed; its output is in $final.log"
		fi
		mv -T "$new" "$final"
	fi
	echo "$final"
)

# root_layer DIR WORK: mount a writable layer above DIR in the empty directory WORK, and set
# ROOT. To be called in its own mount namespace.
root_layer()
{
	ROOT=$2/root
	mount -t tmpfs -o mode=755 tmpfs "$2"
	mkdir "$2"/{upper,upper-work,root}
	mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/upper-work" overlay "$ROOT" \
		2> /dev/null || cp -a "$1/." "$ROOT"
	mount -t proc proc "$ROOT/proc"
}

# root_share ro|rw DIR: bind-mount DIR in ROOT under its own name.
root_share()
{
	mkdir -p "$ROOT$2"
	mount --bind "$2" "$ROOT$2"
	[ "$1" = rw ] || mount -o remount,bind,ro "$ROOT$2"
}

# root_run DIR RO RW COMMAND...: run COMMAND; RO and RW have one directory per line.
root_run()
{
	local dir=$1 ro=$2 rw=$3 share
	local -a shares

	shift 3
	WORK=$(mktemp -d)
	trap 'umount -l "$WORK"; rmdir "$WORK"' EXIT
	trap 'exit 130' INT TERM
	root_layer "$dir" "$WORK"
	mapfile -t shares <<< "$ro"
	for share in "${shares[@]}"; do
		[ -z "$share" ] || root_share ro "$share"
	done
	mapfile -t shares <<< "$rw"
	for share in "${shares[@]}"; do
		[ -z "$share" ] || root_share rw "$share"
	done
	in_root "$@"
}

root_main()
{
	local suite dir ro='' rw=''

	case ${1:-} in
	--make)
		shift
		root_make "$@"
		return
		;;
	--run)
		shift
		root_run "$@"
		return
		;;
	esac
	[ $# -gt 0 ] || die "usage: root.sh SUITE [--ro DIR]... [--rw DIR]... [--] [COMMAND...]"
	suite=$1
	shift
	while [ $# -gt 0 ]; do
		case $1 in
		--ro) ro+=$(readlink -f "$2")$'\n'; shift 2 ;;
		--rw) rw+=$(readlink -f "$2")$'\n'; shift 2 ;;
		--) shift; break ;;
		-*) die "unknown option $1; see the head of $0" ;;
		*) break ;;
		esac
	done
	dir=$(root_dir "$suite") || return 1
	if [ $# -gt 0 ]; then
		exec unshare -m -n "$0" --run "$dir" "$ro" "$rw" "$@"
	fi
	echo "$dir"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	set -euo pipefail
	say() { echo "root: $*" >&2; }
	die() { say "$*"; exit 1; }
	root_main "$@"
fi
