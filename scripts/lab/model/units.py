# SPDX-License-Identifier: GPL-2.0
"""Values with units. For any other value the parsers raise ValueError with a text that lists the allowed values."""

import re
from fractions import Fraction

RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9,
         "kib": 2**10, "mib": 2**20, "gib": 2**30}

TIME_MAX = 10**14
SIZE_MAX = 10**15


def _scaled(value, units, allowed):
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]+)(?:/s)?\s*", value) \
        if isinstance(value, str) else None
    if match:
        factor = units.get(match[2].lower())
        if factor:
            return int(Fraction(match[1]) * factor)
    raise ValueError(f"{allowed}")


def rate(value):
    """Parse a rate. Return bits per second."""
    if isinstance(value, str):
        value = re.sub(r"(?i)([kmgt])(?:b/s|bps)\s*$", r"\1bit", value)
    bps = _scaled(value, RATES, 'a rate such as "100Gbit" (bit, kbit, Mbit, Gbit, Tbit)')
    if not 10**4 <= bps <= 10**12:
        raise ValueError("a rate from 10kbit to 1Tbit")
    return bps


def time(value):
    """Nanoseconds."""
    if value == 0 and not isinstance(value, bool):
        return 0
    ns = _scaled(value, TIMES, 'a time such as "10us" (ns, us, ms, s)')
    if ns > TIME_MAX:
        raise ValueError("a time of at most 100000s")
    return ns


def size(value):
    """Bytes. An integer without a unit also counts bytes."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        value = _scaled(value, SIZES,
                        'a size such as "8MB" (B, KB, MB, GB: powers of 1000; KiB, MiB, GiB)')
    if value > SIZE_MAX:
        raise ValueError("a size of at most 1000000GB")
    return value


def fraction(value):
    """Parse a number from 0 to 1, or a percentage."""
    if isinstance(value, str) and \
            re.fullmatch(r"\s*[0-9]{1,18}(\.[0-9]{1,18})?\s*%\s*", value):
        value = float(value.strip().rstrip("% ")) / 100
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise ValueError('a fraction from 0 to 1 or a percentage such as "1%"')


def show_bytes(n):
    """A size as text for readers."""
    for unit, factor in (("MB", 10**6), ("KB", 10**3)):
        if n >= factor:
            return f"{n / factor:.3g} {unit}" if n < 100 * factor else f"{n / factor:.0f} {unit}"
    return f"{n:.0f} B"


def show_rate(bps):
    """A rate as text for readers."""
    for unit, factor in (("Gb/s", 10**9), ("Mb/s", 10**6), ("kb/s", 10**3)):
        if bps >= factor:
            return f"{bps / factor:.4g} {unit}"
    return f"{bps:.0f} b/s"


def show_time(ns):
    """A time as text for readers."""
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= factor:
            return f"{ns / factor:.4g} {unit}"
    return f"{ns:.0f} ns"
