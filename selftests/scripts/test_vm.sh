#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of scripts/vm/run.sh and test.sh, and of how scripts/check evaluates a virtual machine that
# runs several scripts. A fake QEMU is used if that is enough, otherwise real virtual machines.
#
# shellcheck disable=SC2016 # expanded by the fake QEMU or in the guest

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
RUN=$TOP/scripts/vm/run.sh
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir
TREE=

# ---- with a fake QEMU

# pretend LINES: create a fake QEMU, a shell script that runs LINES. $JOB is the
# directory of the job, and $* are QEMU's arguments.
pretend()
{
	mkdir -p "$WORK/bin" "$WORK/cache"
	rm -f "$WORK"/cache/kvm-* "$WORK/calls"
	{
		echo '#!/bin/bash'
		printf '%s\n' 'ALL=$*' 'JOB=${ALL#*mount_tag=job,path=}' 'JOB=${JOB%%,*}'
		echo "echo \"\$*\" >> '$WORK/calls'"
		echo "$1"
	} > "$WORK/bin/qemu-system-x86_64"
	chmod 755 "$WORK/bin/qemu-system-x86_64"
}

# pretended CMD...: run CMD with the fake QEMU in PATH
pretended()
{
	PATH=$WORK/bin:$PATH HPCC_CACHE=$WORK/cache "$@"
}

# ends STATUS PATTERN CMD...: CMD ends with STATUS, and a line of its output matches PATTERN
ends()
{
	local status=$1 pattern=$2 out rc=0

	shift 2
	out=$("$@" 2>&1) || rc=$?
	expect "status of $*" "$rc" "$status" && grep -e "$pattern" <<< "$out"
}

# accelerators: print the accelerator of each call of QEMU, in the order of the calls
accelerators()
{
	grep -oE -- '-accel (kvm|tcg)' "$WORK/calls" | cut -d' ' -f2 | tr '\n' ' '
}

# If a guest does not boot with KVM, run.sh reports this once, and emulates the CPU from then on.
kvm_does_not_boot()
{
	local out

	pretend '[[ $* == *"-accel tcg"* ]] && echo 5 > "$JOB/status"'
	out=$(pretended "$RUN" --tree "$TREE" true 2>&1)
	expect status $? 5 || return
	if [ -w /dev/kvm ]; then
		grep 'emulating the CPU' <<< "$out" || return
		expect accelerators "$(accelerators)" "kvm tcg " || return
	fi
	pretended "$RUN" --tree "$TREE" true
	expect "status of the next" $? 5 || return
	[ ! -w /dev/kvm ] || expect accelerators "$(accelerators)" "kvm tcg tcg "
}

kvm_hangs()
{
	[ -w /dev/kvm ] || return 0
	pretend 'if [[ $* == *"-accel kvm"* ]]; then exec sleep 60; else echo 0 > "$JOB/status"; fi'
	sed 's/^KVM_TRIAL_S=.*/KVM_TRIAL_S=2/; s,^HERE=.*,HERE='"$TOP"'/scripts/vm,' "$RUN" \
		> "$WORK/run.sh"
	chmod 755 "$WORK/run.sh"
	pretended "$WORK/run.sh" --tree "$TREE" true
	expect status $? 0 && expect accelerators "$(accelerators)" "kvm tcg "
}

kvm_boots()
{
	[ -w /dev/kvm ] || return 0
	pretend 'echo 0 > "$JOB/status"'
	pretended "$RUN" --tree "$TREE" true
	expect status $? 0 && expect accelerators "$(accelerators)" "kvm kvm "
}

hangs()
{
	local began=$SECONDS

	pretend 'exec sleep 60'
	HPCC_VM_ACCEL=tcg ends 124 'timed out after 2 s' pretended "$RUN" --tree "$TREE" --timeout 2 true &&
		[ $((SECONDS - began)) -lt 30 ]
}

silent()
{
	pretend 'touch -d "10 minutes ago" "$JOB/alive"; exec sleep 60'
	HPCC_VM_ACCEL=tcg ends 124 'no sign of life' pretended "$RUN" --tree "$TREE" true
}

