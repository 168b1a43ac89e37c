-- SPDX-License-Identifier: GPL-2.0
--
-- Wireshark and tshark: the telemetry option of HPCC++ for Linux (Documentation/protocol.rst).
--
-- Wireshark's own dissector of experimental TCP options dissects options that are not ours: an
-- option of a SYN with another ExID, options of a connection whose SYN had one, and malformed
-- options of a connection whose SYN was not seen.

local hpcc = Proto("hpcc", "HPCC++ telemetry")

-- As in include/uapi/linux/hpcc.h.
local KINDS = { 253, 254 }
local VERSION = 1
local FORWARD, ECHO, IDENTIFY, IDENTIFY_ECHO, REPORT, ANSWERED, RESPONSE = 1, 2, 3, 4, 5, 6, 7
local SYN_LEN, HEAD_LEN, RECORD_LEN, TAG_LEN = 6, 4, 8, 4
local COUNTER = 2 ^ 20		-- ts and tx are modulo this
local WINDOW, FLOWS, PARAMETERS, SIGNAL = 1, 2, 3, 4

local types = {
	[FORWARD] = "FORWARD", [ECHO] = "ECHO", [IDENTIFY] = "IDENTIFY",
	[IDENTIFY_ECHO] = "IDENTIFY_ECHO", [REPORT] = "REPORT", [ANSWERED] = "ANSWERED",
	[RESPONSE] = "RESPONSE",
}
local report_kinds = { [WINDOW] = "window", [FLOWS] = "N", [PARAMETERS] = "parameters",
		       [SIGNAL] = "signal" }
local signals = { [0] = "min(ABW)", "min(ABW/C)", "max(PD)", "max(qlen/B)" }

