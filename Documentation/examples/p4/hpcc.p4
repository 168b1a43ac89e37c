// SPDX-License-Identifier: GPL-2.0
/*
 * A switch for HPCC++ in P4_16, for v1model: it stamps the TCP option (Documentation/protocol.rst) and
 * pushes INT-MD 2.1 metadata, over IPv4 and IPv6. This is an example: nobody here has
 * compiled it, because Debian has no P4 compiler. README.rst states how to use it.
 *
 * A packet that does not have exactly the expected form is forwarded unchanged.
 */
#include <core.p4>
/* This version of v1model has no type parameter for a register's index. */
#define V1MODEL_VERSION 20180101
#include <v1model.p4>

const bit<16> ETH_IPV4 = 0x0800;
const bit<16> ETH_IPV6 = 0x86dd;
const bit<8> PROTO_TCP = 6;

/* Same values as in include/uapi/linux/hpcc.h. KIND_FIRST is four bytes, the first of which is KIND. */
const bit<8> KIND = 253;
const bit<32> KIND_FIRST = 0xfd000000;
const bit<3> FORWARD = 1;
const bit<3> IDENTIFY = 3;
const bit<3> ANSWERED = 6;
const bit<32> QLEN_MAX = 511 << 14;

/* Same values as in include/hpcc/carrier/int.h. */
const bit<6> INT_DSCP = 23;
const bit<16> INT_INSTRUCTIONS = 0xd500;
const bit<16> INT_HOP_LEN = 24;
const bit<32> INT_UTIL_ONE = 0x40000000;

const bit<32> PORTS = 512;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> id;
    bit<1> reserved;
    bit<1> df;
    bit<1> mf;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> payload_len;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<4> doff;
    bit<4> reserved;
    bit<6> flags_high;
    bit<1> syn;
    bit<1> fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

/* NOP, NOP, timestamps: a host writes its other options before the telemetry option. */
header stamps_t {
    bit<96> bytes;
}

header option_t {
    bit<8> kind;
    bit<8> len;
    bit<3> type;
    bit<5> scale;
    bit<4> hops;
    bit<1> prompt;
    bit<3> phase;
}

header record_t {
    bit<4> hop;
    bit<60> rest;
}

/* The rest of the TCP header. The parser skips it only to reach INT. */
header options_t {
    varbit<320> bytes;
}

header shim_t {
    bit<4> type;
    bit<2> npt;
    bit<2> reserved;
    bit<8> length;
    bit<8> reserved2;
    bit<6> dscp;
    bit<2> reserved3;
}

header md_t {
    bit<4> version;
    bit<1> discard;
    bit<1> exceeded;
    bit<1> mtu;
    bit<12> reserved;
    bit<5> hop_ml;
    bit<8> left;
    bit<16> instructions;
    bit<16> domain;
    bit<16> ds_instruction;
    bit<16> ds_flags;
}

header hop_t {
    bit<32> node;
    bit<16> ingress;
    bit<16> egress;
    bit<8> queue;
    bit<24> qlen;
    bit<64> ts;
    bit<32> util;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv6_t ipv6;
    tcp_t tcp;
    stamps_t stamps;
    option_t option;
    record_t[4] records;
    options_t options;
    shim_t shim;
    md_t md;
    hop_t hop;
}

/* Results of the parser, and the changed fields for the checksums: the complements of the old values, and
 * the new values.
 */
struct meta_t {
    bit<32> ip_head;        /* bytes of the IP header */
    bit<32> ip_len;         /* of the packet, as its IP header states it */
    bit<32> front;          /* bytes of the TCP header before the option */
    bit<32> payload;        /* bytes after the TCP header, if they may be INT */
    bit<1> found;           /* an option of a valid length was found */
    bit<3> slots;
    bit<16> not_checksum;
    bit<16> not_ip_checksum;
    bit<32> not_option;
    bit<32> option;
    bit<64> record;
    bit<32> not_shim;
    bit<32> shim;
    bit<32> not_md;
    bit<32> md;
    bit<16> grown;
    bit<1> stamped;
    bit<1> pushed;
}

