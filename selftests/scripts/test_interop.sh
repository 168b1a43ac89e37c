#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Today's modules and the modules of commit BEFORE interoperate (interop.py). One kernel loads both,
# because the modules of BEFORE are built with the name hpc1 in place of hpcc, so that no name exists
# twice in the kernel. Packets do not contain this name.
set -uo pipefail

TOP=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
# The last commit before telemetry was sampled.
BEFORE=7b92397df2d1
work_dir

# before TREE: build the modules and the tc plugin of BEFORE with the script of that commit, and
# print their directory.
before()
{
	local path

	git -C "$TOP" archive "$BEFORE" Kbuild dkms.conf include kmod qdisc scripts/kbuild scripts/uml \
		selftests/unit/shim selftests/lab | tar -C "$WORK" -xf - || return
	find "$WORK" -depth -name '*hpcc*' | while read -r path; do
		mv "$path" "${path%/*}/$(basename "$path" | sed s/hpcc/hpc1/)"
	done
	grep -rlI hpcc "$WORK" | xargs sed -i s/hpcc/hpc1/g
	HPCC_CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc} \
		"$WORK/scripts/uml/modules.sh" "$1"
}

main()
{
	local tree tools old

	git -C "$TOP" cat-file -e "$BEFORE^{commit}" 2> /dev/null ||
		ktap_skip_all "needs a git history with commit $BEFORE"
	if ! tree=$("$TOP/scripts/uml/build.sh") || ! tools=$("$TOP/scripts/uml/modules.sh" "$tree") ||
	   ! old=$(before "$tree"); then
		echo "Bail out! nothing to run"
		exit 1
	fi
	mkdir "$WORK/both"
	cp "$tools"/* "$old"/*hpc1* "$WORK/both"
	HPCC_MODDIR=$WORK/both TC_LIB_DIR=$WORK/both "$TOP/scripts/uml/run.sh" --tree "$tree" \
		--kernel loglevel=5 --env "KTAP_ONLY=${KTAP_ONLY:-}" -- \
		python3 -B "$TOP/selftests/scripts/interop.py" "$@"
}

main "$@"
