#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# initrd.sh TREE: write an initramfs for the kernel in TREE (from kernel.sh) to
# standard output. It loads the modules with which a virtual machine accesses the host's
# files (9p over virtio), makes these files its root, and executes the job's init.sh.
set -euo pipefail

STAGE=

write_init()
{
	cat <<- 'END'
		#!/bin/busybox sh
		b=/bin/busybox
		stop()
		{
			echo "vm: $*"
			$b poweroff -f
		}
		mount_9p()
		{
			$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,$1 $2 $3
		}

		$b mount -t proc proc /proc
		$b mount -t devtmpfs devtmpfs /dev
		while read -r module; do
			$b insmod "/modules/$module" || stop "cannot load $module"
		done < /modules/list
		mount_9p ro,cache=loose root /new || stop "cannot mount the host's files"
		# /new is read-only, so create the mount points in a tmpfs. After init.sh
		# has mounted a tmpfs at /tmp, /mnt/host still shows the host's /tmp.
		$b mount -t tmpfs tmpfs /new/mnt
		$b mkdir /new/mnt/host /new/mnt/job
		$b mount -o bind /new /new/mnt/host
		mount_9p cache=none job /new/mnt/job || stop "cannot mount the job"
		$b umount /dev
		$b umount /proc
		exec $b switch_root /new /bin/sh /mnt/job/init.sh
	END
}

# Print the files of the modules in the order of their dependencies. A built-in module has
# no file.
modules()
{
	local tree=$1 release=$2 module

	for module in virtio_pci 9pnet_virtio 9p; do
		modprobe -d "$tree" -S "$release" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

main()
{
	local tree release file

	tree=$(readlink -f "${1:?usage: initrd.sh TREE}")
	release=$(cat "$tree/release")
	STAGE=$(mktemp -d)
	trap 'rm -rf "$STAGE"' EXIT
	mkdir "$STAGE"/{bin,dev,modules,proc,new}
	cp /bin/busybox "$STAGE/bin"
	write_init > "$STAGE/init"
	chmod 755 "$STAGE/init"
	modules "$tree" "$release" > "$STAGE/files"
	while read -r file; do
		cp "$file" "$STAGE/modules"
		basename "$file"
	done < "$STAGE/files" > "$STAGE/modules/list"
	(cd "$STAGE" && find bin dev init modules proc new |
		cpio --quiet -o -H newc -R 0:0 | gzip -1)
}

main "$@"