local f = {
	exid = ProtoField.uint16("hpcc.exid", "ExID", base.HEX),
	version = ProtoField.uint8("hpcc.version", "Version"),
	caps = ProtoField.uint16("hpcc.caps", "Capabilities", base.HEX, nil, 0x0fff),
	cap_echo = ProtoField.bool("hpcc.caps.echo", "Echoes FORWARD and IDENTIFY", 16, nil, 0x0001),
	cap_quiet = ProtoField.bool("hpcc.caps.quiet", "Understands quiet hops", 16, nil, 0x0002),
	cap_probes = ProtoField.bool("hpcc.caps.probes", "Answers probes", 16, nil, 0x0004),
	cap_report = ProtoField.bool("hpcc.caps.report", "Wants N", 16, nil, 0x0008),
	cap_window = ProtoField.bool("hpcc.caps.window", "Computes W for the sender", 16, nil, 0x0010),
	cap_ioam = ProtoField.bool("hpcc.caps.ioam", "Decodes IOAM traces", 16, nil, 0x0020),
	cap_int = ProtoField.bool("hpcc.caps.int", "Decodes INT-MD", 16, nil, 0x0040),
	cap_ifa = ProtoField.bool("hpcc.caps.ifa", "Decodes IFA", 16, nil, 0x0080),
	cap_csig = ProtoField.bool("hpcc.caps.csig", "Reflects CSIG", 16, nil, 0x0100),
	cap_signed = ProtoField.bool("hpcc.caps.signed", "Signs feedback", 16, nil, 0x0200),
	type = ProtoField.uint8("hpcc.type", "Type", base.DEC, types, 0xe0),
	scale = ProtoField.uint8("hpcc.scale", "Scale, a unit is 2^scale ns", base.DEC, nil, 0x1f),
	hops = ProtoField.uint8("hpcc.hops", "Hops", base.DEC, nil, 0xf0),
	prompt = ProtoField.bool("hpcc.prompt", "PROMPT", 8, nil, 0x08),
	phase = ProtoField.uint8("hpcc.phase", "Phase", base.DEC, nil, 0x07),
	count = ProtoField.uint8("hpcc.signature.count", "Count", base.DEC, nil, 0x0f),
	signature = ProtoField.uint32("hpcc.signature", "Tag of the feedback", base.HEX),
	record = ProtoField.bytes("hpcc.record", "Record"),
	hop = ProtoField.uint8("hpcc.hop", "Hop", base.DEC, nil, 0xf0),
	tag = ProtoField.uint8("hpcc.tag", "Tag", base.HEX),
	ts = ProtoField.uint32("hpcc.ts", "ts, units"),
	tx = ProtoField.uint32("hpcc.tx", "tx, units"),
	qlen = ProtoField.uint64("hpcc.qlen", "qlen, ns"),
	utilization = ProtoField.double("hpcc.utilization", "d(tx)/d(ts)"),
	u = ProtoField.double("hpcc.u", "u' = min(qlen)/T + d(tx)/d(ts)"),
	quiet = ProtoField.uint8("hpcc.quiet", "Quiet hop"),
	switch = ProtoField.uint24("hpcc.switch_id", "switch_ID"),
	port = ProtoField.uint16("hpcc.port_id", "port_ID"),
	rate = ProtoField.uint64("hpcc.rate", "B, bit/s"),
	report_kind = ProtoField.uint8("hpcc.report", "Kind", base.DEC, report_kinds, 0xf0),
	id = ProtoField.uint8("hpcc.id", "id", base.DEC, nil, 0x0f),
	seq = ProtoField.uint16("hpcc.seq", "seq"),
	W = ProtoField.double("hpcc.W", "W, of W_init"),
	N = ProtoField.uint16("hpcc.N", "N"),
	max_stage = ProtoField.uint8("hpcc.max_stage", "maxStage"),
	settle = ProtoField.uint8("hpcc.settle", "settle"),
	per_rtt = ProtoField.bool("hpcc.per_rtt", "W changes only with Wc"),
	eta = ProtoField.double("hpcc.eta", "eta"),
	T = ProtoField.uint32("hpcc.T", "T, ns"),
	W_min = ProtoField.double("hpcc.W_min", "W_min, of W_init"),
	W_ai = ProtoField.double("hpcc.W_ai", "W_ai, of W_init"),
	popped = ProtoField.bool("hpcc.signal.popped", "A tag was received", 24, nil, 0x010000),
	signal = ProtoField.uint16("hpcc.signal", "Signal", base.DEC, signals, 0xe000),
	bucket = ProtoField.uint16("hpcc.signal.bucket", "Bucket", base.DEC, nil, 0x0f80),
	locator = ProtoField.uint16("hpcc.signal.locator", "Locator", base.DEC, nil, 0x007f),
}
hpcc.fields = f

local function warning(name, text)
	return ProtoExpert.new("hpcc." .. name, text, expert.group.MALFORMED, expert.severity.WARN)
end
local e = {
	malformed = ProtoExpert.new("hpcc.malformed", "Malformed: length, type or kind of record",
				    expert.group.MALFORMED, expert.severity.ERROR),
	bad_hop = warning("bad_hop", "Record of an impossible hop, of a repeated hop, or of no hop"),
	bad_value = warning("bad_value", "Value out of range"),
	ts_back = warning("ts_back", "ts did not advance"),
	tx_excess = warning("tx_excess", "tx grew faster than ts"),
	path = ProtoExpert.new("hpcc.path_change", "Another link at this hop than before",
			       expert.group.SEQUENCE, expert.severity.NOTE),
}
hpcc.experts = e

hpcc.prefs.exid = Pref.uint("ExID", 0x4843, "net.hpcc.exid of the hosts")
hpcc.prefs.base_rtt = Pref.uint("T, ns", 0, "net.hpcc.base_rtt_ns; 0: u' is not computed")

local get = {
	syn = Field.new("tcp.flags.syn"), stream = Field.new("tcp.stream"),
	sport = Field.new("tcp.srcport"),
}

