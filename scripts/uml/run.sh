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
#   --at PATH       show the directory named last as PATH
#   --dir PATH      the guest's working directory (this one)
#   --bare          show nothing of the host's but /usr, --ro and --rw. With --at and
#                   --dir the guest does not know where on which host it runs, and
#                   equal jobs take equal time
#   --confine       with --bare: COMMAND is not trusted. Root in a guest can mount the whole
#                   host by hostfs, so run the guest in namespaces (bubblewrap) that hold
#                   only /usr, --ro and --rw, and no network. Refuses to run where namespaces
#                   cannot be made, unless HPCC_CONFINE=off
#   --confine-if-possible  the same, but runs with a note where they cannot be made
#   --env NAME=VAL  environment of COMMAND; may be repeated
#   --mem SIZE      memory of the guest (1G)
#   --seed N        seed of its random numbers (1)
#   --timeout S     give up after S seconds of CPU time (600), or six times as many of real time
#   --kernel ARG    one more argument for the kernel's command line
#   --interactive   COMMAND reads this terminal, line by line
#   --real-time     the guest's clock is the host's, and computing takes time
#
# HPCC_MODDIR and TC_LIB_DIR are passed on. Exit status 124: timed out, 125: the
# guest died without telling a status (its console output is shown).
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=scripts/uml/job.sh
. "$HERE/job.sh"
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
KERNEL_MODULES=
INSMOD='/first insmod'
# Seconds since 1970 at which every guest's clock starts.
EPOCH=1767225600
JOB=
MEMORY=
SHOWN=0
# The command that confines the guest, or nothing.
CONFINE=()
UML_PID=
TTY_PID=

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
		# A confined guest writes what it likes there, and ends with its first process.
		if [ "${#CONFINE[@]}" = 0 ] && read -r leader 2>/dev/null < "$JOB/.uml/hpcc/pid"; then
			kill -KILL -- "-$leader" 2>/dev/null || true
		fi
		wait "$UML_PID" 2>/dev/null || true
	fi
	[ -z "$TTY_PID" ] || kill "$TTY_PID" 2> /dev/null || true
	[ -z "$JOB" ] || rm -rf "$JOB"
	[ -z "$MEMORY" ] || rm -rf "$MEMORY"
}

