#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Process 1 of the lab's guest: run.sh tells it by HPCC_JOB=DIR on the kernel's
# command line what to run. The root is the host's file system, read-only;
# whatever a guest needs to write goes to tmpfs, to the job's directory or to
# the directories that run.sh was given with --rw.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root TERM=dumb LC_ALL=C.UTF-8 HPCC_GUEST=1
# util-linux 2.39 and later would take the directory of a hostfs for an option's
# name, with its new way to mount; the old way suits all kernels.
export LIBMOUNT_FORCE_MOUNT2=always

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
stty -opost < /dev/console
for dir in /run /tmp /var/tmp; do
	mount -t tmpfs tmpfs "$dir"
done
mkdir -p /run/netns /run/hpcc-job /dev/pts
mount -t debugfs debugfs /sys/kernel/debug
mount -t hostfs -o "$HPCC_JOB" hostfs /run/hpcc-job

# tmpfs hides what the host keeps below /tmp and the like: show what the job
# needs of it again. Lines: ro|rw PATH.
while read -r mode dir; do
	mkdir -p "$dir" 2> /dev/null
	mount -t hostfs -o "$mode,$dir" hostfs "$dir"
done < /run/hpcc-job/mounts

# A guest has no other use for its memory than packets.
read -r _ total _ < /proc/meminfo
echo "$((total / 16)) $((total / 8)) $((total / 6))" > /proc/sys/net/ipv4/tcp_mem

# stdin must not be the console: a program that reads it would never end.
/bin/sh /run/hpcc-job/main < /dev/null
echo $? > /run/hpcc-job/status
# No "System halted"; a panic before this point is shown.
echo 0 > /proc/sys/kernel/printk
# perl is essential in Debian; a poweroff(8) that needs no init system is not.
# sync(2), then reboot(2) with RB_POWER_OFF: its numbers on x86-64.
perl -e 'syscall(162); syscall(169, 0xfee1dead, 0x28121969, 0x4321fedc, 0)'
