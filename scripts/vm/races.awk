# SPDX-License-Identifier: GPL-2.0
#
# Passes on what the kernel said, without the data races that KCSAN reports of the
# kernel's own code: those where neither of the two stacks has a function of a
# module of ours; what an interrupt found on its CPU, which stands below its entry,
# is not of its stack. They are counted. A race of our code with the kernel's is kept,
# and so is whatever else was said meanwhile and is a complaint.

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

!interrupted && / \[((tcp|sch)_)?(hpcc|ldcp)(_[a-z]+)?\]/ {
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
		print "# " elsewhere " data races in code that is not ours"
}
