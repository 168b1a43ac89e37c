#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh [options] [--] COMMAND [ARG]...: run COMMAND as root in a User Mode
# Linux guest in virtual time. The exit status is that of COMMAND.
#
#   --tree DIR      kernel tree of build.sh (default: the tree that build.sh prints)
#   --module FILE   first load the module FILE and its dependencies; may be repeated
#   --param NAME=VAL  parameter of the last --module; may be repeated
#   --rw DIR        let the guest write to DIR; may be repeated. The rest of the
#                   host's file system is read-only, /tmp and /run are tmpfs
#   --ro DIR        let the guest read DIR even if it is below /tmp or /run
#   --at PATH       show the directory of the last --ro or --rw as PATH
#   --dir PATH      the guest's working directory (default: the current directory)
#   --bare          show only /usr and the directories of --ro and --rw. With --at and
#                   --dir the guest sees neither the name nor any path of the host, and
#                   equal jobs take equal time
#   --confine       with --bare: COMMAND is not trusted. Root in a guest can mount the whole
#                   host by hostfs, so run the guest in namespaces (bubblewrap) that contain
#                   only /usr, --ro and --rw, and no network. If namespaces cannot be created,
#                   fail, unless HPCC_CONFINE=off
#   --confine-if-possible  like --confine, but if namespaces cannot be created, print a
#                   note and run without them
#   --env NAME=VAL  environment of COMMAND; may be repeated
#   --mem SIZE      memory of the guest (1G)
#   --seed N        seed of its random numbers (1)
#   --timeout S     give up after S seconds of CPU time (600), or six times as many of real time
#   --kernel ARG    one more argument for the kernel's command line
#   --interactive   COMMAND reads this terminal, line by line
#   --real-time     the guest uses the host's clock, so that computing takes time
#
# HPCC_MODDIR, TC_LIB_DIR and the variables of tests are passed on. Exit status 124: timed out, 125: the
# guest ended without a status of COMMAND (its console output is shown).
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

# The guest's kernel is the leader of a process group, which contains all of its
# processes. It writes its PID to the directory that umid= names.
# shellcheck disable=SC2317 # called by trap
cleanup()
{
	local leader

	if [ -n "$UML_PID" ]; then
		kill -KILL "$UML_PID" 2>/dev/null || true
		# A confined guest may have written any number to this file. Its processes end
		# with the first process of their namespace.
		if [ "${#CONFINE[@]}" = 0 ] && read -r leader 2>/dev/null < "$JOB/.uml/hpcc/pid"; then
			kill -KILL -- "-$leader" 2>/dev/null || true
		fi
		wait "$UML_PID" 2>/dev/null || true
	fi
	[ -z "$TTY_PID" ] || kill "$TTY_PID" 2> /dev/null || true
	[ -z "$JOB" ] || rm -rf "$JOB"
	[ -z "$MEMORY" ] || rm -rf "$MEMORY"
}

# Print a directory for the file with the guest's memory: its file system must allow
# execution, and have enough space.
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

# Print a command prefix that fixes addresses, because the order of hash lists, for
# example, depends on addresses. Some containers do not allow fixed addresses: runs
# in such a container differ slightly.
fixed_addresses()
{
	setarch -R true 2>/dev/null && echo setarch -R
}

# Copy the guest's first program to its root. Compile the program only once.
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

# Print the command that starts a guest in its own namespaces, without a network and
# without other processes. Its file system contains /usr; the caller appends more directories.
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

# confine must|may: set CONFINE. With HPCC_CONFINE=off the user allows a guest without namespaces.
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

# let_see MODE SOURCE NAME: show a file or directory of the host as NAME in the job's directory.
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

# show MODE DIR [PLACE]: show DIR, and print its line of the list of mounts.
show()
{
	let_see "$1" "$2" "dirs/$((++SHOWN))"
	printf '%s dirs/%s/. %s\n' "$1" "$SHOWN" "${3:-$2}"
}

# Print the file systems that first.c mounts, in this order. hostfs does not show the
# host's files below a directory on which the guest mounts a file system itself.
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

# Create the guest's root directory.
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

# Start the guest. Equal jobs run in the same way if no property of the host reaches the
# guest's kernel. The kernel derives random numbers from its environment and its command
# line, so both are the same on all hosts. The working directory of the guest's kernel is
# the job's directory, which contains links to all files that the kernel opens.
# random.trust_cpu: the guest accepts the seed as sufficient entropy. Otherwise it would
# wait for more entropy forever, because virtual time stands still while it computes.
# slub_debug: in 7.2 a CPU's store of free objects ("sheaf") keeps pointers to objects
# that were taken from it, so kmemleak would miss leaks. A checked slab has no such store.
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
	# UML makes its standard input non-blocking, so give it a pipe instead of the terminal.
	# init.sh removes the file "interactive" when the input may start.
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

# Print the status that init.sh wrote to the file "status". A guest that is not trusted
# may replace this file by a link, a pipe or anything else.
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
	local -A at=() params=()
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