dies()
{
	local out

	pretend 'echo "Kernel panic - not syncing: pretended" > "$JOB/console"'
	out=$(HPCC_VM_ACCEL=tcg pretended "$RUN" --tree "$TREE" true 2>&1)
	expect status $? 125 && grep 'not syncing: pretended' <<< "$out" &&
		grep 'ended without a status' <<< "$out"
}

# The output starts with the kernel's first error message, not only with registers and call traces.
dies_at_length()
{
	local out

	pretend '{ echo booting; echo "int3: 0000 [#1]"; seq 100; } > "$JOB/console"'
	out=$(HPCC_VM_ACCEL=tcg pretended "$RUN" --tree "$TREE" true 2>&1)
	expect status $? 125 && grep -F 'int3: 0000 [#1]' <<< "$out" && ! grep booting <<< "$out"
}

one_thread()
{
	pretend 'echo 0 > "$JOB/status"'
	HPCC_VM_ACCEL=tcg-single pretended "$RUN" --tree "$TREE" true &&
		grep -F 'thread=single' "$WORK/calls"
}

counted_instructions()
{
	# A guest that shares no directory with the host prints its status on the console.
	pretend 'JOB=${ALL#*file:}; echo "vm: status 0" > "${JOB%%/console*}/console"'
	HPCC_VM_ACCEL=icount pretended "$RUN" --tree "$TREE" true &&
		grep -F -- '-smp 1 ' "$WORK/calls" && grep -F -- '-icount shift=0,sleep=off' "$WORK/calls"
}

nothing_left()
{
	pgrep -af "path=$WORK" && return 1
	expect "directories left" "$(find "$WORK" -mindepth 1 -maxdepth 1 -name 'tmp.*')" ""
}

bad_arguments()
{
	ends 125 --bogus "$RUN" --tree "$TREE" --bogus 1 true &&
		ends 125 'no command' "$RUN" --tree "$TREE" &&
		HPCC_VM_ACCEL=fast ends 125 'kvm, tcg, tcg-single or icount' "$RUN" --tree "$TREE" true &&
		ends 1 '6 is not a kernel version' "$TOP/scripts/vm/kernel.sh" --kernel-version 6
}

# On another distribution kernel.sh reports that it has no kernel; the tests are skipped (status 4).
no_kernel_here()
{
	echo 'ID=other' > "$WORK/os-release"
	ends 4 'no kernel version' unshare -rm sh -c 'mount --bind "$1" "$(readlink -f /etc/os-release)" &&
		HPCC_KERNEL= exec "$2"' - "$WORK/os-release" "$TOP/scripts/vm/kernel.sh"
}

# ---- in real virtual machines

# A guest has Debian's kernel and its modules, two CPUs, and the given environment. Only a --rw
# directory is writable. run.sh returns the status of the command.
real()
{
	mkdir -p "$WORK/here" "$WORK/there"
	echo seen > "$WORK/here/file"
	"$RUN" --tree "$TREE" --ro "$WORK/here" --rw "$WORK/there" --env "A=x y" -- bash -c '
		{ uname -r; nproc; echo "$A"; cat "$1/here/file"; modprobe veth && echo veth
		  touch "$1/here/new" 2> /dev/null || echo refused; } > "$1/there/out"
		exit 7' - "$WORK"
	expect status $? 7 && expect out "$(cat "$WORK/there/out")" \
"$(cat "$TREE/release")
2
x y
seen
veth
refused"
}

# script NAME LINES: create a test script with two results; LINES print the second result
script()
{
	printf '#!/bin/bash\necho "KTAP version 1"\necho 1..2\necho "ok 1 - first"\n%s\n' "$2" > "$WORK/$1"
	chmod 755 "$WORK/$1"
}

