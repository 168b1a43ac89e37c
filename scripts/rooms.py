#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Check one rule of the structure of the sources, and print the violations.

rooms.py includes|writes|names|circles [TREE]

A room is a folder in the table ROOMS. An owner is a room, or a source file with the header of the same name.

includes: a file includes only headers, and imports only modules, of its own room and of lower rooms. No
two headers have the same name. No header of kmod/hpcc declares a function that a higher room defines.
writes: only the owner of a field of struct hpcc_flow writes the field.
names: only the rooms of carriers and the files in MAY_NAME name a carrier.
circles: no two files of a folder use each other, directly or through other files. A file uses another file
if it includes the header of that file or calls a function of that file. A source file and the header of
the same name count as one file.
"""

import re
import sys
from pathlib import Path

# Rooms of a folder, lowest first. Files that are in no room may use all rooms.
ROOMS = {
    "include/hpcc": ("wire", "law", "carrier"),
    "kmod/hpcc": ("netns", "flow", "packet", "telemetry", "carrier", "control", "hook", "observe"),
    "qdisc": ("core", "parse", "stamp"),
    "scripts/lab": ("model", "setup", "run", "show", "study"),
}

# Owners of the fields of struct hpcc_flow.
OWNERS = {
    "carrier/": "carrier_private",
    "carrier/carrier.c": "carrier carrier_state",
    "control/ack.c": "una full_us",
    "control/census.c": "census",
    "control/classic.c": "mode classic_seq why",
    "control/integrity.c": "untrusted_why",
    "control/integrity_ops.c": "integrity unverified",
    "control/law.c": "algo params min_rtt_us unpaced sample_ns settle prior",
    "control/loss.c": "fallback loss tlp",
    "control/mute.c": "mute mute_past",
    "control/probe.c": "probes probing probe",
    "control/receiver.c": "rx",
    "control/receiver_ops.c": "rx_window_agreed",
    "control/remote.c": "rx_window_new rx_window_active remote",
    "control/reserve.c": "ext_hdr_len reserve",
    "control/silence.c": "silent_acks new_links silence",
    "control/switch_response.c": "response",
    "control/window.c": "mss_recip mss burst stamped searching dirty conserving conserve_delivered conserve_lost conserve_sent began_us",
    "flow/flow.c": "kind slots node sk caps snd_end ignored dead lock id rcu",
    "hook/local_out.c": "next_hop sent spare",
    "hook/option_in.c": "received device",
    "observe/netlink.c": "event",
    "telemetry/identify.c": "identify_active path",
    "telemetry/mailbox.c": "skipped hops scale prompt answer scales mail audit_seen echo",
    "telemetry/request.h": "requests last_request_ns",
}

# The names of carriers. For each folder: its room of carriers, and the other files that may contain these names.
CARRIER = re.compile(r"ioam|csig|(?<![a-z])ifa(?![a-z])|(?-i:INT-MD|INT_MD|\bhpcc_int_|(?<![A-Za-z])INT(?![A-Za-z]))", re.I)
MAY_NAME = {
    "kmod/hpcc": ("carrier/", "Kbuild", "netns/hpcc_counters.h", "netns/load.c", "netns/net.h", "netns/sysctl.c"),
    "qdisc": ("stamp/", "Kbuild", "main.c", "tc/q_hpcc.c"),
}

FIELD = r"flow->(\w+)(?:\.\w+|\[[^\]]*\])*"
SETTERS = "|".join(("WRITE_ONCE", "cmpxchg", "xchg", "rcu_assign_pointer", "smp_store_release", "hpcc_flow_count"))
WRITES = (rf"\b{FIELD} *(?:[-+|&^]|<<|>>)?=(?!=)", rf"\b{FIELD} *(?:\+\+|--)", rf"(?:\+\+|--){FIELD}",
          rf"\b(?:{SETTERS})\(&?{FIELD}")

# Folders in which files must not use each other in a circle.
CIRCLES = ("kmod/hpcc", "kmod/ldcp", "qdisc")
# The definition of a function.
FUNCTION = re.compile(r"^\w[\w *]*?\b(\w+)\([^;{}]*\)(?:\s__\w+(?:\([^()]*\))?)*\n\{", re.M)


def lines_of(found):
    """Return findings as lines."""
    return [f"{name}: {why}" for (name, _), why in sorted(found.items())]


def code_of(path):
    """Return a source file without its comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)