-- Fields of the TCP header that is being dissected, the innermost one.
local function tcp(field)
	local all = { get[field]() }
	return #all > 0 and all[#all].value
end

local others = {}	-- default dissectors, by kind
local experiment = {}	-- by stream: whose SYN options were seen, "ours" or "other"
local last = {}		-- newest record of each stream, port, type and hop
local measured = {}	-- by packet and position: what was found at the first visit

function hpcc.init()
	experiment, last, measured = {}, {}, {}
end

local function u64(number)
	return UInt64.new(number % 2 ^ 32, math.floor(number / 2 ^ 32))
end

-- Differences between a record and the last one of its link: nil, or a table.
local function measure(key, now)
	local before = last[key]

	last[key] = now
	if not before or before.scale ~= now.scale then
		return nil
	end
	if before.tag ~= now.tag then
		return { path = true }
	end
	local dts = (now.ts - before.ts) % COUNTER
	local dtx = (now.tx - before.tx) % COUNTER
	if dts == 0 and dtx == 0 then
		return nil	-- a copy, as each segment of a TSO burst has one
	end
	if dts == 0 or dts >= COUNTER / 2 then
		return { ts_back = true }
	end
	-- A packet is counted as a whole when its first bit leaves.
	return { utilization = dtx / dts, tx_excess = dtx > 2 * dts + COUNTER / 128,
		 qlen_ns = math.min(before.qlen_ns, now.qlen_ns) }
end

local function show_measured(tree, range, found)
	for name, expert_info in pairs({ path = e.path, ts_back = e.ts_back,
					 tx_excess = e.tx_excess }) do
		if found[name] then
			tree:add_proto_expert_info(expert_info)
		end
	end
	if not found.utilization then
		return
	end
	tree:add(f.utilization, range(1, 7), found.utilization):set_generated()
	if hpcc.prefs.base_rtt > 0 then
		tree:add(f.u, range(1, 7), found.qlen_ns / hpcc.prefs.base_rtt +
			 found.utilization):set_generated()
	end
end

local function load_record(range, pinfo, tree, option)
	local exponent, mantissa = range:bitfield(52, 4), range:bitfield(56, 8)
	local qlen = exponent > 0 and (256 + mantissa) * 2 ^ (exponent - 1) or mantissa
	local now = { scale = option.scale, tag = range:bitfield(4, 8), ts = range:bitfield(12, 20),
		      tx = range:bitfield(32, 20), qlen_ns = qlen * 2 ^ option.scale }
	local hop = range:bitfield(0, 4)
	local where = string.format("%d/%d", pinfo.number, range:offset())

	tree:add(f.hop, range(0, 1))
	tree:add(f.tag, range(0, 2), now.tag)
	tree:add(f.ts, range(1, 3), now.ts)
	tree:add(f.tx, range(4, 3), now.tx)
	tree:add(f.qlen, range(6, 2), u64(now.qlen_ns))
	tree:append_text(string.format(": hop %d, tag 0x%02x, qlen %.0f ns", hop, now.tag,
				       now.qlen_ns))
	if not pinfo.visited then
		measured[where] = measure(option.key .. hop, now)
	end
	if measured[where] then
		show_measured(tree, range, measured[where])
	end
end

local function identity_record(range, tree)
	local rate = range:bitfield(42, 22) * 10 ^ (3 + 3 * range:bitfield(40, 2))

	tree:add(f.hop, range(0, 1))
	tree:add(f.switch, range(0, 3), range:bitfield(4, 20))
	tree:add(f.port, range(3, 2))
	tree:add(f.rate, range(5, 3), u64(rate))
	tree:append_text(string.format(": hop %d is %d:%d, %.0f bit/s", range:bitfield(0, 4),
				       range:bitfield(4, 20), range:bitfield(24, 16), rate))
end

