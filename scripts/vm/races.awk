# SPDX-License-Identifier: GPL-2.0
#
# Print the kernel's messages, without KCSAN's reports of data races in the kernel's
# own code; count these reports. A race is in the kernel's own code if neither of its
# two stacks contains a function of our modules. In the stack of an interrupt, the
# functions below the entry of the interrupt do not count: they belong to the
# interrupted code. A report of a race between our code and the kernel's is printed,
# and so is a report in which another error message of the kernel appears.

function report_ends(i)
{
	for (i = 0; keep && i < lines; i++)
		print line[i]
	elsewhere += !keep
	inside = lines = 0
}

/==================================================/ {
	if (inside)
		report_ends()
	else
		inside = keep = 1
	next
}

!inside {
	print
	next
}

/BUG: KCSAN: / {
	keep = interrupted = 0
}

/ of [0-9]+ bytes by / {
	interrupted = 0
}

/ asm_(sysvec_|common_interrupt|exc_nmi)/ {
	interrupted = 1
}

!interrupted && / \[((tcp|sch)_)?(hpcc|ldcp|powertcp)(_[a-z]+)?\]/ {
	keep = 1
}

/BUG: [^K]|WARNING: |Oops|KASAN: |UBSAN: / {
	keep = 1
}

{
	line[lines++] = $0
}

END {
	keep = 1
	if (inside)
		report_ends()
	if (elsewhere)
		print "# " elsewhere " data races in code of the kernel"
}
