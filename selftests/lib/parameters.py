# SPDX-License-Identifier: GPL-2.0
"""All parameters of both modules, by the name of their directory below net."""

# name: (default, smallest, largest, 0 means automatic)
HPCC = {
    "eta_permille": (950, 1, 1000, False), "max_stage": (0, 0, 255, False), "settle": (3, 0, 64, False),
    "per_rtt": (0, 0, 1, False), "n_flows": (100, 1, 1000000, True), "w_ai": (0, 1, 1 << 30, True),
    "base_rtt_ns": (0, 1000, 1000000000, True), "start_rtt_ns": (200000, 1000, 1000000000, False),
    "host_mbps": (0, 1, 1000000, True), "burst": (16, 1, 64, False), "pace": (1, 0, 1, False),
    "slots": (3, 1, 3, False), "sample": (8, 0, 64, False), "carry": (0, 0, 1, False), "where": (0, 0, 1, False),
    "carrier": (0, 0, 4, False), "ioam_nodes": (5, 1, 12, False), "int_dscp": (23, 1, 63, False),
    "csig_abw": (50, 1, 1000, False), "csig_time": (64, 1, 1000000, False), "max_flows": (0, 1, 1 << 24, True),
    "option_kind": (253, 253, 254, False), "option_exid": (0x4843, 0, 0xffff, False),
}
LDCP = {
    "alpha_permille": (250, 1, 1000, False), "beta_permille": (500, 1, 1000, False),
    "gamma_permille": (250, 1, 1000, False), "cw_min_permille": (100, 1, 1000, False), "fast_start": (1, 0, 1, False),
    "iw": (0, 2, 1 << 17, True), "base_rtt_ns": (0, 1000, 1000000000, True),
    "start_rtt_ns": (200000, 1000, 1000000000, False), "host_mbps": (0, 1, 1000000, True), "burst": (4, 1, 64, False),
}
ALL = {"hpcc": HPCC, "ldcp": LDCP}


def each():
    """Yield (path of sysctl, directory, name, default, low, high, zero)."""
    for folder, parameters in ALL.items():
        for name, limits in parameters.items():
            yield (f"net.{folder}.{name}", folder, name, *limits)