local function quiet_record(range, tree)
	tree:append_text(": quiet hops")
	for hop = 1, 15 do
		if range:bitfield(19 - hop, 1) == 1 then
			tree:add(f.quiet, range(0, 3), hop)
			tree:append_text(" " .. hop)
		end
	end
end

local function range_check(tree, right)
	if not right then
		tree:add_proto_expert_info(e.bad_value)
	end
end

local function window_record(range, tree)
	local W = range:bitfield(32, 32) / 2 ^ 30

	tree:add(f.id, range(0, 1))
	tree:add(f.seq, range(2, 2))
	tree:add(f.W, range(4, 4), W)
	range_check(tree, W > 0 and W <= 1)
end

local function flows_record(range, tree)
	local N = range:bitfield(48, 16)

	tree:add(f.N, range(6, 2))
	range_check(tree, N > 0 and N < 65535)
end

-- One set of parameters in two records.
local function parameters_record(range, tree, second)
	tree:add(f.id, range(0, 1))
	if second then
		tree:add(f.W_min, range(1, 2), range:bitfield(9, 11) / 2 ^ 14)
		tree:add(f.W, range(2, 3), (range:bitfield(20, 16) + 1) / 2 ^ 16)
		tree:add(f.W_ai, range(4, 4), range:bitfield(36, 28) / 2 ^ 28)
		range_check(tree, range:bitfield(9, 11) > 0)
		return
	end
	tree:add(f.max_stage, range(1, 1))
	tree:add(f.settle, range(2, 1), range:bitfield(16, 7))
	tree:add(f.per_rtt, range(2, 1), range:bitfield(23, 1) == 1)
	tree:add(f.eta, range(3, 2), range:bitfield(24, 10) / 1000)
	tree:add(f.T, range(4, 4), range:bitfield(34, 30))
end

-- Content of a CSIG tag, received or to be pushed.
local function signal_record(range, tree)
	tree:add(f.signal, range(6, 2))
	tree:add(f.bucket, range(6, 2))
	tree:add(f.locator, range(6, 2))
end

-- The only record of a FORWARD for CSIG, in the slot of a load record.
local function asks_for_signal(range, option)
	return (option.type == FORWARD or option.type == ANSWERED) and range:bitfield(0, 8) == 0xf0 + SIGNAL and
	       range(1, 4):uint() == 0 and range:bitfield(40, 7) == 0
end

local function report_record(range, tree, place)
	local kind = range:bitfield(0, 4)

	tree:add(f.report_kind, range(0, 1))
	tree:append_text(": " .. (report_kinds[kind] or "reserved"))
	if kind == WINDOW then
		window_record(range, tree)
	elseif kind == FLOWS then
		flows_record(range, tree)
	elseif kind == PARAMETERS then
		parameters_record(range, tree, place % 2 == 0)
	elseif kind == SIGNAL then
		signal_record(range, tree)
	else
		tree:add_proto_expert_info(e.malformed)
	end
end

-- If a record has a hop number, it must be on the path and differ from those of other records.
local function hop_check(tree, option, hop)
	if hop > option.hops or option.seen[hop] then
		tree:add_proto_expert_info(e.bad_hop)
	end
	option.seen[hop] = true
end

local function record(range, pinfo, tree, option, place)
	local item = tree:add(f.record, range)
	local hop = range:bitfield(0, 4)

	item:set_text("Record " .. place)
	if option.type == REPORT then
		report_record(range, item, place)
	elseif range:bitfield(0, 32) == 0 and range:bitfield(32, 32) == 0 then
		item:append_text(": free slot")
	elseif asks_for_signal(range, option) then
		item:append_text(": signal")
		item:add(f.popped, range(5, 3))
		signal_record(range, item)
	elseif hop == 0 and option.type == ECHO then
		quiet_record(range, item)
	elseif hop == 0 then
		item:add_proto_expert_info(e.bad_hop)
	else
		hop_check(item, option, hop)
		if option.type == IDENTIFY or option.type == IDENTIFY_ECHO then
			identity_record(range, item)
		else
			load_record(range, pinfo, item, option)
		end
	end
