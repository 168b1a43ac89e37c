# SPDX-License-Identifier: GPL-2.0
"""The 95 % confidence interval of a mean."""

import math
import statistics

# Student's t for 95 % by degrees of freedom, from 1 on, and its limit.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
           2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
           2.052, 2.048, 2.045, 2.042)
NORMAL = 1.959964


def student(degrees):
    """Student's t for 95 %. If the table has no entry, compute the expansion of t in 1 / degrees."""
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    z = NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def half(values):
    """Half the width of the interval; None for a single value."""
    if len(values) < 2:
        return None
    return student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
