#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/style: a check whose program fails or is missing does not pass.

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir

# style STATUS LAST-LINE CHECK [DIR]: run CHECK, with DIR in place of /usr/bin
style()
{
	local status=$1 last=$2 out rc=0

	out=$(PATH=${4:-$PATH} "$TOP/scripts/style" "$3" 2>&1) || rc=$?
	echo "$rc: $out"
	[ "$rc" = "$status" ] && [ "${out##*$'\n'}" = "$last" ]
}

# broken PROGRAM [gone]: create a directory with links to all programs of /usr/bin, in which
# PROGRAM fails at once or, with "gone", is missing. Print the path of the directory.
broken()
{
	mkdir -p "$WORK/$1"
	ln -sf /usr/bin/* "$WORK/$1"
	rm "$WORK/$1/$1"
	[ -n "${2:-}" ] || printf '#!/bin/sh\necho no %s today >&2\nexit 2\n' "$1" > "$WORK/$1/$1"
	[ -n "${2:-}" ] || chmod 755 "$WORK/$1/$1"
	echo "$WORK/$1"
}

# planted KIND FINDING FILE LINE: if LINE is appended to FILE, "rooms.py KIND" prints FINDING
planted()
{
	local copy=$WORK/planted out

	rm -rf "$copy"
	mkdir -p "$copy"
	cp -r --parents include/hpcc kmod qdisc scripts/lab "$copy" || return 1
	mkdir -p "$copy/$(dirname "$3")"
	printf '%s\n' "$4" >> "$copy/$3"
	out=$(scripts/rooms.py "$1" "$copy") || return 1
	echo "$out"
	# shellcheck disable=SC2053 # a pattern
	[[ $out == $2 ]]
}

# finds CHECK FINDING COMMAND: in a copy of the tree that COMMAND has changed, CHECK prints FINDING
finds()
{
	local copy=$WORK/copy out

	rm -rf "$copy"
	mkdir -p "$copy"
	cp -r --parents Kbuild dkms.conf kmod qdisc scripts selftests/lib "$copy" && git -C "$copy" init -q || return 1
	(cd "$copy" && eval "$3") || return 1
	out=$("$copy/scripts/style" "$1")
	echo "$out"
	# shellcheck disable=SC2053 # a pattern
	[[ $out == *$2"not ok 1 - $1" ]]
}

main()
{
	local file

	cd "$TOP" || exit 1
	ktap_plan 25
	ok "a check that passes" style 0 "ok 1 - version" version
	for file in kmod/ldcp/main.c qdisc/stamp/ioam.c; do
		ok "a module without a version: $file" finds version \
			"# $file: no MODULE_VERSION(HPCC_VERSION)"$'\n' "sed -i '/^MODULE_VERSION/d' $file"
	done
	ok "checkpatch aborts" style 1 "not ok 1 - checkpatch" checkpatch "$(broken perl)"
	ok "kernel-doc aborts" style 1 "not ok 1 - kernel_doc" kernel_doc "$(broken perl)"
	ok "shellcheck aborts" style 1 "not ok 1 - shellcheck" shellcheck "$(broken shellcheck)"
	ok "an undefined name" finds python "scripts/planted.py:1:7: undefined name 'absent'*" \
		"echo 'print(absent)' > scripts/planted.py"
	ok "a missing program" style 0 "ok 1 - manuals # SKIP needs groff" manuals "$(broken groff gone)"
	ok "git lists no files" style 1 "Bail out! git does not list the files here" spdx "$(broken git)"
	ok "the includes of the tree" planted includes "" kmod/hpcc/main.c ""
	ok "an include of a higher room" planted includes \
		"kmod/hpcc/packet/segment.c: control/cc.h is in a higher room than packet" \
		kmod/hpcc/packet/segment.c '#include "control/cc.h"'
	ok "an include of a higher room, public" planted includes \
		"include/hpcc/wire/clock.h: law/algo.h is in a higher room than wire" \
		include/hpcc/wire/clock.h '#include <hpcc/law/algo.h>'
	ok "a Python import from a higher room" planted includes \
		"scripts/lab/model/planted.py: show/page is in a higher room than model" \
		scripts/lab/model/planted.py 'from ..show import page'
	ok "a declaration of a function of a higher room" planted includes \
		"kmod/hpcc/packet/segment.h: control defines hpcc_cwnd" \
		kmod/hpcc/packet/segment.h 'u32 hpcc_cwnd(struct sock *sk, struct hpcc_flow *flow);'
	ok "two headers of one name" planted includes \
		"qdisc/parse/flow.h: kmod/hpcc/flow/flow.h has the same name" qdisc/parse/flow.h ""
	ok "a write to a field of another file" planted writes \
		"kmod/hpcc/hook/local_in.c: line * writes hops, which telemetry/mailbox.c owns" \
		kmod/hpcc/hook/local_in.c 'WRITE_ONCE(flow->hops, 1);'
	ok "no file of the core names a carrier" planted names "" kmod/hpcc/main.c ""
	ok "a function of the core with the name of a carrier" planted names \
		"kmod/hpcc/control/ack.c:*: names a carrier: bool hpcc_int_ends(void);" \
		kmod/hpcc/control/ack.c 'bool hpcc_int_ends(void);'
	ok "a comment of the core with the name of a carrier" planted names \
		"kmod/hpcc/hook/hook.h:*: names a carrier: /* for IFA */" \
		kmod/hpcc/hook/hook.h '/* for IFA */'
	ok "a comment of the qdisc with the name of a carrier" planted names \
		"qdisc/core/queue.c:*: names a carrier: /* for IOAM */" qdisc/core/queue.c '/* for IOAM */'
	ok "a circle of calls" planted circles \
		"*qdisc: a circle of * files: *core/module*stamp/carrier*  core/module -> stamp/carrier: hpcc_parse_any*" \
		qdisc/core/module.c 'static bool planted(struct sk_buff *skb) { return hpcc_parse_any(skb); }'
	ok "a circle of includes" planted circles \
		"*kmod/hpcc: a circle of 2 files: netns/net netns/table*  netns/net -> netns/table: #include*" \
		kmod/hpcc/netns/net.h '#include "netns/table.h"'
	ok "no circle in the tree" planted circles "" kmod/hpcc/main.c ""
	ok "a declaration makes no circle" planted circles "!(*core/module*)" \
		qdisc/core/module.c 'bool hpcc_parse_any(struct sk_buff *skb);'
	ok "an unknown check" style 2 \
		"Bail out! no check nonsense; there are checkpatch sparse kernel_doc shellcheck python manuals rst spdx size probes version leftovers fields rooms" nonsense
	ktap_exit
}

main
