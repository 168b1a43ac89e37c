# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Sourced by uml/run.sh and vm/run.sh: the options that both have, and the files of a
# job that the guest's init.sh reads. The caller defines die(), JOB (a directory),
# HERE, KERNEL_MODULES (the directory in which the guest finds the modules of its
# kernel, for modprobe -d; empty if the kernel has none), INSMOD (the guest's command
# that loads one module), and
#
#	local tree mem timeout dir
#	local -a modules rw ro env kernel
#	local -A at params

# shellcheck source=scripts/debian.sh
. "$HERE/../debian.sh"
# Variables of tests, which a guest gets if they are set
TEST_VARIABLES='KTAP_ONLY HPCC_STALL HPCC_STRESS HPCC_STRESS_ROUNDS HPCC_STRANGE_S HPCC_FUZZ_PACKETS
	HPCC_FUZZ_MESSAGES HPCC_FUZZ_SEED HPCC_OBSERVE_S'

# job_option NAME VALUE: handle an option that both scripts have; fail for another one.
# shellcheck disable=SC2034 # the caller uses them
job_option()
{
	case $1 in
	--tree) tree=$2 ;;
	--module) modules+=("$(readlink -f "$2")") ;;
	--param) params[${modules[-1]}]+=" $(printf %q "$2")" ;;
	--rw) rw+=("$(readlink -f "$2")"); LAST=${rw[-1]} ;;
	--ro) ro+=("$(readlink -f "$2")"); LAST=${ro[-1]} ;;
	--at)
		[ -n "${LAST:-}" ] || die "--at must follow --ro or --rw"
		at[$LAST]=$2
		;;
	--dir) dir=$2 ;;
	--env) env+=("$2") ;;
	--mem) mem=$2 ;;
	--timeout) timeout=$2 ;;
	--kernel) kernel+=("$2") ;;
	*) return 1 ;;
	esac
}

# Add the environment variables and the directories that every job needs.
job_defaults()
{
	local name

	for name in $TEST_VARIABLES; do
		[ -z "${!name:-}" ] || env=("$name=${!name}" "${env[@]}")
	done
	[ -z "${HPCC_MODDIR:-}" ] || { env+=("HPCC_MODDIR=$HPCC_MODDIR"); ro+=("$HPCC_MODDIR"); }
	[ -z "${TC_LIB_DIR:-}" ] || { env+=("TC_LIB_DIR=$TC_LIB_DIR"); ro+=("$TC_LIB_DIR"); }
	ro+=("$(readlink -f "$HERE/../..")")
}

# guest_path PATH: print the path at which the guest sees PATH, a path on this host.
guest_path()
{
	local shown

	for shown in "${!at[@]}"; do
		case $1 in
		"$shown"|"$shown"/*) echo "${at[$shown]}${1#"$shown"}"; return ;;
		esac
	done
	echo "$1"
}

# with_depends FILE...: print each module once, after all modules in its directory that
# it depends on. Its other dependencies are not printed.
with_depends()
{
	local file name

	for file; do
		for name in $(modinfo -F depends "$file" | tr ',' ' '); do
			[ ! -e "$(dirname "$file")/$name.ko" ] ||
				with_depends "$(dirname "$file")/$name.ko"
		done
		echo "$file"
	done | awk '!seen[$0]++'
}

# load_own FILE...: print commands that load the kernel's own modules on which the modules
# FILE... depend.
load_own()
{
	local file name

	for file; do
		for name in $(modinfo -F depends "$file" | tr ',' ' '); do
			[ -e "$(dirname "$file")/$name.ko" ] || printf 'modprobe %q || exit 125\n' "$name"
		done
	done
}

# job_modprobe: write the program that the guest's kernel runs to load a module by its
# name. The program searches the directories of our modules, in which depmod has not
# run, but only for the modules that our own modules load. Tests load our other
# modules themselves.
job_modprobe()
{
	local file
	local -a dirs=()

	for file in ${HPCC_MODDIR:+"$HPCC_MODDIR/"} "${modules[@]}"; do
		dirs+=("$(guest_path "${file%/*}")")
	done
	cat > "$JOB/modprobe" <<- END
		#!/bin/bash
		name=\${!#}
		case \$name in
		hpcc_*|sch_hpcc_*|tcp_powertcp)
			for dir in ${dirs[*]@Q}; do
				[ ! -e "\$dir/\$name.ko" ] || exec $INSMOD "\$dir/\$name.ko"
			done
			;;
		esac
		exec modprobe ${KERNEL_MODULES:+-d ${KERNEL_MODULES@Q}} "\$@"
	END
	chmod 755 "$JOB/modprobe"
}

# job_main COMMAND [ARG]...: write the script that the guest runs.
job_main()
{
	local quoted

	job_modprobe
	{
		# shellcheck disable=SC2016 # expanded in the guest
		echo 'echo "${0%/*}/modprobe" > /proc/sys/kernel/modprobe'
		[ -z "$KERNEL_MODULES" ] || printf 'export %q\n' "MODPROBE_OPTIONS=-d $KERNEL_MODULES"
		for quoted in "${env[@]}"; do
			printf 'export %q\n' "$quoted"
		done
		printf 'cd %q || exit 125\n' "${dir:-$PWD}"
		with_depends "${modules[@]}" | while IFS= read -r quoted; do
			[ -z "$KERNEL_MODULES" ] || load_own "$quoted"
			printf '%s %q%s || exit 125\n' "$INSMOD" "$(guest_path "$quoted")" "${params[$quoted]:-}"
		done
		printf '%q ' exec "$@"
		echo
	} > "$JOB/main"
}
