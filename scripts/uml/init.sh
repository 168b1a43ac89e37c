#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Process 1 of the User Mode Linux guest, started by first.c. /mnt contains the job that
# run.sh has prepared.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin
export HOME=/tmp TERM=dumb HPCC_GUEST=1

mkdir -p /run/netns
# Programs write to these directories. A guest without the host's files lacks them.
[ -d /var/log ] || mkdir -p /var/cache /var/lib /var/log /var/spool /var/tmp
# Let TCP use most of the memory: a guest needs it for packets only.
read -r _ total _ < /proc/meminfo
echo "$((total / 16)) $((total / 8)) $((total / 6))" > /proc/sys/net/ipv4/tcp_mem
# Packets between interfaces wait in one queue of the CPU. The default
# limit, 1000 packets, is enough for one host, but not for hundreds of hosts in this kernel.
echo 1000000 > /proc/sys/net/core/netdev_max_backlog

stty -opost < /dev/console
if [ -e /mnt/interactive ]; then
	# Do not echo the input here: the host's terminal echoes it.
	stty -echo < /dev/console
	# Let run.sh send input now: the kernel ignores input that arrives before it opens its console.
	{ rm /mnt/interactive; /bin/bash /mnt/main; } < /dev/console
else
	# Without input, because a program that reads the console would never end.
	/bin/bash /mnt/main < /dev/null
fi
echo $? > /mnt/status
# In a debug kernel: an object without a reference for some seconds is a leak.
if [ -e /sys/kernel/debug/kmemleak ]; then
	for _ in 1 2; do
		sleep 6
		echo scan > /sys/kernel/debug/kmemleak
	done
	cat /sys/kernel/debug/kmemleak
fi
# Do not print "System halted". A panic before this point is printed.
echo 0 > /proc/sys/kernel/printk
exec /first poweroff
