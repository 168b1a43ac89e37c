#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# probe.sh PROBES CACHE GENERATED COMPILER [FLAG]...: find out facts about a kernel
# by compiling. Prints -DHPCC_PROBED and one -DHAVE_X for each probe that compiles. If
# even an empty probe does not compile, prints only the compiler's message.
#
# PROBES has one probe per line: "HAVE_X header.h C declarations". The results are
# kept in the file CACHE until the probes, the compiler's command line, or the
# kernel's version or configuration (below GENERATED) change.
set -u

compiles()
{
	local header=$1 code=$2

	shift 2
	printf '#include <%s>\n%s\n' "$header" "$code" |
		"$@" -DKBUILD_MODNAME='"probe"' -DKBUILD_BASENAME='"probe"' \
			-Werror -Wno-missing-prototypes -Wno-missing-declarations \
			-Wno-unused -fsyntax-only -x c -
}

key()
{
	local probes=$1 generated=$2

	shift 2
	{
		cat "$probes" "$0" "$generated/utsrelease.h" "$generated/autoconf.h"
		"$1" -dumpfullversion 2> /dev/null
		pwd
		echo "$@"
	} | sha256sum | cut -d ' ' -f 1
}

probe_all()
{
	local probes=$1 have=-DHPCC_PROBED name header code

	shift
	compiles linux/kernel.h '' "$@" >&2 || return 1
	while read -r name header code; do
		case $name in
		''|\#*) continue ;;
		esac
		compiles "$header" "$code" "$@" > /dev/null 2>&1 && have="$have -D$name"
	done < "$probes"
	echo "$have"
}

main()
{
	local probes=$1 cache=$2 generated=$3 key have

	shift 3
	key=$(key "$probes" "$generated" "$@")
	if [ "$(sed -n 1p "$cache" 2> /dev/null)" != "$key" ]; then
		echo "  PROBE   ${probes##*/}" >&2
		have=$(probe_all "$probes" "$@") || return 1
		printf '%s\n%s\n' "$key" "$have" > "$cache.$$" && mv "$cache.$$" "$cache"
	fi
	sed -n 2p "$cache"
}

main "$@"
