#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What first.c of the User Mode Linux guest becomes. /mnt is the directory in which
# run.sh has left what is to be run.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin
export HOME=/tmp TERM=dumb HPCC_GUEST=1

mkdir -p /run/netns
# Programs write there; in a guest that shows nothing of the host's these are empty.
[ -d /var/log ] || mkdir -p /var/cache /var/lib /var/log /var/spool /var/tmp
# A guest has no other use for its memory than packets.
read -r _ total _ < /proc/meminfo
echo "$((total / 16)) $((total / 8)) $((total / 6))" > /proc/sys/net/ipv4/tcp_mem
# Packets between interfaces wait in one queue of the CPU. The default, 1000, is for one host and drops
# packets of hundreds.
echo 1000000 > /proc/sys/net/core/netdev_max_backlog

stty -opost < /dev/console
if [ -e /mnt/interactive ]; then
	# The host's terminal echoes already.
	stty -echo < /dev/console
	# Input may come now: the kernel does not notice input from before it opens its console.
	{ rm /mnt/interactive; /bin/bash /mnt/main; } < /dev/console
else
	# A program that reads the console would never end.
	/bin/bash /mnt/main < /dev/null
fi
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
exec /first poweroff
