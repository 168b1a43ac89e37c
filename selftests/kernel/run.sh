#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh STATE COLLECTION LINE...: inside a guest, run tests of the kernel's own selftests.
# COLLECTION is a built tools/testing/selftests; a LINE is a line of tests.list. The output of a
# test is between "# test NAME" and "# status N".
#
# STATE selects which of our modules are loaded, from HPCC_MODDIR:
#
#	without		none
#	loaded		all modules, but they are not used
#	used		hpcc is the default congestion control, and each veth that ip
#			sets up has sch_hpcc
#	dctcp		none, but dctcp is the default congestion control: like hpcc it
#			sends ECT packets
set -u

# shellcheck source=selftests/lib/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../lib/ktap.sh"
TREE=/tmp/selftests
IP=$(command -v ip)

load()
{
	local name

	for name in $(our_modules); do
		insmod "$HPCC_MODDIR/$name.ko" || return
	done
}

# Replace ip by a script that adds the qdisc when a device is first set up.
wrap_ip()
{
	mkdir -p /tmp/bin
	cat > /tmp/bin/ip <<- END
		#!/bin/bash
		$IP "\$@"
		status=\$?
		[[ " \$* " =~ " up " ]] || exit "\$status"
		ns=
		[[ ! " \$* " =~ \ -(n|net|netns)\ ([^\ ]+) ]] || ns=\${BASH_REMATCH[2]}
		$IP \${ns:+-n "\$ns"} -br link show up type veth 2> /dev/null |
			while read -r dev _; do
				[ -n "\$(tc \${ns:+-n "\$ns"} qdisc show dev "\${dev%@*}" | grep -v noqueue)" ] ||
					tc \${ns:+-n "\$ns"} qdisc add dev "\${dev%@*}" root hpcc 2> /dev/null
			done
		exit "\$status"
	END
	chmod 755 /tmp/bin/ip
	export PATH=/tmp/bin:$PATH
}

enter()
{
	case $1 in
	without) ;;
	loaded) load ;;
	used)
		load && wrap_ip && sysctl -qw net.ipv4.tcp_congestion_control=hpcc
		;;
	dctcp) sysctl -qw net.ipv4.tcp_congestion_control=dctcp ;;
	*)
		echo "run.sh: no state $1"
		return 1
		;;
	esac
}

# Delete the namespaces and devices of a test before the next test.
clean_up()
{
	"$IP" -all netns del 2> /dev/null
	"$IP" -o link show | sed -n 's/^[0-9]*: \([^:@]*\)[:@].*/\1/p' | grep -vx lo |
		while read -r dev; do
			"$IP" link del "$dev" 2> /dev/null
		done
}

# run SECONDS DIR PROGRAM [ARG]...
run()
{
	local seconds=$1 program=./$3

	cd "$TREE/$2" || return
	shift 3
	# A test of tc-testing is a file with cases, not a program.
	if [ "${program%.json}" != "$program" ]; then
		set -- -f "$program"
		program=./tdc.py
	fi
	timeout -k 5 "$seconds" "$program" "$@" < /dev/null 2>&1
}

main()
{
	local state=$1 collection=$2 line status
	local -a words

	shift 2
	export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
	cp -r "$collection" "$TREE"
	"$IP" link set lo up
	enter "$state" || exit 1
	dmesg -c > /dev/null
	for line; do
		read -r -a words <<< "$line"
		echo "# test ${words[*]}"
		SECONDS=0
		run "${words[@]}"
		status=$?
		dmesg -c -l emerg,alert,crit,err,warn | grep -E 'BUG|WARNING|Oops|hpcc|ldcp'
		clean_up
		echo "# status $status after $SECONDS s"
	done
	if [ -d /sys/module/hpcc_common ]; then
		echo "# users $(awk '/^((tcp|sch)_)?(hpcc|ldcp)/ { print $1, $3 }' /proc/modules | tr '\n' ' ')"
	fi
}

main "$@"
