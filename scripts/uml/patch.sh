#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# patch.sh TREE: change the source of a User Mode Linux kernel, so that virtual time is exact,
# runs are repeatable, and guests are fast.
#
# - TIMER_MULTIPLIER is the resolution of the guest's clock in ns, and the virtual time that
#   reading the clock takes. The default, 256 ns, is the time of two packets at 100 Gb/s.
# - TIMER_MIN_DELTA is the shortest timer in ns. The default, 500 ns, is longer than the time
#   of a packet.
# - The guest's kernel gets its random seed from os_getrandom(). With UML_RANDOM_SEED in the
#   environment this function returns the same bytes in each run.
# - The host causes interrupts, for example of the console, at random times. The kernel would
#   mix the interrupted address into its random numbers once per second.
# - The jitter random number generator waits until it has measured jitter. Virtual time has no
#   jitter, so Linux 6.12 would never boot. IPsec's cipher modes select this generator.
#
# If a kernel's source differs at one of these places, this script fails. patches/ contains
# changes that only save CPU time; each patch states its reason. If a patch does not apply,
# the script prints a note and continues.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")

set_constant()
{
	local file=$1 name=$2 value=$3

	sed -i -E "s/^(#define[[:space:]]+$name)[[:space:]]+[0-9]+[[:space:]]*$/\1 $value/" "$file"
	grep -qx "#define[[:space:]]*$name $value" "$file" || {
		echo "patch.sh: $file: no plain #define of $name" >&2
		return 1
	}
}

seed_random()
{
	local file=$1 call='return getrandom(buf, len, flags);'

	if [ "$(grep -cF "$call" "$file")" != 1 ] ||
	   ! grep -q '^ssize_t os_getrandom(' "$file"; then
		echo "patch.sh: $file: os_getrandom() looks different" >&2
		return 1
	fi
	awk -v call="$call" '
	/^ssize_t os_getrandom\(/ {
		print "/* splitmix64 over the seed: repeatable, not secure */"
		print "static ssize_t hpcc_seeded_random(const char *seed, unsigned char *p, size_t len)"
		print "{"
		print "\tstatic unsigned long long state;"
		print "\tstatic int started;"
		print "\tsize_t i;"
		print ""
		print "\tif (!started) {"
		print "\t\tstate = strtoull(seed, NULL, 0);"
		print "\t\tstarted = 1;"
		print "\t}"
		print "\tfor (i = 0; i < len; i++) {"
		print "\t\tunsigned long long z = (state += 0x9e3779b97f4a7c15ULL);"
		print ""
		print "\t\tz = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;"
		print "\t\tz = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;"
		print "\t\tp[i] = z ^ (z >> 31);"
		print "\t}"
		print "\treturn len;"
		print "}"
		print ""
	}
	index($0, call) {
		print "\tif (getenv(\"UML_RANDOM_SEED\"))"
		print "\t\treturn hpcc_seeded_random(getenv(\"UML_RANDOM_SEED\"), buf, len);"
	}
	{ print }' "$file" > "$file.new"
	mv "$file.new" "$file"
	grep -q hpcc_seeded_random "$file"
}

no_interrupts()
{
	local file=$1 call='add_interrupt_randomness(desc->irq_data.irq);'

	if [ "$(grep -cF "$call" "$file")" != 1 ]; then
		echo "patch.sh: $file: interrupts add randomness in a new way" >&2
		return 1
	fi
	sed -i "/^[[:space:]]*$call\$/d" "$file"
	! grep -qF "$call" "$file"
}

no_jitter()
{
	local file=$1 select='select CRYPTO_JITTERENTROPY'

	sed -i "/^[[:space:]]*$select\$/d" "$file"
	if ! grep -q '^config CRYPTO_JITTERENTROPY$' "$file" || grep -q "$select" "$file"; then
		echo "patch.sh: $file: CRYPTO_JITTERENTROPY is selected in a new way" >&2
		return 1
	fi
}

save_time()
{
	local tree=$1 file

	for file in "$HERE"/patches/*.patch; do
		if patch -s -d "$tree" -p1 --fuzz 0 --dry-run < "$file" > /dev/null; then
			patch -s -d "$tree" -p1 --fuzz 0 < "$file"
		else
			echo "patch.sh: note: ${file##*/} does not apply to this kernel" >&2
		fi
	done
}

main()
{
	local tree=${1:?usage: patch.sh TREE}

	set_constant "$tree/arch/um/include/linux/time-internal.h" TIMER_MULTIPLIER 1
	set_constant "$tree/arch/um/include/linux/time-internal.h" TIMER_MIN_DELTA 1
	seed_random "$tree/arch/um/os-Linux/util.c"
	no_interrupts "$tree/kernel/irq/handle.c"
	no_jitter "$tree/crypto/Kconfig"
	save_time "$tree"
}

main "$@"