def used(path, folder, text):
    """Yield the files of the folder that a file uses, as paths relative to the folder."""
    if path.suffix == ".py":
        for dots, package, names in re.findall(r"^\s*from (\.+)([\w.]*) import ([\w., ]+|\([^)]*\))", text, re.M):
            room = package.split(".")[0] if len(dots) > 1 else path.parent.name
            yield from (f"{room}/{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names)) if len(dots) == 1 or \
                "." not in package else (f"{room}/{package.split('.')[1]}",)
    elif folder == "include/hpcc":
        yield from re.findall(r"^#include <hpcc/(\w+/[\w.]+)>", text, re.M)
    else:
        yield from re.findall(r'^#include "([^"]+)"', text, re.M)


def includes(top):
    """Return files that include or import from a higher room, and headers whose names are not unique."""
    found, headers = {}, {}
    for folder, rooms in ROOMS.items():
        for path in sorted((top / folder).rglob("*.[chp]*")):
            name = path.relative_to(top).as_posix()
            room = path.relative_to(top / folder).parts[0]
            if room not in rooms or path.suffix not in (".c", ".h", ".py"):
                continue
            for what in used(path, folder, path.read_text(encoding="utf-8")):
                other = what.split("/")[0]
                if other in rooms and rooms.index(other) > rooms.index(room):
                    found[name, what] = f"{what} is in a higher room than {room}"
                elif folder != "include/hpcc" and path.suffix != ".py" and "/" not in what:
                    found[name, what] = f"{what}: the path of this header must contain its room"
    for folder in "include/hpcc", "kmod", "qdisc":
        for path in sorted((top / folder).rglob("*.h")):
            name = path.relative_to(top).as_posix()
            if headers.setdefault(path.name, name) != name:
                found[name, path.name] = f"{headers[path.name]} has the same name"
    return lines_of(found | declared(top))


def declared(top):
    """Return headers of kmod/hpcc that declare functions which a higher room defines."""
    folder, rooms = top / "kmod/hpcc", ROOMS["kmod/hpcc"]
    room_of, found = {}, {}
    for path in sorted(folder.glob("*/*.c")):
        for name in re.findall(r"^(?!static)\w[\w *]*?\b(hpcc_\w+)(?:\([^;{]*\)\n|(?: __\w+)* = )\{", path.read_text(encoding="utf-8"), re.M):
            room_of[name] = path.parent.name
    for path in sorted(folder.glob("*/*.h")):
        for name in re.findall(r"(?<!struct )\b(hpcc_\w+)(?:\([^;{}]*\))?;", code_of(path)):
            room = room_of.get(name)
            if room in rooms and rooms.index(room) > rooms.index(path.parent.name):
                found[path.relative_to(top).as_posix(), name] = f"{room} defines {name}"
    return found


def writers(top):
    """Yield path, line and name of the field for each write of a field of struct hpcc_flow."""
    for path in sorted((top / "kmod/hpcc").rglob("*.[ch]")):
        text = path.read_text(encoding="utf-8")
        for pattern in WRITES:
            for match in re.finditer(pattern, text):
                yield path, text.count("\n", 0, match.start()) + 1, match.group(1)


def writes(top):
    """Return files that write a field owned by another file."""
    folder = top / "kmod/hpcc"
    owner = {field: name for name, fields in OWNERS.items() for field in fields.split()}
    body = re.search(r"^struct hpcc_flow \{\n(.*?)^\};", (folder / "flow/flow.h").read_text(encoding="utf-8"), re.M | re.S).group(1)
    fields = re.findall(r"\b(\w+)(?:\[\w+\])?(?: : \d+)?;", body)
    found = {("scripts/rooms.py", field): f"{field}: " + ("has no owner" if field in fields else "is not a field of struct hpcc_flow")
             for field in set(fields) ^ set(owner)}
    for path, line, field in writers(top):
        name = path.relative_to(folder).as_posix()
        if field in owner and owner[field].rsplit(".")[0] not in (name.rsplit(".")[0], f"{path.parent.name}/"):
            found.setdefault((f"kmod/hpcc/{name}", field), f"line {line} writes {field}, which {owner[field]} owns")
    return lines_of(found)


def names(top):
    """Return lines of the core that name a carrier, and files of MAY_NAME that name none."""
    found = []
    for folder, (room, *may) in MAY_NAME.items():
        for path in sorted((top / folder).rglob("*")):
            name = path.relative_to(top / folder).as_posix()
            if name.startswith(room) or (path.suffix not in (".c", ".h") and path.name != "Kbuild"):
                continue
            lines = path.read_text(encoding="utf-8").splitlines()
            here = [f"{folder}/{name}:{i}: names a carrier: {line.strip()}"
                    for i, line in enumerate(lines, 1) if CARRIER.search(line)]
            if name not in may:
                found += here
            elif not here:
                found.append(f"scripts/rooms.py: {folder}/{name} names no carrier: remove it from MAY_NAME")
    return found


def uses(folder):
    """Return {file: {file that it uses: names of the functions, and "#include"}} for the files of folder."""
    code, home, graph = {}, {}, {}
    for path in sorted(folder.rglob("*.[ch]")):
        name, text = path.relative_to(folder).with_suffix("").as_posix(), code_of(path)
        code[name] = code.get(name, "") + text
        home |= {match[1]: name for match in FUNCTION.finditer(text) if path.suffix == ".h" or not match[0].startswith("static ")}
    for name, text in code.items():
        graph[name] = {other: {"#include"} for other in re.findall(r'^#include "([\w/]+)\.h"', text, re.M) if other in code}
        # Declarations are not calls. Calls through a pointer are not calls of a function of the same name.
        text = re.sub(r"^\w[\w *]*?\w+\([^;{}]*\);", "", text, flags=re.M)
        for call in re.findall(r"(?<!->)(?<!\.)\b(\w+)\(", text):
            if call in home and f"(*{call})" not in text:
                graph[name].setdefault(home[call], set()).add(call)
        graph[name].pop(name, None)
    return graph


def rings(top):
    """Return the circles: {(folder, file, ...): ["file -> file: functions", ...]}."""
    found = {}
    for folder in CIRCLES:
        graph, reached = uses(top / folder), {}
        for name in graph:
            reached[name], todo = set(), [name]
            while todo:
                new = graph[todo.pop()].keys() - reached[name]
                reached[name] |= new
                todo += new
        for name in graph:
            ring = sorted(other for other in reached[name] if name in reached[other])
            found[(folder, *ring)] = [f"{one} -> {other}: {' '.join(sorted(graph[one][other]))}"
                                      for one in ring for other in ring if other in graph[one]]
    return {ring: edges for ring, edges in found.items() if edges}


def circles(top):
    """Return a line for each circle, followed by a line for each use between two of its files."""
    return [line for (folder, *ring), edges in sorted(rings(top).items())
            for line in (f"{folder}: a circle of {len(ring)} files: {' '.join(ring)}", *(f"  {edge}" for edge in edges))]


CHECKS = {check.__name__: check for check in (includes, writes, names, circles)}


def main():
    """Run one check."""
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in CHECKS:
        sys.exit(__doc__)
    top = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).resolve().parents[1]
    for line in CHECKS[sys.argv[1]](top):
        print(line)


if __name__ == "__main__":
    main()