parser ParserImpl(packet_in packet, out headers_t h, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) {
            ETH_IPV4: ipv4;
            ETH_IPV6: ipv6;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        meta.ip_head = 20;
        meta.ip_len = (bit<32>)h.ipv4.total_len;
        meta.payload = meta.ip_len - 20;
        transition select(h.ipv4.version, h.ipv4.ihl, h.ipv4.mf, h.ipv4.offset, h.ipv4.protocol, h.ipv4.dscp) {
            (4, 5, 0, 0, PROTO_TCP, INT_DSCP): tcp_int;
            (4, 5, 0, 0, PROTO_TCP, _): tcp;
            default: accept;
        }
    }
    state ipv6 {
        packet.extract(h.ipv6);
        meta.ip_head = 40;
        meta.ip_len = 40 + (bit<32>)h.ipv6.payload_len;
        meta.payload = (bit<32>)h.ipv6.payload_len;
        transition select(h.ipv6.version, h.ipv6.next_header, h.ipv6.dscp) {
            (6, PROTO_TCP, INT_DSCP): tcp_int;
            (6, PROTO_TCP, _): tcp;
            default: accept;
        }
    }
    state tcp {
        packet.extract(h.tcp);
        /* The options have at least the size of an option's head. */
        transition select(h.tcp.syn, h.tcp.doff) {
            (0, 4w6 &&& 4w14): first_option;    /* 6, 7 */
            (0, 4w8 &&& 4w8): first_option;     /* 8 .. 15 */
            default: accept;
        }
    }
    state first_option {
        meta.front = 20;
        transition select(packet.lookahead<bit<32>>(), h.tcp.doff) {
            (0x0101080a, 8): accept;        /* no option after the timestamps */
            (0x0101080a, _): stamps;
            (KIND_FIRST &&& 32w0xff000000, _): option;
            default: accept;
        }
    }
    state stamps {
        packet.extract(h.stamps);
        meta.front = 32;
        transition select(packet.lookahead<bit<8>>()) {
            KIND: option;
            default: accept;
        }
    }
    /* EgressImpl checks that the option ends within the TCP header. */
    state option {
        packet.extract(h.option);
        transition select(h.option.len) {
            4: no_slots;
            12: slots_1;
            20: slots_2;
            28: slots_3;
            36: slots_4;
            default: accept;
        }
    }
    state no_slots {
        meta.found = 1;
        transition accept;
    }
    state slots_1 {
        packet.extract(h.records.next);
        meta.slots = 1;
        transition no_slots;
    }
    state slots_2 {
        packet.extract(h.records.next);
        packet.extract(h.records.next);
        meta.slots = 2;
        transition no_slots;
    }
    state slots_3 {
        packet.extract(h.records.next);
        packet.extract(h.records.next);
        packet.extract(h.records.next);
        meta.slots = 3;
        transition no_slots;
    }
    state slots_4 {
        packet.extract(h.records.next);
        packet.extract(h.records.next);
        packet.extract(h.records.next);
        packet.extract(h.records.next);
        meta.slots = 4;
        transition no_slots;
    }
    state tcp_int {
        packet.extract(h.tcp);
        transition select(h.tcp.doff) {
            4w0 &&& 4w12: accept;           /* 0 .. 3 */
            4: accept;
            default: options;
        }
    }
    state options {
        packet.extract(h.options, ((bit<32>)h.tcp.doff - 5) * 32);
        /* Assign to meta.payload itself: otherwise a compiler could move the expression into select(),
         * where bmv2 rejects it.
         */
        meta.payload = meta.payload - ((bit<32>)h.tcp.doff << 2);
        transition select(meta.payload) {
            32w0 &&& 32w0xfffffff0: accept; /* 0 .. 15 */
            default: shim;
        }
    }
    state shim {
        packet.extract(h.shim);
        packet.extract(h.md);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t h, inout meta_t meta) {
    apply { }
}

