# SPDX-License-Identifier: GPL-2.0
"""Cases for the kernel's tc-testing: accepted and refused values of each option of "tc qdisc add ...
hpcc". Patterns are regular expressions.
"""

import re

# Options of a new qdisc, and the output of tc.
ACCEPTED = (
    ("4863", "", "limit 1048576b node 0 port 0 overhead 24 delay 0ns kind 253 stamp split-gso identify on stats on marking off $"),
    ("48f8", "rate 10gbit", "rate 10Gbit "),
    ("4a22", "bandwidth 40gbit", "bandwidth 40Gbit "),
    ("4b4c", "limit 200kb", "limit 204800b "),
    ("4da0", "node 1048575", "node 1048575 "),
    ("4eca", "port 65535", "port 65535 "),
    ("4ff4", "overhead 256", "overhead 256 "),
    ("511e", "delay 1s", "delay 1s "),
    ("5248", "kind 254", "kind 254 "),
    ("5372", "stamp tcp,ioam,int,ifa,csig", "stamp tcp,ioam,int,ifa,csig "),
    ("5407", "stamp csig_push", "stamp csig_push "),
    ("5531", "nostamp", "kind 253 nostamp "),
    ("565b", "stamp above 20kb", "stamp above 20480b "),
    ("581a", "respond 20kb", "respond 20480b every 10us "),
    ("5a6e", "respond 20kb every 1us", "respond 20480b every 1us "),
    ("5c2d", "stamp int int_dscp 63", "stamp int int_dscp 63 int_window 10us "),
    ("5dec", "stamp int int_window 1s", "int_window 1s "),
    ("5fab", "stamp csig csig_tpid 0x9999", "csig_tpid 0x9999 "),
    ("616a", "stamp csig csig_abw 1000", "csig_abw 1000 "),
    ("6329", "stamp csig csig_time 1ms", "csig_time 1ms "),
    ("6453", "split-gso", " split-gso "),
    ("657d", "no-split-gso", " no-split-gso "),
    ("66a7", "identify off", "identify off "),
    ("67d1", "stats off", "stats off "),
    ("68fb", "marking ldcp", "marking ldcp kmin 6152b kmax 24608b pmax 1 knonect 36912b $"),
    ("6a25", "marking ldcp kmin 30000b kmax 40000b", "kmin 30000b kmax 40000b "),
    ("6c79", "marking ldcp kmax 1mb", "kmax 1048576b "),
    ("6e38", "marking ldcp pmax 0.25", "pmax 0.25 "),
    ("6ff7", "marking ldcp knonect 50000b", "knonect 50000b "),
    ("9101", "quantize 4 strip ioam,ifa", "marking off quantize 4 strip ioam,ifa $"),
    ("9102", "quantize 16 strip all", "marking off quantize 16 strip ioam,int,ifa,csig $"),
    ("9103", "quantize off strip off", "marking off $"),
    ("9201", "inner on", "marking off inner on $"),
    ("9202", "inner on stamp tcp,ioam strip int", "stamp tcp,ioam .*strip int inner on $"),
    ("9203", "inner off", "marking off $"),
    ("9110", "nostamp strip int,csig int_dscp 30 csig_tpid 0x9999", "int_dscp 30 csig_tpid 0x9999 "),
)

