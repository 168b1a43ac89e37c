#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Process 1 of a virtual machine, after initrd.sh has mounted the host's file system as
# its read-only root. /mnt/host contains the whole file system of the host, and /mnt/job
# contains the job that run.sh has prepared. All other writes go to tmpfs, or to the
# directories of the options --rw of run.sh.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/tmp TERM=dumb LC_ALL=C.UTF-8 HPCC_GUEST=1

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# One write per second shows run.sh that the machine is alive.
while echo > /mnt/job/alive; do
	sleep 1
done &
# The terminal of the job; the kernel uses the first terminal.
exec < /dev/null > /dev/ttyS1 2>&1
stty -opost < /dev/ttyS1
for dir in /run /tmp /var/tmp; do
	mount -t tmpfs tmpfs "$dir"
done
mkdir -p /run/netns /run/lock /dev/net
# Opening this device loads the module.
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
mount -t debugfs debugfs /sys/kernel/debug 2> /dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2> /dev/null

# tmpfs hides the host's files below /tmp and the like: mount the directories that the job
# needs again. /mnt/job/mounts has three lines per mount: "ro" or the tag of a 9p device, the
# directory on the host, and the mount point.
while read -r mode && read -r dir && read -r place; do
	mkdir -p "$place" 2> /dev/null
	case $mode in
	ro) mount --bind "/mnt/host$dir" "$place" ;;
	*) mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=mmap "$mode" "$place" ;;
	esac
done < /mnt/job/mounts

# Let TCP use most of the memory: a guest needs it for packets only.
read -r _ total _ < /proc/meminfo
echo "$((total / 16)) $((total / 8)) $((total / 6))" > /proc/sys/net/ipv4/tcp_mem
# Packets between interfaces wait in one queue of the CPU. The default
# limit, 1000 packets, is enough for one host, but not for hundreds of hosts in this kernel.
echo 1000000 > /proc/sys/net/core/netdev_max_backlog
# On a busy host a virtual CPU may not run for a long time, which is not a lockup.
[ ! -e /proc/sys/kernel/watchdog_thresh ] || echo 30 > /proc/sys/kernel/watchdog_thresh

/bin/bash /mnt/job/main
echo $? > /mnt/job/status
# run.sh reads the status from here if the guest shares no directory with its host.
echo "vm: status $(cat /mnt/job/status)" > /dev/ttyS0
# stty first transmits the output that is still in the buffer of the terminal.
stty -F /dev/ttyS1 sane
# perl is an essential package of Debian; a poweroff(8) that needs no init system is not.
# sync(2), then reboot(2) with RB_POWER_OFF: its numbers on x86-64.
perl -e 'syscall(162); syscall(169, 0xfee1dead, 0x28121969, 0x4321fedc, 0)'
