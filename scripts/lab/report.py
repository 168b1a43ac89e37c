# SPDX-License-Identifier: GPL-2.0
def html(runs, wall): return ""
def text(runs): return "\n".join(str(r.summary) for r in runs)