# Options of a change, and the output of tc. tc prints an error of the kernel after "Error: ", and
# exits with status 2. The qdisc does not change.
REFUSED = (
    ("498d", "rate 11tbit", 'rate "11tbit": has to be a rate, 1kbit .. 10tbit'),
    ("4ab7", "bandwidth 999bit", 'bandwidth "999bit": has to be a rate'),
    ("4be1", "limit 0", 'limit "0": has to be a size'),
    ("4c76", "limit 1500", "Error: limit: has to hold"),
    ("4d0b", "limit 30kb no-split-gso", "Error: limit: without split"),
    ("4e35", "node 1048576", 'node "1048576": has to be a number, 0 .. 1048575'),
    ("4f5f", "port 65536", 'port "65536": has to be a number, 0 .. 65535'),
    ("5089", "overhead 257", 'overhead "257": has to be a number, 0 .. 256'),
    ("51b3", "delay 1001ms", 'delay "1001ms": has to be a time, 0 .. 1s'),
    ("52dd", "kind 252", 'kind "252": has to be 253 or 254'),
    ("549c", "stamp tcp,udp", 'stamp "tcp,udp": has to be tcp, ioam, int, ifa, csig, csig_push'),
    ("55c6", "nostamp above 1kb", "Error: above: needs stamp"),
    ("5785", "above 1025kb", "Error: above: has to be at most limit"),
    ("58af", "respond -1", 'respond "-1": has to be a size, or 0'),
    ("5944", "respond 1025kb", "Error: respond: has to be at most limit"),
    ("59d9", "nostamp respond 1kb", "Error: respond: needs stamp"),
    ("5b03", "respond 20kb every 999ns", 'every "999ns": has to be a time, 1us .. 1s'),
    ("5b98", "every 5us", "Error: every: needs respond"),
    ("5cc2", "stamp int int_dscp 0", 'int_dscp "0": has to be a number, 1 .. 63'),
    ("5d57", "int_dscp 9", "Error: int_dscp, int_window: need stamp int"),
    ("5e81", "stamp int int_window 999ns", 'int_window "999ns": has to be a time, 1us .. 1s'),
    ("5f16", "int_window 9us", "Error: int_dscp, int_window: need stamp int"),
    ("6040", "stamp csig csig_tpid 0x5ff", 'csig_tpid "0x5ff": has to be an EtherType'),
    ("60d5", "stamp csig csig_tpid 0x8100", "Error: csig_tpid: is the EtherType of IP or of VLAN tags"),
    ("61ff", "stamp csig csig_abw 1001", 'csig_abw "1001": has to be a number, 0 .. 1000'),
    ("6294", "csig_abw 50", "Error: csig_tpid, csig_abw, csig_time: need stamp csig"),
    ("63be", "stamp csig csig_time 1001us", 'csig_time "1001us": has to be a time, 1ns .. 1ms'),
    ("64e8", "split-gso on", 'unknown option "on"'),
    ("6612", "limit 60kb no-split-gso", "Error: limit: without split"),
    ("66e1", "stamp ifa identify off", "Error: stamp ifa: needs identify on"),
    ("673c", "identify 0", 'identify "0": has to be on or off'),
    ("6866", "stats 1", 'stats "1": has to be on or off'),
    ("6990", "marking red", 'marking "red": has to be off or ldcp'),
    ("6aba", "marking ldcp kmin -1", 'kmin "-1": has to be a size, or 0'),
    ("6b4f", "kmin 1kb", "Error: kmin, kmax, pmax, knonect: need marking ldcp"),
    ("6be4", "marking ldcp kmin 5000b kmax 4000b", "Error: kmin: has to be at most kmax"),
    ("6d0e", "marking ldcp kmax many", 'kmax "many": has to be a size, or 0'),
    ("6da3", "marking ldcp kmax 1048577b", "Error: kmax: has to be at most limit"),
    ("6ecd", "marking ldcp pmax 1.000001", 'pmax "1.000001": has to be a fraction, 0 .. 1'),
    ("708c", "marking ldcp knonect -5", 'knonect "-5": has to be a size, or 0'),
    ("7121", "marking ldcp knonect 1048577b", "Error: knonect: has to be at most limit"),
    ("71b6", "rate", "rate: a value has to follow"),
    ("724b", "marked 1", 'unknown option "marked"'),
    ("7b06", "rate 999bit", 'rate "999bit"'),
    ("7b9b", "rate 7bit", 'rate "7bit"'),
    ("7c30", "rate fast", 'rate "fast"'),
    ("7cc5", "bandwidth 11tbit", 'bandwidth "11tbit": has to be a rate, 1kbit .. 10tbit'),
    ("7d5a", "bandwidth 1bit", 'bandwidth "1bit"'),
    ("7def", "limit -1", 'limit "-1"'),
    ("7e84", "limit 4294967296", 'limit "4294967296"'),
    ("7f19", "limit much", 'limit "much"'),
    ("7fae", "node -1", 'node "-1"'),
    ("8043", "node 7x", 'node "7x"'),
    ("80d8", "overhead 010", 'overhead "010"'),
    ("816d", "delay -1us", 'delay "-1us"'),
    ("8202", "marking on", 'marking "on": has to be off or ldcp'),
    ("8297", "stats", "stats: a value has to follow"),
    ("832c", "stamp above -1", 'above "-1": has to be a size, or 0'),
    ("83c1", "stamp above", "above: a value has to follow"),
    ("8456", "stamp respond 4294967296", 'respond "4294967296"'),
    ("84eb", "stamp respond", "respond: a value has to follow"),
    ("8580", "respond 1kb every 1001ms", 'every "1001ms"'),
    ("8615", "respond 1kb every -1us", 'every "-1us"'),
    ("86aa", "respond 1kb every 0", 'every "0"'),
    ("873f", 'marking ldcp knonect ""', 'knonect ""'),
    ("87d4", "marking ldcp pmax", "pmax: a value has to follow"),
    ("8869", "stamp int int_dscp 64", 'int_dscp "64"'),
    ("88fe", "stamp csig csig_tpid 65536", 'csig_tpid "65536"'),
    ("8993", "stamp csig csig_tpid 0x86dd", "Error: csig_tpid: is the EtherType of IP or of VLAN tags"),
    ("8a28", "stamp csig csig_abw 0", 'csig_abw "0"'),
    ("9001", "class 1gbit", "Error: class: needs a classful parent"),
    ("9002", "qlen port", "Error: qlen: needs class"),
    ("9003", "class fast", 'class "fast": has to be a rate, 1kbit .. 10tbit, or 0'),
    ("9004", "qlen none", 'qlen "none": has to be class, port or sojourn'),
    ("9005", "class 1bit", 'class "1bit": has to be a rate'),
    ("9006", "class", "class: a value has to follow"),
    ("9104", "quantize 0", 'quantize "0": has to be a number, 4 .. 16, or off'),
    ("9105", "quantize 3", 'quantize "3": has to be a number, 4 .. 16, or off'),
    ("9106", "quantize 17", 'quantize "17": has to be a number, 4 .. 16, or off'),
    ("9107", "quantize 8x", 'quantize "8x": has to be a number, 4 .. 16, or off'),
    ("9108", "quantize", "quantize: a value has to follow"),
    ("9109", "nostamp quantize 8", "Error: quantize: needs stamp tcp"),
    ("910a", "stamp ioam quantize 8", "Error: quantize: needs stamp tcp"),
    ("910b", "strip tcp", 'strip "tcp": has to be ioam, int, ifa, csig, or several: ioam,ifa; all, or off'),
    ("910c", "strip ioam,udp", 'strip "ioam,udp": has to be ioam, int'),
    ("910d", "strip csig_push", 'strip "csig_push": has to be ioam, int'),
    ("910e", "strip", "strip: a value has to follow"),
    ("9111", "strip csig csig_tpid 0x8100", "Error: csig_tpid: is the EtherType of IP or of VLAN tags"),
    ("9112", "strip csig csig_abw 9", "Error: csig_tpid, csig_abw, csig_time: need stamp csig"),
    ("9204", "inner 1", 'inner "1": has to be on or off'),
    ("9205", "inner", "inner: a value has to follow"),
    ("9206", "nostamp inner on", "Error: inner: needs stamp tcp"),
    ("9207", "stamp ioam inner on", "Error: inner: needs stamp tcp"),
    ("9208", "inner on quantize 8", "Error: quantize: does not reach into tunnels, so not with inner on"),
    ("72e0", "help", r"Usage: \.\.\. hpcc "),
)
# Spellings of numbers that tc refuses.
REFUSED += tuple((f"{number:x}", f'node "{word}"', f'node "{re.escape(word)}": has to be a number, 0 .. 1048575, '
                  "decimal without a leading 0, or 0x")
                 for number, word in enumerate(("010", "00", "0x", "0x10g", "+1", " 1", ""), 0x8d00))
