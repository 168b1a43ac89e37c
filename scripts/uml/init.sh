#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Process 1 of the lab's guest. run.sh has left what it has to run in /mnt, and
# /proc is there. The root is the host's file system, read-only; whatever a
# guest needs to write goes to tmpfs or to the directories that run.sh was given
# with --rw.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/tmp TERM=dumb LC_ALL=C.UTF-8 HPCC_GUEST=1

mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
stty -opost < /dev/console
for dir in /run /tmp /var/tmp; do
	mount -t tmpfs tmpfs "$dir"
done
mkdir -p /run/netns
mount -t debugfs debugfs /sys/kernel/debug
# Its place below debugfs is going away.
mount -t tracefs tracefs /sys/kernel/tracing

# tmpfs hides what the host keeps below /tmp and the like: show what the job
# needs of it again. Lines: ro|rw PATH.
while read -r mode dir; do
	mkdir -p "$dir" 2> /dev/null
	mount -t hostfs -o "$mode,$dir" hostfs "$dir"
done < /mnt/mounts

# A guest has no other use for its memory than packets.
read -r _ total _ < /proc/meminfo
echo "$((total / 16)) $((total / 8)) $((total / 6))" > /proc/sys/net/ipv4/tcp_mem

# stdin must not be the console: a program that reads it would never end.
/bin/bash /mnt/main < /dev/null
echo $? > /mnt/status
# A debug kernel: whatever nobody refers to any more for some seconds has leaked.
if [ -e /sys/kernel/debug/kmemleak ]; then
	for _ in 1 2; do
		sleep 6
		echo scan > /sys/kernel/debug/kmemleak
	done
	cat /sys/kernel/debug/kmemleak
fi
# No "System halted"; a panic before this point is shown.
echo 0 > /proc/sys/kernel/printk
# perl is essential in Debian; a poweroff(8) that needs no init system is not.
# sync(2), then reboot(2) with RB_POWER_OFF: its numbers on x86-64.
perl -e 'syscall(162); syscall(169, 0xfee1dead, 0x28121969, 0x4321fedc, 0)'