control IngressImpl(inout headers_t h, inout meta_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<9> port) {
        std.egress_spec = port;
    }
    /* Forward by MAC address, like a bridge that does not learn addresses. */
    table mac {
        key = { h.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply {
        mac.apply();
    }
}

control EgressImpl(inout headers_t h, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<64>>(PORTS) sent;          /* time the link has spent, ns in Q16 */
    register<bit<48>>(PORTS) begun;         /* start of the current window of the utilization, us */
    register<bit<64>>(PORTS) in_window;     /* bytes sent in the current window */
    register<bit<32>>(PORTS) utilization;   /* utilization of the last complete window */

    bit<1> known = 0;
    bit<20> node = 0;
    bit<16> port = 0;
    bit<8> tag = 0;
    bit<24> rate = 0;
    bit<64> byte_ns = 0;
    bit<64> byte_util = 0;
    bit<48> window_us = 0;
    bit<64> packet_bytes = 0;
    bit<32> mtu = 0;

    /* Parameters of an egress port: names, the tag (a hash of the names), B in the format of an identity
     * record, the time of a byte in ns (Q16), the utilization that a byte adds in a window of window_us,
     * the number of bytes that a packet of the queue counts as, and the longest packet.
     */
    action link(bit<20> node_, bit<16> port_, bit<8> tag_, bit<24> rate_, bit<64> byte_ns_, bit<64> byte_util_,
                bit<48> window_us_, bit<64> packet_bytes_, bit<32> mtu_) {
        known = 1;
        node = node_;
        port = port_;
        tag = tag_;
        rate = rate_;
        byte_ns = byte_ns_;
        byte_util = byte_util_;
        window_us = window_us_;
        packet_bytes = packet_bytes_;
        mtu = mtu_;
    }
    table links {
        key = { std.egress_port: exact; }
        actions = { link; NoAction; }
        default_action = NoAction();
    }

    apply {
        links.apply();
        if (known == 1) {
            bit<32> at = (bit<32>)std.egress_port;
            bit<64> tx;
            bit<64> bytes;
            bit<64> length;
            bit<48> start;
            bit<32> util;
            bit<64> ts_ns = (bit<64>)std.egress_global_timestamp * 1000;
            bit<64> qlen_bytes = (bit<64>)std.deq_qdepth * packet_bytes;
            bit<32> tcp_head = (bit<32>)h.tcp.doff << 2;
            bit<1> whole = 0;

            /* The counters before this packet. */
            sent.read(tx, at);
            in_window.read(bytes, at);
            begun.read(start, at);
            utilization.read(util, at);
            if (std.egress_global_timestamp - start >= window_us) {
                if (std.egress_global_timestamp - start < 2 * window_us) {
                    bit<64> full = bytes * byte_util;
                    util = full > (bit<64>)INT_UTIL_ONE ? INT_UTIL_ONE : (bit<32>)full;
                } else {
                    util = 0;
                }
                utilization.write(at, util);
                begun.write(at, std.egress_global_timestamp);
                bytes = 0;
            }

            meta.not_checksum = ~h.tcp.checksum;
            /* The frame contains all bytes that the IP header states, and these bytes contain the whole TCP
             * header.
             */
            if (h.tcp.isValid() && meta.ip_head + tcp_head <= meta.ip_len &&
                14 + meta.ip_len <= std.packet_length) {
                whole = 1;
            }

            /* The TCP option. */
            if (whole == 1 && meta.found == 1 && meta.front + (bit<32>)h.option.len <= tcp_head &&
                h.option.hops != 15 && (h.option.type == FORWARD || h.option.type == ANSWERED ||
                                        h.option.type == IDENTIFY)) {
                bit<4> hop = h.option.hops + 1;
                bit<8> scale = (bit<8>)h.option.scale;
                bit<60> rest = 0;

                meta.not_option = ~(h.option.kind ++ h.option.len ++ h.option.type ++ h.option.scale ++
                                    h.option.hops ++ h.option.prompt ++ h.option.phase);
                h.option.hops = hop;
                meta.option = h.option.kind ++ h.option.len ++ h.option.type ++ h.option.scale ++
                              h.option.hops ++ h.option.prompt ++ h.option.phase;
                meta.record = 0;
                meta.stamped = 1;
                if (h.option.type != IDENTIFY) {
                    bit<64> units = ((qlen_bytes * byte_ns) >> 16) >> scale;
                    bit<32> v = units > (bit<64>)QLEN_MAX ? QLEN_MAX : (bit<32>)units;
                    bit<4> exponent = 0;

                    if (v >= 256) {
                        exponent = 1;
                        if (v >= 1 << 16) {
                            v = v >> 8;
                            exponent = exponent + 8;
                        }
                        if (v >= 1 << 12) {
                            v = v >> 4;
                            exponent = exponent + 4;
                        }
                        if (v >= 1 << 10) {
                            v = v >> 2;
                            exponent = exponent + 2;
                        }
                        if (v >= 1 << 9) {
                            v = v >> 1;
                            exponent = exponent + 1;
                        }
                    }
                    rest = tag ++ (bit<20>)(ts_ns >> scale) ++ (bit<20>)((tx >> 16) >> scale) ++ exponent ++
                           (bit<8>)v;
                } else {
                    rest = node ++ port ++ rate;
                }
                if ((bit<8>)hop > (bit<8>)h.option.phase * (bit<8>)meta.slots) {
                    /* Write the first free slot, and keep the records in other slots. */
                    if (meta.slots > 0 && h.records[0].hop == 0) {
                        meta.record = hop ++ rest;
                        h.records[0].hop = hop;
                        h.records[0].rest = rest;
                    } else if (meta.slots > 1 && h.records[1].hop == 0) {
                        meta.record = hop ++ rest;
                        h.records[1].hop = hop;
                        h.records[1].rest = rest;
                    } else if (meta.slots > 2 && h.records[2].hop == 0) {
                        meta.record = hop ++ rest;
                        h.records[2].hop = hop;
                        h.records[2].rest = rest;
                    } else if (meta.slots > 3 && h.records[3].hop == 0) {
                        meta.record = hop ++ rest;
                        h.records[3].hop = hop;
                        h.records[3].rest = rest;
                    }
                }
            }

            /* INT-MD, with the instructions that hosts of HPCC++ request. */
            if (whole == 1 && h.md.isValid() && h.shim.type == 1 && h.shim.npt == 0 && h.md.version == 2 &&
                h.md.domain == 0 && h.md.ds_instruction == 0 && h.md.instructions == INT_INSTRUCTIONS &&
                h.md.hop_ml == 6 && h.shim.length >= 3 && 4 + ((bit<32>)h.shim.length << 2) <= meta.payload) {
                meta.not_shim = ~(h.shim.type ++ h.shim.npt ++ h.shim.reserved ++ h.shim.length ++ h.shim.reserved2 ++
                                  h.shim.dscp ++ h.shim.reserved3);
                meta.not_md = ~(h.md.version ++ h.md.discard ++ h.md.exceeded ++ h.md.mtu ++ h.md.reserved ++
                                h.md.hop_ml ++ h.md.left);
                if (h.md.left == 0 || h.shim.length > 249) {
                    h.md.exceeded = 1;
                } else if (meta.ip_len + (bit<32>)INT_HOP_LEN > mtu) {
                    h.md.mtu = 1;
                } else {
                    h.md.left = h.md.left - 1;
                    h.shim.length = h.shim.length + 6;
                    h.hop.setValid();
                    h.hop.node = (bit<32>)node;
                    h.hop.ingress = 0xffff;
                    h.hop.egress = port;
                    h.hop.queue = 0;
                    h.hop.qlen = qlen_bytes > 0xfffffe ? 24w0xfffffe : (bit<24>)qlen_bytes;
                    h.hop.ts = ts_ns;
                    h.hop.util = util;
                    meta.grown = INT_HOP_LEN;
                }
                meta.shim = h.shim.type ++ h.shim.npt ++ h.shim.reserved ++ h.shim.length ++ h.shim.reserved2 ++
                            h.shim.dscp ++ h.shim.reserved3;
                meta.md = h.md.version ++ h.md.discard ++ h.md.exceeded ++ h.md.mtu ++ h.md.reserved ++
                          h.md.hop_ml ++ h.md.left;
                meta.pushed = 1;
                if (h.ipv4.isValid()) {
                    meta.not_ip_checksum = ~h.ipv4.checksum;
                    h.ipv4.total_len = h.ipv4.total_len + meta.grown;
                } else {
                    h.ipv6.payload_len = h.ipv6.payload_len + meta.grown;
                }
            }

            length = (bit<64>)std.packet_length + (bit<64>)meta.grown;
            sent.write(at, tx + length * byte_ns);
            in_window.write(at, bytes + length);
        }
    }
}

/* RFC 1624: subtract the old values from the checksum, and add the new values. A free slot and a missing
 * hop are zero, so they change nothing.
 */
control ComputeChecksumImpl(inout headers_t h, inout meta_t meta) {
    apply {
        update_checksum(meta.stamped == 1,
            { meta.not_checksum, meta.not_option, meta.option, meta.record },
            h.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.pushed == 1 && !h.hop.isValid(),
            { meta.not_checksum, meta.not_md, meta.md },
            h.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.pushed == 1 && h.hop.isValid(),
            { meta.not_checksum, meta.not_shim, meta.shim, meta.not_md, meta.md, meta.grown, h.hop.node,
              h.hop.ingress, h.hop.egress, h.hop.queue, h.hop.qlen, h.hop.ts, h.hop.util },
            h.tcp.checksum, HashAlgorithm.csum16);
        /* In the IPv4 header only the total length changes. */
        update_checksum(h.ipv4.isValid() && h.hop.isValid(),
            { meta.not_ip_checksum, meta.grown },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.ipv6);
        packet.emit(h.tcp);
        packet.emit(h.stamps);
        packet.emit(h.option);
        packet.emit(h.records);
        packet.emit(h.options);
        packet.emit(h.shim);
        packet.emit(h.md);
        packet.emit(h.hop);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