REFUSED += tuple((f"{number:x}", f'marking ldcp pmax "{word}"', f'pmax "{re.escape(word)}": has to be a fraction, 0 .. 1')
                 for number, word in enumerate(("-0.1", "-0", "1e9", "nan", "inf", "0x1", "half", "", "50%", "0.1.2"),
                                               0x8e00))

CHILD = object()      # instead of options: a child
LEAF = object()       # instead of options: a parent without hpcc
# Name, options of the existing qdisc, command, its exit status, pattern for the output of a show
# command, and the number of matches if it is not 1. "show" is a command that shows the qdisc.
OTHERS = (
    ("56f0", "Change hpcc from above 20kb to above 0", "node 7 above 20kb",
     "qdisc change DEV handle 1: root hpcc above 0", 0, "^qdisc hpcc 1: root .*node 7 .*stamp split-gso "),
    ("7375", "Change hpcc and keep what is not named", "rate 1gbit node 3 port 4",
     "qdisc change DEV handle 1: root hpcc rate 2gbit", 0, "^qdisc hpcc 1: root .*rate 2Gbit .*node 3 port 4 "),
    ("740a", "Replace hpcc by another, which begins with defaults", "rate 1gbit node 3",
     "qdisc replace DEV handle 2: root hpcc port 5", 0,
     r"^qdisc hpcc 2: root refcnt \d+ limit 1048576b node 0 port 5 "),
    ("749f", "Delete hpcc", "", "qdisc del DEV handle 1: root", 0, "qdisc hpcc", 0),
    ("75c9", "Add hpcc where there is one, which is refused", "node 7",
     "qdisc add DEV handle 1: root hpcc node 8", 2, "^qdisc hpcc 1: root .*node 7 "),
    ("765e", "Delete hpcc of another handle, which is refused", "", "qdisc del DEV handle 2: root", 2,
     "^qdisc hpcc 1: root "),
    ("76f3", "Show hpcc's class", "", "class show DEV", 0, "^class hpcc 1:1 parent 1:"),
    ("7788", "Add a child to hpcc", "", "qdisc add DEV parent 1:1 handle 2: fq_codel", 0,
     "^qdisc fq_codel 2: parent 1:1 "),
    ("781d", "Add a child to hpcc with marking, which is refused", "marking ldcp",
     "qdisc add DEV parent 1:1 handle 2: fq_codel", 2, "qdisc fq_codel", 0),
    ("78b2", "Turn marking on where hpcc has a child, which is refused", CHILD,
     "qdisc change DEV handle 1: root hpcc marking ldcp", 2, "^qdisc hpcc 1: root .*marking off $"),
    ("7947", "Add a class to hpcc, which is refused", "", "class add DEV parent 1: classid 1:2 hpcc", 1,
     "^class hpcc 1:2", 0),
    ("9007", "Add a class below prio", LEAF,
     "qdisc replace DEV handle 2: parent 9:1 hpcc bandwidth 10gbit class 2gbit qlen port", 0,
     "^qdisc hpcc 2: parent 9:1 .*marking off class 2Gbit qlen port $", 1, "$TC qdisc show dev $DUMMY"),
    ("910f", "Turn stamping off at a border, which is refused", "quantize 8",
     "qdisc change DEV handle 1: root hpcc nostamp", 2, "^qdisc hpcc 1: root .* stamp .*quantize 8 $"),
    ("9209", "Turn stamping off, which turns inner off", "inner on", "qdisc change DEV handle 1: root hpcc nostamp", 0,
     "^qdisc hpcc 1: root .* nostamp .*marking off $"),
    ("7a71", "Show statistics of hpcc in JSON", "", "-s -j qdisc show DEV", 0,
     '"hpcc":{"bandwidth":[0-9]+,"tx_bytes":[0-9]+,"tx_packets":[0-9]+,"stamped":0,'),
)


