#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh [options] [--] COMMAND [ARG]...: run COMMAND as root in a User Mode
# Linux guest in virtual time; its exit status is ours.
#
#   --tree DIR      kernel tree of build.sh (default: build.sh says)
#   --module FILE   insmod FILE first, and what it depends on; may be repeated
#   --rw DIR        let the guest write to DIR; may be repeated. The rest of the
#                   host's file system is read-only, /tmp and /run are tmpfs
#   --ro DIR        show DIR even if it lies below /tmp or /run
#   --env NAME=VAL  environment of COMMAND; may be repeated
#   --mem SIZE      memory of the guest (1G)
#   --seed N        seed of its random numbers (1)
#   --timeout S     give up after S seconds of real time (600)
#   --kernel ARG    one more argument for the kernel's command line
#   --real-time     the guest's clock is the host's, and computing takes time
#
# HPCC_MODDIR and TC_LIB_DIR are passed on. Exit status 124: timed out, 125: the
# guest died without telling a status (its console output is shown).
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=scripts/uml/job.sh
. "$HERE/job.sh"
KERNEL_MODULES=
# Seconds since 1970 at which every guest's clock starts.
EPOCH=1767225600
JOB=
UML_PID=

die()
{
	echo "run.sh: $*" >&2
	exit 125
}

# The guest's kernel makes itself the leader of a process group, which holds all
# of its processes, and leaves its number in the directory that umid= names.
# shellcheck disable=SC2317 # called by trap
cleanup()
{
	local leader

	if [ -n "$UML_PID" ]; then
		kill -KILL "$UML_PID" 2>/dev/null || true
		if read -r leader 2>/dev/null < "$JOB/.uml/hpcc/pid"; then
			kill -KILL -- "-$leader" 2>/dev/null || true
		fi
		wait "$UML_PID" 2>/dev/null || true
	fi
	[ -z "$JOB" ] || rm -rf "$JOB"
}

# Guest memory is a file, which must be executable and large enough.
memory_dir()
{
	local mem=$1 kb dir

	kb=$(($(numfmt --from=iec "$mem") / 1024))
	for dir in "${TMPDIR:-}" /dev/shm /tmp /var/tmp; do
		[ -n "$dir" ] || continue
		[ -w "$dir" ] || continue
		[ "$(df --output=avail -k "$dir" | tail -n 1)" -gt "$kb" ] || continue
		findmnt -no OPTIONS -T "$dir" | grep -qw noexec && continue
		echo "$dir"
		return
	done
	die "no directory has room for $mem of guest memory; set TMPDIR"
}

# Addresses decide the order of hash lists and the like; where the personality
# may not be changed (some containers) it stays at small differences.
fixed_addresses()
{
	setarch -R true 2>/dev/null && echo setarch -R
}

# The command line is an ingredient of the guest's random numbers, so nothing on
# it may differ between equal runs: the job's directory is the kernel's working
# directory, and the first program comes from there.
# LIBMOUNT_FORCE_MOUNT2, for the guest's environment: util-linux 2.39 and later
# would take the directory of a hostfs for an option's name, with its new way to
# mount; the old way suits all kernels.
# random.trust_cpu: the seed is all the entropy that there is; waiting for more,
# with a clock that stands still while one computes, would never end.
# slub_debug: in 7.2 a CPU's store of free objects ("sheaf") keeps pointers to what was
# taken from it, where kmemleak finds them; a checked slab has no such store.
boot()
{
	local tree=$1 mem=$2 seed=$3 timeout=$4 rc=0 fixed tmp
	local first='"mount -t proc proc /proc; mount -t hostfs -o /proc/self/cwd hostfs /mnt; exec sh /mnt/init.sh"'

	tmp=$(memory_dir "$mem")
	read -ra fixed <<< "$(fixed_addresses)"
	! grep -qs '^CONFIG_DEBUG_KMEMLEAK=y' "$tree/.config" || kernel+=(slub_debug=F)
	cp "$HERE/init.sh" "$JOB"
	cd "$JOB"
	TMPDIR=$tmp HOME=$JOB UML_RANDOM_SEED=$seed \
		timeout --foreground -k 5 "$timeout" "${fixed[@]}" \
		"$tree/linux" "mem=$mem" root=/dev/root rootfstype=hostfs rootflags=/ ro \
		random.trust_cpu=on con=null con0=fd:0,fd:1 quiet panic=-1 umid=hpcc "${clock[@]}" \
		LIBMOUNT_FORCE_MOUNT2=always init=/bin/sh "${kernel[@]}" -- -c "$first" \
		< /dev/null 2>&1 &
	UML_PID=$!
	wait "$UML_PID" || rc=$?
	[ "$rc" != 124 ] || { echo "run.sh: timed out after $timeout s" >&2; exit 124; }
	if [ ! -s status ]; then
		echo "run.sh: the guest ended without a status (kernel's exit status $rc)" >&2
		exit 125
	fi
	exit "$(cat status)"
}

main()
{
	local tree='' mem=1G seed=1 timeout=600
	local -a modules=() rw=() ro=() env=() kernel=()
	local -a clock=(time-travel=inf-cpu "time-travel-start=${EPOCH}000000000")

	while [[ ${1:-} == -* ]]; do
		case $1 in
		--) shift; break ;;
		--seed) seed=$2 ;;
		--real-time) clock=(); shift; continue ;;
		*) job_option "$1" "${2:-}" || die "unknown option $1; see the head of $0" ;;
		esac
		shift 2
	done
	[ $# -gt 0 ] || die "no command given"
	[ -n "$tree" ] || tree=$("$HERE/build.sh")
	[ -x "$tree/linux" ] || die "$tree has no kernel; run build.sh"
	job_defaults
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	JOB=$(mktemp -d)
	job_main "$@"
	job_mounts "${rw[@]/*/rw}"
	boot "$tree" "$mem" "$seed" "$timeout"
}

main "$@"
