#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/style: a check that could not do its work has not passed.

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# style STATUS LAST-LINE CHECK [DIR]: with DIR in place of /usr/bin
style()
{
	local status=$1 last=$2 out rc=0

	out=$(PATH=${4:-$PATH} "$TOP/scripts/style" "$3" 2>&1) || rc=$?
	echo "$rc: $out"
	[ "$rc" = "$status" ] && [ "${out##*$'\n'}" = "$last" ]
}

# broken PROGRAM [gone]: print a /usr/bin whose PROGRAM ends at once, or is not there
broken()
{
	mkdir -p "$WORK/$1"
	ln -sf /usr/bin/* "$WORK/$1"
	rm "$WORK/$1/$1"
	[ -n "${2:-}" ] || printf '#!/bin/sh\necho no %s today >&2\nexit 2\n' "$1" > "$WORK/$1/$1"
	[ -n "${2:-}" ] || chmod 755 "$WORK/$1/$1"
	echo "$WORK/$1"
}

main()
{
	ktap_plan 7
	ok "a check that passes" style 0 "ok 1 - version" version
	ok "checkpatch that breaks off" style 1 "not ok 1 - checkpatch" checkpatch "$(broken perl)"
	ok "kernel-doc that breaks off" style 1 "not ok 1 - kernel_doc" kernel_doc "$(broken perl)"
	ok "shellcheck that breaks off" style 1 "not ok 1 - shellcheck" shellcheck "$(broken shellcheck)"
	ok "a program that is missing" style 0 "ok 1 - manuals # SKIP needs groff" manuals "$(broken groff gone)"
	ok "git that lists no files" style 1 "Bail out! git does not list the files here" spdx "$(broken git)"
	ok "a check that there is not" style 2 \
		"Bail out! no check nonsense; there are checkpatch sparse kernel_doc shellcheck python manuals rst spdx size probes version leftovers fields" nonsense
	ktap_exit
}

main
