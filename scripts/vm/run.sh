#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh [options] [--] COMMAND [ARG]...: run COMMAND as root in a virtual machine
# with Debian's own kernel, and return its exit status. The guest runs in real time.
#
#   --tree DIR      directory with a kernel (default: the directory that kernel.sh prints)
#   --module FILE   first load FILE and the modules that it depends on; may be repeated
#   --param NAME=VAL  parameter of the last --module; may be repeated
#   --rw DIR        let the guest write to DIR; may be repeated. The rest of the
#                   host's file system is read-only; /tmp and /run are tmpfs
#   --ro DIR        let the guest read DIR even if it is below /tmp or /run
#   --at PATH       path of the directory of the last --rw or --ro in the guest, below /tmp
#   --dir PATH      the guest's working directory (default: the current directory)
#   --env NAME=VAL  environment of COMMAND; may be repeated
#   --mem SIZE      memory of the guest (1G)
#   --cpus N        CPUs (2)
#   --icount        one emulated CPU that executes an instruction per nanosecond of virtual
#                   time: equal runs give equal results. The guest uses a copy of the files
#                   that COMMAND needs, and writes only to this copy
#   --timeout S     end the guest after S seconds (600), or if it has not updated its
#                   file "alive" for 2 minutes
#   --kernel ARG    additional argument for the kernel's command line
#   --qemu ARG      additional argument for QEMU
#
# The guest gets HPCC_MODDIR, TC_LIB_DIR and the variables of tests. Exit status 124: timeout; 125: the guest
# ended without an exit status (the script prints the end of its console).
#
# The script uses KVM if a guest boots with it within KVM_TRIAL_S; it tries this once
# per boot of this machine. Otherwise QEMU emulates the CPU. HPCC_VM_ACCEL selects kvm,
# tcg, icount (like --icount) or tcg-single instead. With tcg-single all CPUs take turns in
# one thread of the host. This avoids a bug of QEMU before 8.1, which executes wrong
# instructions while the kernel patches its code.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=scripts/uml/job.sh
. "$HERE/../uml/job.sh"
INSMOD=insmod
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
KVM_TRIAL_S=30
SILENCE_S=120
JOB=
QEMU_PID=

die()
{
	echo "run.sh: $*" >&2
	exit 125
}

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	if [ -n "$QEMU_PID" ]; then
		kill -KILL "$QEMU_PID" 2>/dev/null || true
		wait "$QEMU_PID" 2>/dev/null || true
	fi
	[ -z "$JOB" ] || rm -rf "$JOB"
}

# Whether a guest boots with KVM on this machine.
kvm_works()
{
	local tree=$1 known

	known=$CACHE/kvm-$(cat /proc/sys/kernel/random/boot_id)
	[ -w /dev/kvm ] || return
	if [ ! -e "$known" ]; then
		rm -f "$CACHE"/kvm-*
		if HPCC_VM_ACCEL=kvm "$0" --tree "$tree" --timeout "$KVM_TRIAL_S" true \
				> /dev/null 2>&1; then
			echo yes > "$known"
		else
			echo no > "$known"
			echo "vm: KVM is here, but no guest boots with it; emulating the CPU" >&2
		fi
	fi
	grep -q yes "$known"
}

