-- SPDX-License-Identifier: GPL-2.0
--
-- Wireshark and tshark: telemetry carriers of HPCC++ for Linux other than the TCP option and IOAM,
-- which Wireshark supports: INT-MD after the TCP header, IFA 2.0 around it, CSIG tags
-- (Documentation/protocol.rst). Wireshark dissects the payload of each carrier.

-- A part of a header: for each field the offset and the number of its bytes, and the field.

local function add(tree, range, part)
	for _, field in ipairs(part) do
		tree:add(field[3], range(field[1], field[2]))
	end
end

-- Register the fields of parts, and others.
local function register(proto, parts, others)
	for _, part in ipairs(parts) do
		for _, field in ipairs(part) do
			others[#others + 1] = field[3]
		end
	end
	proto.fields = others
end

-- ---- IFA 2.0: IP protocol 131 ------------------------------------------------

local ifa = Proto("ifa", "Inband Flow Analyzer 2.0")

local IFA_HEAD, IFA_MD, IFA_HOP, TCP_MIN = 4, 4, 32, 20
local GBPS = { [0] = "10 Gb/s", "25 Gb/s", "40 Gb/s", "50 Gb/s", "100 Gb/s", "200 Gb/s", "400 Gb/s",
	       [15] = "other" }

local ifa_head = {
	{ 0, 1, ProtoField.uint8("ifa.version", "Version", base.DEC, nil, 0xf0) },
	{ 0, 1, ProtoField.uint8("ifa.gns", "Global name space", base.DEC, nil, 0x0f) },
	{ 1, 1, ProtoField.uint8("ifa.proto", "Next header") },
	{ 2, 1, ProtoField.uint8("ifa.flags", "Flags", base.HEX, nil, 0x1f) },
	{ 3, 1, ProtoField.uint8("ifa.max_length", "Max Length, words") },
}
local ifa_md = {
	{ 0, 1, ProtoField.uint8("ifa.request", "Request Vector", base.HEX) },
	{ 1, 1, ProtoField.uint8("ifa.action", "Action Vector", base.HEX) },
	{ 2, 1, ProtoField.uint8("ifa.hop_limit", "Hop Limit") },
	{ 3, 1, ProtoField.uint8("ifa.length", "Current Length, words") },
}
local ifa_metadata = ProtoField.bytes("ifa.hop", "Metadata")
local ifa_hop_part = {
	{ 0, 1, ProtoField.uint8("ifa.lns", "Local name space", base.DEC, nil, 0xf0) },
	{ 0, 4, ProtoField.uint32("ifa.device_id", "deviceID", base.DEC, nil, 0x0fffff00) },
	{ 4, 1, ProtoField.uint8("ifa.speed", "Speed", base.DEC, GBPS, 0xf0) },
	{ 4, 4, ProtoField.uint32("ifa.rx_sec", "rxTimestampSec", base.DEC, nil, 0x000fffff) },
	{ 8, 2, ProtoField.uint16("ifa.egress_port", "egressPort") },
	{ 10, 2, ProtoField.uint16("ifa.ingress_port", "ingressPort") },
	{ 12, 4, ProtoField.uint32("ifa.rx_ns", "rxTimestampNs") },
	{ 16, 4, ProtoField.uint32("ifa.residence", "residenceTime, ns") },
	{ 20, 4, ProtoField.uint32("ifa.tx_bytes", "txBytes") },
	{ 26, 2, ProtoField.uint16("ifa.qlen", "Queue Length, units of the name space") },
}
register(ifa, { ifa_head, ifa_md, ifa_hop_part }, { ifa_metadata })

local ifa_malformed = ProtoExpert.new("ifa.malformed", "Lengths contradict each other",
				      expert.group.MALFORMED, expert.severity.ERROR)
ifa.experts = { ifa_malformed }

local function ifa_hop(range, tree, nr)
	local hop = tree:add(ifa_metadata, range)

	hop:set_text(string.format("Hop %d from the receiver: device %d, port %d", nr,
				   range:bitfield(4, 20), range(8, 2):uint()))
	add(hop, range, ifa_hop_part)
end

-- The metadata, and the lengths of header and stack; nil if the lengths are inconsistent.
local function ifa_stack(range, tree, max)
	if range:len() < IFA_MD then
		return nil
	end
	add(tree, range, ifa_md)
	local words = range(3, 1):uint()
	if words > max or IFA_MD + 4 * words > range:len() then
		return nil
	end
	for nr = 1, 4 * words / IFA_HOP do
		ifa_hop(range(IFA_MD + (nr - 1) * IFA_HOP, IFA_HOP), tree, nr)
	end
	return IFA_MD + 4 * words
end

-- The segment without IFA: the checksum includes the length without IFA.
local function without(tvb, from, to)
	local bytes = tvb:range(IFA_HEAD, from - IFA_HEAD):bytes()

	if to < tvb:len() then
		bytes:append(tvb:range(to):bytes())
	end
	return bytes:tvb("TCP without IFA")
end

function ifa.dissector(tvb, pinfo, root)
	if tvb:len() < IFA_HEAD + TCP_MIN then
		return 0
	end
	local md = IFA_HEAD + 4 * tvb:range(IFA_HEAD + 12, 1):bitfield(0, 4)
	local tree = root:add(ifa, tvb:range(0, IFA_HEAD))

	add(tree, tvb:range(), ifa_head)
	local len = md >= IFA_HEAD + TCP_MIN and md <= tvb:len() - IFA_MD and
		ifa_stack(tvb:range(md), tree, tvb:range(3, 1):uint())
	if not len then
		tree:add_proto_expert_info(ifa_malformed)
		return tvb:len()
	end
	Dissector.get("tcp"):call(without(tvb, md, md + len), pinfo, root)
	pinfo.cols.info:append(" IFA")
	return tvb:len()
end

DissectorTable.get("ip.proto"):add(131, ifa)

-- ---- CSIG: a tag with an EtherType -------------------------------------------

local csig = Proto("csig", "Congestion Signaling")

local CSIG_LEN = 4
local NEST_MAX = 256 -- offset in the frame: no tag of ours is behind so many bytes of tags
local ethertypes = DissectorTable.get("ethertype")
local SIGNALS = { [0] = "min(ABW)", "min(ABW/C)", "max(PD)", "max(qlen/B)" }

local csig_tag = {
	{ 0, 2, ProtoField.uint16("csig.type", "Signal", base.DEC, SIGNALS, 0xe000) },
	{ 0, 2, ProtoField.uint16("csig.reserved", "R", base.DEC, nil, 0x1000) },
	{ 0, 2, ProtoField.uint16("csig.bucket", "Bucket", base.DEC, nil, 0x0f80) },
	{ 0, 2, ProtoField.uint16("csig.locator", "Locator", base.DEC, nil, 0x007f) },
	{ 2, 2, ProtoField.uint16("csig.ethertype", "EtherType", base.HEX) },
}
register(csig, { csig_tag }, {})
csig.prefs.tpid = Pref.uint("TPID", 0x88b5, "tpid of hpcc_csig")

function csig.dissector(tvb, pinfo, root)
	if tvb:len() < CSIG_LEN then
		return 0
	end
	add(root:add(csig, tvb:range(0, CSIG_LEN)), tvb:range(), csig_tag)
	-- Tags in tags end here, before Lua's stack does.
	if tvb:offset() < NEST_MAX then
		ethertypes:try(tvb:range(2, 2):uint(), tvb:range(CSIG_LEN):tvb(), pinfo, root)
	end
	return tvb:len()
end

local tpid

local function take_tags()
	if tpid then
		ethertypes:remove(tpid, csig)
	end
	tpid = csig.prefs.tpid
	ethertypes:add(tpid, csig)
end

csig.prefs_changed = take_tags
take_tags()

-- ---- INT-MD: after the TCP header, in packets with a DSCP -----------------------

local int = Proto("intmd", "INT-MD 2.1")

local SHIM, INT_LEN, INSTRUCTIONS, INT_HOP = 4, 16, 0xd500, 24

local int_head = {
	{ 0, 1, ProtoField.uint8("intmd.type", "Type", base.DEC, nil, 0xf0) },
	{ 1, 1, ProtoField.uint8("intmd.length", "Length, words") },
	{ 3, 1, ProtoField.uint8("intmd.dscp", "DSCP", base.DEC, nil, 0xfc) },
	{ 4, 1, ProtoField.uint8("intmd.version", "Version", base.DEC, nil, 0xf0) },
	{ 4, 1, ProtoField.bool("intmd.discard", "D", 8, nil, 0x08) },
	{ 4, 1, ProtoField.bool("intmd.exceeded", "E: no hop was left", 8, nil, 0x04) },
	{ 4, 1, ProtoField.bool("intmd.mtu", "M: a hop had no room", 8, nil, 0x02) },
	{ 6, 1, ProtoField.uint8("intmd.hop_ml", "Hop ML, words", base.DEC, nil, 0x1f) },
	{ 7, 1, ProtoField.uint8("intmd.left", "Remaining Hop Count") },
	{ 8, 2, ProtoField.uint16("intmd.instructions", "Instruction Bitmap", base.HEX) },
	{ 10, 2, ProtoField.uint16("intmd.domain", "Domain Specific ID", base.HEX) },
}
local int_metadata = ProtoField.bytes("intmd.hop", "Metadata")
local int_hop_part = {
	{ 0, 4, ProtoField.uint32("intmd.node_id", "Node ID") },
	{ 6, 2, ProtoField.uint16("intmd.egress_port", "Egress interface") },
	{ 8, 1, ProtoField.uint8("intmd.queue_id", "Queue ID") },
	{ 9, 3, ProtoField.uint24("intmd.qlen", "Queue occupancy, bytes") },
	{ 12, 8, ProtoField.uint64("intmd.egress_ts", "Egress timestamp, ns") },
}
local utilization = ProtoField.double("intmd.utilization", "Egress interface Tx utilization")
register(int, { int_head, int_hop_part }, { int_metadata, utilization })
int.prefs.dscp = Pref.uint("DSCP", 23, "net.hpcc.int_dscp of the hosts")

local int_malformed = ProtoExpert.new("intmd.malformed", "Lengths contradict each other",
				      expert.group.MALFORMED, expert.severity.ERROR)
int.experts = { int_malformed }

local payload = Field.new("tcp.payload")
local dscps = { Field.new("ip.dsfield.dscp"), Field.new("ipv6.tclass.dscp") }

local function int_hop(range, tree, nr)
	local hop = tree:add(int_metadata, range)

	hop:set_text(string.format("Hop %d from the receiver: node %d, port %d", nr,
				   range(0, 4):uint(), range(6, 2):uint()))
	add(hop, range, int_hop_part)
	hop:add(utilization, range(20, 4), range(20, 4):uint() / 2 ^ 30)
end

local function int_stack(range, tree)
	local len = SHIM + 4 * range(1, 1):uint()

	add(tree, range, int_head)
	if len < INT_LEN or len > range:len() then
		tree:add_proto_expert_info(int_malformed)
	elseif range(8, 2):uint() == INSTRUCTIONS then
		for nr = 1, (len - INT_LEN) / INT_HOP do
			int_hop(range(INT_LEN + (nr - 1) * INT_HOP, INT_HOP), tree, nr)
		end
	end
end

-- A postdissector: for TCP the stack is payload with old sequence numbers.
function int.dissector(_, pinfo, root)
	local data = payload()
	local marked = false

	for _, dscp in ipairs(dscps) do
		marked = marked or (dscp() or {}).value == int.prefs.dscp
	end
	if not marked or not data or data.len < INT_LEN or
	   data.range(0, 1):bitfield(0, 4) ~= 1 or data.range(4, 1):bitfield(0, 4) ~= 2 then
		return
	end
	int_stack(data.range, root:add(int, data.range))
	pinfo.cols.info:append(" INT")
end

register_postdissector(int)