def tc(command):
    """Return a tc command in the format of tdc.py."""
    return "$TC " + command.replace("DEV", "dev $DUMMY")


def case(number, name, setup, command, status, pattern, count=1, verify=None):
    """Return a test case in the format of tdc.py. The pattern is for the output of the command verify."""
    if not verify:
        verify = command if " show" in command else tc(("class" if "class" in command else "qdisc") + " show DEV")
    teardown = [] if "qdisc del" in command and status == 0 else [tc("qdisc del DEV root")]
    return {"id": number, "name": name, "category": ["qdisc", "hpcc"], "plugins": {"requires": "nsPlugin"},
            "setup": ["$IP link add dev $DUMMY type dummy || /bin/true", *setup], "cmdUnderTest": command,
            "expExitCode": str(status), "verifyCmd": verify, "matchPattern": pattern, "matchCount": str(count),
            "teardown": [*teardown, "$IP link del dev $DUMMY"]}


def root(verb, options):
    """Return the command for a root qdisc with these options."""
    return tc(f"qdisc {verb} DEV handle 1: root hpcc {options}".rstrip())


def cases():
    """Return all cases."""
    found = [case(number, f"Add hpcc with {options or 'defaults'}", [], root("add", options), 0,
                  "^qdisc hpcc 1: root .*" + shown) for number, options, shown in ACCEPTED]
    for number, options, message in REFUSED:
        command = root("change", options)
        found.append(case(number, f"Change hpcc to {options}, which is refused", [root("add", "node 7")], command,
                          1 + message.startswith("Error: "), message + ".*^qdisc hpcc 1: root .*node 7 ",
                          verify=f"sh -c '{command} 2>&1; {tc('qdisc show DEV')}'"))
    for number, name, before, command, *rest in OTHERS:
        setup = [root("add", ""), tc("qdisc add DEV parent 1:1 handle 2: fq_codel")] if before is CHILD else \
            [tc("qdisc add DEV root handle 9: prio")] if before is LEAF else [root("add", before)]
        found.append(case(number, name, setup, tc(command), *rest))
    return found