end

-- Length of the tag of signed feedback, which has at least one record.
local function tag_len(range)
	local kind = range(2, 1):bitfield(0, 3)
	local feedback = kind == ECHO or kind == IDENTIFY_ECHO or kind == REPORT

	return feedback and range:len() > RECORD_LEN and range:len() % RECORD_LEN == 0 and TAG_LEN or 0
end

local function is_well_formed(range)
	return (range:len() - HEAD_LEN - tag_len(range)) % RECORD_LEN == 0 and
	       range(2, 1):bitfield(0, 3) ~= 0
end

local function dissect_telemetry(range, pinfo, tree)
	local option = { type = range(2, 1):bitfield(0, 3), scale = range(2, 1):bitfield(3, 5),
			 hops = range(3, 1):bitfield(0, 4), seen = {} }
	local tag = tag_len(range)
	local records = (range:len() - HEAD_LEN - tag) / RECORD_LEN

	-- An ANSWERED is a FORWARD.
	option.key = string.format("%s/%s/%d/", tcp("stream"), tcp("sport"),
				   option.type == ANSWERED and FORWARD or option.type)
	tree:add(f.type, range(2, 1))
	tree:add(f.scale, range(2, 1))
	tree:add(f.hops, range(3, 1))
	if tag > 0 then
		tree:add(f.count, range(3, 1))
		tree:add(f.signature, range(range:len() - tag, tag))
	else
		tree:add(f.prompt, range(3, 1))
		tree:add(f.phase, range(3, 1))
	end
	if not is_well_formed(range) then
		tree:add_proto_expert_info(e.malformed)
		return
	end
	for place = 1, records do
		record(range(HEAD_LEN + (place - 1) * RECORD_LEN, RECORD_LEN), pinfo, tree, option,
		       place)
	end
	tree:append_text(string.format(", %s, %d hops", types[option.type], option.hops))
	pinfo.cols.info:append(" " .. types[option.type])
end

local function dissect_syn(range, tree)
	tree:add(f.exid, range(2, 2))
	tree:add(f.version, range(4, 1), range(4, 1):bitfield(0, 4))
	local caps = tree:add(f.caps, range(4, 2))
	for _, name in ipairs({ "echo", "quiet", "probes", "report", "window", "ioam", "int", "ifa",
				"csig", "signed" }) do
		caps:add(f["cap_" .. name], range(4, 2))
	end
	if range:len() ~= SYN_LEN or range(4, 1):bitfield(0, 4) ~= VERSION then
		tree:add_proto_expert_info(e.malformed)
	end
	tree:append_text(", SYN")
end

-- Whether the option is ours; stores the result of a SYN for its connection.
local function is_ours(range)
	local stream = tcp("stream")
	local length = range:len()

	if tcp("syn") then
		local ours = length >= SYN_LEN and range(2, 2):uint() == hpcc.prefs.exid
		if ours then
			experiment[stream] = "ours"
		elseif not experiment[stream] then
			experiment[stream] = "other"
		end
		return ours
	end
	if length < HEAD_LEN or experiment[stream] == "other" then
		return false
	end
	return experiment[stream] == "ours" or is_well_formed(range)
end

function hpcc.dissector(tvb, pinfo, tree)
	local range = tvb:range()

	if not is_ours(range) then
		local other = others[range(0, 1):uint()]
		return other and other:call(tvb, pinfo, tree) or 0
	end
	local item = tree:add(hpcc, range)
	if tcp("syn") then
		dissect_syn(range, item)
	else
		dissect_telemetry(range, pinfo, item)
	end
	return tvb:len()
end

local options = DissectorTable.get("tcp.option")
for _, kind in ipairs(KINDS) do
	others[kind] = options:get_dissector(kind)
	options:add(kind, hpcc)
end