# Print the directories that init.sh must mount because tmpfs would hide them or because the
# guest may write to them. Each has three lines: "ro" or the tag of a device, the directory
# on the host, and its path in the guest.
list_mounts()
{
	local shown number=0

	for shown in "${ro[@]}" "$PWD"; do
		case $(guest_path "$shown") in
		/tmp/*|/var/tmp/*|/run/*) printf '%s\n' ro "$shown" "$(guest_path "$shown")" ;;
		esac
	done
	for shown in "${rw[@]}"; do
		printf '%s\n' "rw$((++number))" "$shown" "$(guest_path "$shown")"
	done
}

write_job()
{
	# Use the path below /mnt/host, because tmpfs hides a path below /tmp.
	KERNEL_MODULES=/mnt/host$1
	shift
	job_main "$@"
	list_mounts > "$JOB/mounts"
	touch "$JOB/alive"
	cp "$HERE/init.sh" "$JOB"
}

# share TAG DIR [OPTION]: add the QEMU options that share a directory of the host with the guest.
share()
{
	qemu+=(-virtfs "local,mount_tag=$1,path=$2,security_model=none,multidevs=remap${3:+,$3}")
}

# -cx16: cmpxchg16b of QEMU 7.2 crashed Linux 6.12. norandmaps: QEMU can reuse translated
# code that is again at the same address. tsc=reliable: otherwise the kernel would mark
# the TSC unstable if the host does not schedule the emulated CPUs.
command_line()
{
	local tree=$1 mem=$2 cpus=$3 accel=$4 dir number=0 initrd=$1/initrd

	qemu=(qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
		-machine q35 -smp "$cpus" -m "$mem")
	case $accel in
	icount)
		# The guest cannot update "alive", because it shares no directory with the host.
		SILENCE_S=$timeout
		qemu+=(-accel "tcg,thread=single" -icount "shift=0,sleep=off" -seed 1
			-rtc "base=2024-01-01,clock=vm" -cpu "max,-cx16,-rdrand,-rdseed")
		;;
	kvm) qemu+=(-accel kvm -cpu host) ;;
	tcg) qemu+=(-accel "tcg,thread=multi" -cpu "max,-cx16") ;;
	tcg-single) qemu+=(-accel "tcg,thread=single" -cpu "max,-cx16") ;;
	*) die "HPCC_VM_ACCEL is $accel; it may be kvm, tcg, tcg-single or icount" ;;
	esac
	qemu+=(-serial "file:$JOB/console" -serial stdio)
	if [ "$accel" = icount ]; then
		"$HERE/alone.sh" "$tree" "$JOB" "${ro[@]}" > "$JOB/initrd"
		initrd=$JOB/initrd
	else
		qemu+=(-device virtio-rng-pci)
		share root / readonly=on
		share job "$JOB"
	fi
	for dir in "${rw[@]}"; do
		share "rw$((++number))" "$dir"
	done
	qemu+=(-kernel "$tree/vmlinuz" -initrd "$initrd" -append
		"console=ttyS0 loglevel=5 panic=-1 log_buf_len=4M tsc=reliable mitigations=off norandmaps ${kernel[*]}" "${more[@]}")
}

# End the guest if it exceeds the timeout, or does not update "alive" for SILENCE_S seconds.
watch()
{
	local timeout=$1 began=$SECONDS

	while sleep 1 && kill -0 "$QEMU_PID" 2>/dev/null; do
		if [ $((SECONDS - began)) -ge "$timeout" ]; then
			echo "timed out after $timeout s" > "$JOB/ended"
		elif [ $(($(date +%s) - $(stat -c %Y "$JOB/alive"))) -ge "$SILENCE_S" ]; then
			echo "no sign of life for $SILENCE_S s" > "$JOB/ended"
		fi
		[ ! -e "$JOB/ended" ] || kill -KILL "$QEMU_PID" 2>/dev/null || true
	done
}

# Print the console of a guest that ended without a status: from the first error report of its
# kernel on, or else the last lines.
last_words()
{
	tr -d '\r' < "$JOB/console" > "$JOB/words" 2>/dev/null || return 0
	sed -n '/BUG: \|Oops\|int3: \|general protection\|WARNING: /,$p' "$JOB/words" | head -n 200 |
		grep . || tail -n 60 "$JOB/words"
}

boot()
{
	local timeout=$1

	"${qemu[@]}" < /dev/null &
	QEMU_PID=$!
	watch "$timeout"
	wait "$QEMU_PID" 2>/dev/null || true
	QEMU_PID=
	[ -s "$JOB/status" ] ||
		sed -nE 's/^vm: status ([0-9]+).*/\1/p' "$JOB/console" > "$JOB/status" 2> /dev/null || true
	[ ! -s "$JOB/status" ] || exit "$(cat "$JOB/status")"
	last_words
	if [ -e "$JOB/ended" ]; then
		echo "run.sh: $(cat "$JOB/ended")" >&2
		exit 124
	fi
	die "the guest ended without a status"
}

main()
{
	local tree='' mem=1G cpus=2 timeout=600 accel=${HPCC_VM_ACCEL:-} dir=''
	local -a modules=() rw=() ro=() env=() kernel=() qemu=() more=()
	local -A at=() params=()

	while [[ ${1:-} == -* ]]; do
		case $1 in
		--) shift; break ;;
		--cpus) cpus=$2 ;;
		--icount) accel=icount; shift; continue ;;
		--qemu) more+=("$2") ;;
		*) job_option "$1" "${2:-}" || die "unknown option $1; see the head of $0" ;;
		esac
		shift 2
	done
	[ $# -gt 0 ] || die "no command given"
	[ -n "$tree" ] || tree=$("$HERE/kernel.sh")
	[ -e "$tree/vmlinuz" ] || die "$tree has no kernel; run kernel.sh"
	command -v qemu-system-x86_64 > /dev/null ||
		die "needs qemu-system-x86_64; run scripts/install-deps vm"
	job_defaults
	if [ -z "$accel" ]; then
		kvm_works "$tree" && accel=kvm || accel=tcg
	fi
	[ "$accel" != icount ] || cpus=1
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	JOB=$(mktemp -d)
	write_job "$tree" "$@"
	command_line "$tree" "$mem" "$cpus" "$accel"
	boot "$timeout"
}

main "$@"
