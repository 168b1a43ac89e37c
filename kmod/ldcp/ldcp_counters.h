/* SPDX-License-Identifier: GPL-2.0 */
/* Counters in /proc/net/ldcp: index (LDCP_C_*), name, meaning. The includer defines COUNTER(). */
COUNTER(FLOWS, flows, "connections that started with LDCP"),
COUNTER(NO_ECN, no_ecn, "connections that did not negotiate ECN: classic"),
COUNTER(LOW_PRIORITY, low_priority_sent, "first-RTT packets sent as Not-ECT"),
COUNTER(START_FULL, start_full, "fast starts whose whole IW was acknowledged"),
COUNTER(START_LOST, start_lost, "fast starts ended by a loss"),
COUNTER(START_MARKED, start_marked, "fast starts ended by CE on an ECN-capable packet"),
COUNTER(MARKED, marked, "segments acknowledged with ECN-Echo"),
COUNTER(BELOW_ONE, below_one, "number of times that a window fell below one segment"),
COUNTER(LOSSES, losses, "recoveries in the stable stage"),
COUNTER(TIMEOUTS, timeouts, "windows restarted after an RTO"),
COUNTER(FALLBACKS, fallbacks, "changes to classic after losses without a mark"),
COUNTER(RETURNS, returns, "returns from classic after a mark"),

#undef COUNTER