# Guest memory is a file, which must be executable and large enough.
memory_dir()
{
	local mem=$1 bytes dir avail options

	bytes=$(numfmt --from=iec "$mem")
	for dir in "${TMPDIR:-}" /dev/shm /tmp /var/tmp; do
		[ -n "$dir" ] || continue
		[ -w "$dir" ] || continue
		read -r avail options < <(findmnt -bno AVAIL,OPTIONS -T "$dir") || continue
		[ "$avail" -gt "$bytes" ] || continue
		[[ ,$options, != *,noexec,* ]] || continue
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

# The first program, compiled once.
first_program()
{
	local source=$HERE/first.c cc=${CC:-cc} final new

	final=$CACHE/first-$({ cat "$source"; "$cc" -dumpfullversion; } | sha256sum | head -c 12)
	if [ ! -e "$final" ]; then
		mkdir -p "$CACHE"
		new=$(mktemp "$final.XXXXXX")
		"$cc" -O2 -Wall -static -o "$new" "$source" || die "cannot compile $source"
		chmod 755 "$new"
		mv "$new" "$final"
	fi
	cp "$final" "$JOB/root/first"
}

# The command that starts a guest without network, whose processes see no
# others, and whose file system holds /usr and what
# follows.
namespaces()
{
	local path

	printf '%s\n' bwrap --unshare-all --unshare-user --cap-drop ALL --new-session --die-with-parent \
		--proc /proc --remount-ro /proc --ro-bind /usr /usr
	for path in /bin /lib* /sbin; do
		if [ -L "$path" ]; then
			printf '%s\n' --symlink "$(readlink "$path")" "$path"
		else
			printf '%s\n' --ro-bind "$path" "$path"
		fi
	done
}

# confine must|may: set CONFINE. HPCC_CONFINE=off is the user's own decision.
confine()
{
	local why

	[ "${HPCC_CONFINE:-}" != off ] || return 0
	mapfile -t CONFINE < <(namespaces)
	if why=$("${CONFINE[@]}" true 2>&1); then
		CONFINE+=(--bind "$JOB" /job --chdir /job)
		return
	fi
	CONFINE=()
	[ "$1" = may ] ||
		die "no namespaces can be made here (${why##*$'\n'}), so the guest's programs could read and write" \
		    "your files; HPCC_CONFINE=off runs them nevertheless"
	echo "run.sh: note: the guest is not confined (${why##*$'\n'})" >&2
}

# let_see MODE SOURCE NAME: show a file or directory of the host's as NAME in the job's directory.
let_see()
{
	if [ "${#CONFINE[@]}" = 0 ]; then
		ln -s "$2" "$JOB/$3"
		return
	fi
	if [ -d "$2" ]; then mkdir "$JOB/$3"; else touch "$JOB/$3"; fi
	if [ "$1" = rw ]; then
		CONFINE+=(--bind "$2" "/job/$3")
	else
		CONFINE+=(--ro-bind "$2" "/job/$3")
	fi
}

# show MODE DIR [PLACE]: a line of the list of mounts.
show()
{
	let_see "$1" "$2" "dirs/$((++SHOWN))"
	printf '%s dirs/%s/. %s\n' "$1" "$SHOWN" "${3:-$2}"
}

# What first.c mounts, in this order. hostfs does not show what the host mounted
# where the guest mounts something itself.
list_mounts()
{
	local path
	local -a links=()

	printf '%s %s %s\n' proc proc /proc sysfs sysfs /sys devtmpfs devtmpfs /dev rw . /mnt
	for path in /*; do
		case $path in
		/dev|/mnt|/proc|/run|/sys|/tmp) continue ;;
		/usr|/bin|/lib*|/sbin) ;;
		*) [ -z "$bare" ] || continue ;;
		esac
		if [ -L "$path" ]; then
			links+=("$path")
		elif [ -d "$path" ] && [ -x "$path" ]; then
			mkdir "$JOB/root$path"
			show ro "$path"
		fi
	done
	[ ${#links[@]} = 0 ] || cp -P "${links[@]}" "$JOB/root"
	printf 'tmpfs tmpfs %s\n' /run /tmp
	if [ -n "$bare" ]; then
		printf 'tmpfs tmpfs %s\n' /root /var
	else
		echo 'tmpfs tmpfs /var/tmp'
	fi
	printf '%s %s %s\n' debugfs debugfs /sys/kernel/debug tracefs tracefs /sys/kernel/tracing
	[ -n "$dir" ] || ro+=("$PWD")
	for path in "${ro[@]}"; do
		show ro "$path" "$(guest_path "$path")"
	done
	for path in "${rw[@]}"; do
		show rw "$path" "$(guest_path "$path")"
	done
}

# The guest's root.
lay_out()
{
	local place
	local -a places=()

	mkdir "$JOB"/{dirs,root,root/{dev,mnt,proc,run,sys,tmp}}
	list_mounts > "$JOB/root/mounts"
	if [ -n "$bare" ]; then
		mkdir "$JOB/root/etc"
		cp /etc/ld.so.cache "$JOB/root/etc"
		sed '/^#/d' "$HERE/passwd" > "$JOB/root/etc/passwd"
		sed '/^#/d' "$HERE/group" > "$JOB/root/etc/group"
		echo '127.0.0.1 localhost' > "$JOB/root/etc/hosts"
		while read -r _ _ place; do
			places+=("$JOB/root$place")
		done < "$JOB/root/mounts"
		mkdir -p "${places[@]}"
	fi
	first_program
	cp "$HERE/init.sh" "$JOB"
}

# Equal jobs are equal runs, where nothing of the host's reaches the guest's kernel:
# its environment and command line, the ingredients of its random numbers, are the
# same everywhere, and it finds all else by links in the job's directory, which
# is its working directory.
# random.trust_cpu: the seed is all the entropy that there is; waiting for more,
# with a clock that stands still while one computes, would never end.
# slub_debug: in 7.2 a CPU's store of free objects ("sheaf") keeps pointers to what was
# taken from it, where kmemleak finds them; a checked slab has no such store.
boot()
{
	local tree=$1 mem=$2 seed=$3 timeout=$4 rc=0 fixed status

	read -ra fixed <<< "$(fixed_addresses)"
	! grep -qs '^CONFIG_DEBUG_KMEMLEAK=y' "$tree/.config" || kernel+=(slub_debug=F)
	MEMORY=$(memory_dir "$mem")
	MEMORY=$(mktemp -d "$MEMORY/hpcc-memory-XXXXXX")
	let_see rw "$MEMORY" memory
	let_see ro "$(readlink -f "$tree/linux")" linux
	cd "$JOB"
	exec 3< /dev/null
	# UML makes its terminal non-blocking, so the input comes by another. init.sh removes the file.
	if [ -n "$interactive" ]; then
		touch interactive
		exec 3< <(while [ -e interactive ]; do sleep 0.1; done; exec cat /dev/tty 2> /dev/null)
		TTY_PID=$!
	fi
	"$HERE/../limit.py" ${clock[0]:+--guest} "$timeout" env -i TMPDIR=memory HOME=. UML_RANDOM_SEED="$seed" \
		"${fixed[@]}" "${CONFINE[@]}" \
		./linux "mem=$mem" root=/dev/root rootfstype=hostfs rootflags=/proc/self/cwd/root ro \
		random.trust_cpu=on con=null con0=fd:0,fd:1 quiet panic=-1 umid=hpcc "${clock[@]}" \
		init=/first "${kernel[@]}" \
		<&3 2>&1 &
	UML_PID=$!
	wait "$UML_PID" || rc=$?
	[ "$rc" != 124 ] || { echo "run.sh: timed out" >&2; exit 124; }
	status=$(guest_status) || {
		echo "run.sh: the guest ended without a status (kernel's exit status $rc)" >&2
		exit 125
	}
	exit "$status"
}

# What init.sh left. A guest may leave a link, a pipe or anything else in its place.
guest_status()
{
	local text=''

	[ -f status ] && [ ! -L status ] && read -rn 4 text < status
	[[ $text =~ ^[0-9]{1,3}$ ]] && echo "$text"
}

main()
{
	local tree='' mem=1G seed=1 timeout=600 bare='' interactive='' dir='' confine=''
	local -a modules=() rw=() ro=() env=() kernel=()
	local -A at=()
	local -a clock=(time-travel=inf-cpu "time-travel-start=${EPOCH}000000000")

	while [[ ${1:-} == -* ]]; do
		case $1 in
		--) shift; break ;;
		--seed) seed=$2 ;;
		--real-time) clock=(); shift; continue ;;
		--bare) bare=1; shift; continue ;;
		--confine) confine=must; shift; continue ;;
		--confine-if-possible) confine=may; shift; continue ;;
		--interactive)
			[ -t 0 ] || die "--interactive: standard input is no terminal"
			interactive=1
			shift
			continue
			;;
		*) job_option "$1" "${2:-}" || die "unknown option $1; see the head of $0" ;;
		esac
		shift 2
	done
	[ $# -gt 0 ] || die "no command given"
	[ -z "$confine" ] || [ -n "$bare" ] || die "--confine: needs --bare"
	[ -n "$tree" ] || tree=$("$HERE/build.sh")
	[ -x "$tree/linux" ] || die "$tree has no kernel; run build.sh"
	if [ -z "$bare" ]; then
		job_defaults
		env+=(LC_ALL=C.UTF-8)
	fi
	umask 022
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	JOB=$(mktemp -d)
	[ -z "$confine" ] || confine "$confine"
	job_main "$@"
	lay_out
	boot "$tree" "$mem" "$seed" "$timeout"
}

main "$@"