# Each script has its own failures: a script that runs after a failed script has no failure.
shared()
{
	script good 'echo "ok 2 - second"'
	script bad 'echo "not ok 2 - second"; exit 1'
	script hung 'sleep 300'
	script panics 'echo c > /proc/sysrq-trigger; sleep 60'
	cp "$WORK/good" "$WORK/after_hung"
	cp "$WORK/good" "$WORK/after_panic"
	SCRIPT_S=5 OUT=$WORK/out PYTHONPATH=$TOP/scripts python3 -B - "$TOP" "$WORK" << 'END' || return
import importlib.machinery
import importlib.util
import sys

top, work = sys.argv[1:]
loader = importlib.machinery.SourceFileLoader("check", top + "/scripts/check")
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)
names = ["good", "bad", "hung", "after_hung", "panics", "after_panic"]
total = check.run_vm([check.Test("vm/" + name, [work + "/" + name]) for name in names])
print(total, *total.failures, sep="\n")
by = {name: [text for text in total.failures if text.startswith(f"vm/{name}:")] for name in names}
assert total.passed == 9, total
assert not by["good"] + by["after_hung"] + by["after_panic"], by
assert by["bad"] == ["vm/bad: not ok 2 - second"], by
assert any("did not end within 5 s" in text for text in by["hung"]), by
assert any("no result 2 of 2" in text for text in by["hung"]), by
assert any("Kernel panic" in text for text in by["panics"]), by
assert any("no result 2 of 2" in text for text in by["panics"]), by
assert total.failed == sum(map(len, by.values())), total
END
}

# If a test needs virtual time and has passed in the layer net, its skip in vm does not count.
elsewhere()
{
	PYTHONPATH=$TOP/scripts python3 -B - "$TOP" << 'END'
import importlib.machinery
import importlib.util
import sys

loader = importlib.machinery.SourceFileLoader("check", sys.argv[1] + "/scripts/check")
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)
WHY = "# SKIP times are exact in virtual time only"


def tally(name, *lines):
    ktap = check.Ktap()
    for number, text in enumerate(lines, 1):
        ktap.line(f"ok {number} - {text}")
    ktap.line(f"1..{len(lines)}")
    ktap.end(0)
    check.Test(name, ["true"]).say(ktap, 0)
    return ktap


total = check.Tally()
for ktap in (tally("net/x", "a", "b", "c # SKIP no such device"),
             tally("vm/x", "a", f"b {WHY}", f"c {WHY}", f"d {WHY}", "e # SKIP other"),
             tally("vm/y", f"a {WHY}")):
    total.add(ktap)
assert (total.passed, total.skipped) == (3, 6), total
# only b has passed in net; c, d, and a of y have not run anywhere
assert total.count_elsewhere() == 1
assert (total.passed, total.skipped, total.failed) == (3, 5, 0), total
END
}

main()
{
	command -v qemu-system-x86_64 > /dev/null ||
		ktap_skip_all "needs qemu-system-x86_64; scripts/install-deps vm installs it"
	TREE=$("$TOP/scripts/vm/kernel.sh") || ktap_skip_all "no kernel"
	export TMPDIR=$WORK
	ktap_plan 16
	ok "kvm: if no guest boots, the CPU is emulated from then on" kvm_does_not_boot
	ok "kvm: if a guest hangs, the CPU is emulated" kvm_hangs
	ok "kvm: a guest boots" kvm_boots
	ok "run: a guest that does not end" hangs
	ok "run: a guest without a sign of life" silent
	ok "run: a guest that dies shows its console" dies
	ok "run: the console is shown from the first error report on" dies_at_length
	ok "run: all CPUs in one thread" one_thread
	ok "run: one CPU that counts its instructions" counted_instructions
	ok "run: rejects unknown options" bad_arguments
	ok "run: no process or directory of a fake guest remains" nothing_left
	ok "kernel: a distribution without a kernel package" no_kernel_here
	ok "check: tests that need virtual time count in the layer that ran them" elsewhere
	ok "run: status, CPUs, kernel, modules, writable files" real
	ok "test: a script that hangs or panics does not affect others" shared
	ok "run: no process or directory of a guest remains" nothing_left
	ktap_exit
}

main "$@"
