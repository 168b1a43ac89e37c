#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The recipes of Documentation/containers.rst with Podman (crun), Docker (runc) and the CNI plugin "bandwidth".
containers.sh starts this program in a virtual machine. Containers see the guest's files below /usr, and have no other
network than a bridge.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from lib.kernel import allow, allowed, load, unload, users
from lib.ktap import cases, defer, each, expect, expect_in, main
from lib.modprobe import insmod, modprobe
from lib.net import Netns

PACKAGES = "/tmp/packages"
WORK = Path("/run/containers-test")
ROOTFS = WORK / "rootfs"
PATHS = [f"{PACKAGES}/usr/{name}" for name in ("bin", "sbin", "lib/podman", "lib/cni")] + \
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/lib/podman", "/usr/lib/cni", f"{WORK}/bin"]
PROGRAMS = "podman conmon crun netavark iptables ip6tables bandwidth docker dockerd".split()
NOBODY = 65534
# The option that makes /proc/sys writable
WRITABLE = {"podman": ("--security-opt", "unmask=/proc/sys"), "docker": ("--security-opt", "systempaths=unconfined")}
ADMIN = ("--cap-add", "NET_ADMIN")
DEFAULT = "net.ipv4.tcp_congestion_control"
HPCC, T = ("--sysctl", f"{DEFAULT}=hpcc"), ("--sysctl", "net.hpcc.base_rtt_ns=13000")
NO_MODULE = "tcp_congestion_control: no such file or directory"
NOT_ALLOWED = "tcp_congestion_control: operation not permitted"
# The recipe for hosts of which some lack the module
GUARD = """grep -qw hpcc /proc/sys/net/ipv4/tcp_allowed_congestion_control &&
    set -- --sysctl net.ipv4.tcp_congestion_control=hpcc "$@"
"""
ENTRYPOINT = f"sysctl -q -w {DEFAULT}=hpcc 2> /dev/null || true\n"
SHOW, SHOW_T = f"sysctl -n {DEFAULT}\n", "sysctl -n net.hpcc.base_rtt_ns\n"
# Select hpcc for a socket. Print the result or the error.
SELECT = """/usr/bin/python3 -c '
import socket
s = socket.socket()
try:
    s.setsockopt(6, 13, b"hpcc")
except OSError as error:
    print(error.strerror)
else:
    print(s.getsockopt(6, 13, 16).strip(bytes(1)).decode())'
"""
# A program of two containers: "listen" or the address of the other one, and "send" or "receive".
PEER = """
import socket, sys, time
peer, role = sys.argv[1:]
s = socket.create_server(("", 5000)).accept()[0] if peer == "listen" else socket.create_connection((peer, 5000))
while role == "send":
    s.sendall(bytes(100000))
    time.sleep(0.1)
while s.recv(1 << 16):
    pass
"""


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
    path.chmod(mode)


def prepare():
    """Mount what an installed system has, make the root file system of containers, and start Docker."""
    for kind, place in ("tmpfs", "/dev/shm"), ("devpts", "/dev/pts"), ("mqueue", "/dev/mqueue"), \
            ("cgroup2", "/sys/fs/cgroup"):
        os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "-t", kind, "none", place], check=True)
    # The tests replace modprobe, so load the modules that the kernel would load.
    subprocess.run(["modprobe", "-qa", "veth", "bridge", "nft_compat", "ifb", "sch_tbf", "sch_ingress", "cls_u32",
                    "act_mirred"], check=False)
    for name in "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var":
        (ROOTFS / name).mkdir(parents=True)
    for name in "bin", "sbin", "lib", "lib64":
        (ROOTFS / name).symlink_to(f"usr/{name}")
    (ROOTFS / "etc/mtab").symlink_to("/proc/mounts")
    for name in PROGRAMS:       # they call each other with an environment of their own
        write(WORK / "bin" / name, f"""#!/bin/sh
export PATH={':'.join(PATHS)} LD_LIBRARY_PATH={PACKAGES}/usr/lib/x86_64-linux-gnu:{PACKAGES}/lib/x86_64-linux-gnu
exec {'xtables-nft-multi ' if 'tables' in name else ''}{name} "$@"
""", 0o755)
    os.environ["PATH"] = f"{WORK}/bin:{os.environ['PATH']}"
    configure(WORK)
    start_docker(WORK / "docker")


def configure(home):
    """Write the configuration of Podman for the user whose files are in a directory, and use it."""
    os.environ["CONTAINERS_CONF"] = f"{home}/containers.conf"
    os.environ["CONTAINERS_STORAGE_CONF"] = f"{home}/storage.conf"
    write(home / "storage.conf", f'[storage]\ndriver = "vfs"\ngraphroot = "{home}/storage"\nrunroot = "{home}/run"\n')
    write(home / "containers.conf", f"""
[containers]
log_driver = "k8s-file"
[network]
network_backend = "netavark"
network_config_dir = "{home}/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
conmon_path = ["{WORK}/bin/conmon"]
helper_binaries_dir = ["{WORK}/bin"]
[engine.runtimes]
crun = ["{WORK}/bin/crun"]
""")


def start_docker(home):
    """Start Docker's daemon, which writes to /etc, and import an image."""
    os.environ["DOCKER_HOST"] = f"unix://{home}/socket"
    with open(f"{home}.log", "wb") as log:
        subprocess.Popen(["unshare", "-m", "sh", "-c", f"""
            mkdir {home} && cp /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache {home} &&
            mount --bind {home} /etc &&
            exec dockerd --data-root {home}/data --exec-root {home}/exec --pidfile {home}/pid -H $DOCKER_HOST \\
                --storage-driver vfs --bridge none --iptables=false --ip-forward=false"""], stdout=log, stderr=log)
    subprocess.run(f"""for i in $(seq 60); do docker version && break; sleep 1; done > /dev/null 2>&1
        tar -C {ROOTFS} -c . | docker import - hpcc > /dev/null""", shell=True, check=False)


def container(script, *options, program="podman", before="", network="none", **how):
    """Run a shell script in a container. Return the lines that it prints, or those of the error."""
    image = ["hpcc"] if program == "docker" else ["--rootfs", ROOTFS]
    command = ["sh", "-c", f'{before} exec {program} run "$@"', "sh", "--rm", "--network", network,
               "-v", "/usr:/usr:ro", *options, *image, "sh", "-c", script]
    return subprocess.run(command, text=True, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **how).stdout.splitlines()


def expect_error(what, lines, want):
    if want not in " ".join(lines).lower():
        raise AssertionError(f"{what}: got {lines}, wanted the error {want!r}")


def without_module(*install):
    """Unload tcp_hpcc. The kernel can load it with the commands in install, or cannot load it."""
    defer(allow, allowed())
    defer(lambda: users() is None and load(Netns()))
    expect("unload", unload(Netns(), 100), True)
    modprobe(*(install or ("exit 1",)))


INSTALLED = insmod("hpcc_common"), insmod("tcp_hpcc")


# ---- Modules and sysctls ----

@each("podman", "docker")
def missing(program):
    """Without the module --sysctl stops the start, and the recipes do not."""
    without_module()
    expect_error("--sysctl", container(SHOW, *HPCC, program=program), NO_MODULE)
    expect_error("net.hpcc", container(SHOW, *T, program=program), "net/hpcc/base_rtt_ns: no such file or directory")
    expect("default", container(SHOW, program=program), ["cubic"])
    expect("guard", container(SHOW, program=program, before=GUARD), ["cubic"])
    expect("entrypoint", container(ENTRYPOINT + SHOW, *WRITABLE[program], program=program), ["cubic"])


def test_load():
    """A container loads the module by setsockopt() only with CAP_NET_ADMIN."""
    without_module(*INSTALLED)
    expect("without CAP_NET_ADMIN", container(SELECT), ["No such file or directory"])
    expect("loaded", users() is not None, False)
    expect("with CAP_NET_ADMIN", container(SELECT, *ADMIN), ["hpcc"])


@each("podman", "docker")
def loaded(program):
    """With the module each recipe selects hpcc for one container."""
    expect("--sysctl", container(SHOW + SHOW_T, *HPCC, *T, program=program), ["hpcc", "13000"])
    expect("guard", container(SHOW, program=program, before=GUARD), ["hpcc"])
    expect("entrypoint", container(ENTRYPOINT + SHOW, *WRITABLE[program], program=program), ["hpcc"])
    expect("read-only entrypoint", container(ENTRYPOINT + SHOW, program=program), ["cubic"])
    expect("without options", container(SHOW + SHOW_T, program=program), ["cubic", "0"])
    lines = container(SHOW, *HPCC, network="host", program=program)
    expect_error("host's network", lines, "host")
    expect("container in the host's network", "cubic" in lines, False)


@each("podman", "docker")
def privileges(program):
    """What a container may do without and with CAP_NET_ADMIN."""
    def run(script, *options):
        return container(script, *options, program=program)
    plugin = os.environ["TC_LIB_DIR"]
    devices = ("ip link set lo up; tc qdisc add dev lo root hpcc rate 1gbit\n"
               "ip route add 192.0.2.0/24 dev lo congctl hpcc\n"
               "tc qdisc show dev lo | grep -o 'qdisc hpcc'; ip route show | grep -o 'congctl hpcc'\n",
               "-v", f"{plugin}:{plugin}:ro", "-e", f"TC_LIB_DIR={plugin}")
    write_t = "sysctl -q -w net.hpcc.base_rtt_ns=13000; " + SHOW_T
    denied = ['sysctl: permission denied on key "net.hpcc.base_rtt_ns"', "0"]
    defer(allow, allowed())
    expect("another user", run("grep -c ^agreed /proc/net/hpcc\n" + SELECT, "--user", "1000"), ["1", "hpcc"])
    allow("reno cubic")
    expect("not allowed", run(SELECT), ["Operation not permitted"])
    expect("not allowed, NET_ADMIN", run(SELECT, *ADMIN), ["hpcc"])
    expect("devices", run(*devices), ["RTNETLINK answers: Operation not permitted"] * 3)
    expect("devices, NET_ADMIN", run(*devices, *ADMIN), ["qdisc hpcc", "congctl hpcc"])
    expect("sysctl, NET_ADMIN", run(write_t, *ADMIN), denied)
    expect("writable sysctl", run(write_t, *WRITABLE[program]), ["13000"])
    expect("writable sysctl, another user", run(write_t, *WRITABLE[program], "--user", "1000"), denied)


# ---- Flows ----

def podman(*args):
    done = subprocess.run(["podman", *args], text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise AssertionError(f"podman {' '.join(args)}: {done.stdout.strip()}")
    return done.stdout.strip()


class Peer(Netns):
    """A container with PEER in the network "plain", and its network namespace."""

    def __init__(self, name, *args):
        podman("run", "-d", "--name", name, "--network", "plain", *HPCC, "-v", "/usr:/usr:ro",
               "--rootfs", str(ROOTFS), "/usr/bin/python3", "-c", PEER, *args)
        defer(podman, "rm", "-f", "-t", "0", name)
        show = "{{.State.Pid}} {{.NetworkSettings.Networks.plain.IPAddress}}"
        pid, self.addr = podman("inspect", "-f", show, name).split()
        self.path, self.homes, self.family = f"/proc/{pid}/ns/net", [], None
        self.fd = os.open(self.path, os.O_RDONLY)
        defer(self.delete)
        # the host's end of its veth
        self.veth = socket.if_indextoname(json.loads(self.run("ip", "-j", "link", "show", "eth0"))[0]["link_index"])


def server(role):
    podman("network", "create", "--internal", "--disable-dns", "plain")
    defer(podman, "network", "rm", "-f", "plain")
    return Peer("server", "listen", role)


def tc(*words):
    return subprocess.check_output(("tc", *words), text=True)


def add_port(dev, parent, bandwidth_bps):
    tc("qdisc", "add", "dev", dev, *parent, "hpcc", "bandwidth", str(bandwidth_bps), "node", "7", "port", "1")


def expect_hop(sender, dev, bandwidth_bps):
    """Fail unless the flow of a sender soon has one hop, the port of a device."""
    for _ in range(100):
        if any(flow["hops"] for flow in sender.flows()) and any(sender.paths().values()):
            break
        time.sleep(0.1)
    expect("link", list(sender.links().values()), [(7, 1, bandwidth_bps)])
    expect("hops", sender.flow()["hops"], 1)
    port = next(qdisc for qdisc in json.loads(tc("-s", "-j", "qdisc", "show", "dev", dev)) if qdisc["kind"] == "hpcc")
    expect_in("stamped", port["hpcc"]["stamped"], 1, port["packets"])


def test_bridge():
    """A port on the host's veth of a container stamps the packets from another container on the bridge."""
    receiver = server("receive")
    add_port(receiver.veth, ["root"], 10 ** 9)
    expect_hop(Peer("client", receiver.addr, "send"), receiver.veth, 10 ** 9)


def limit(pod, rate_bps):
    """Call the CNI plugin "bandwidth" as a runtime of Kubernetes does. Return the name of the ifb device."""
    limits = {f"{way}{what}": value for way in ("ingress", "egress") for what, value in (("Rate", rate_bps),
                                                                                          ("Burst", 400000))}
    config = {"cniVersion": "0.4.0", "name": "limited", "type": "bandwidth", **limits, "prevResult": {
        "cniVersion": "0.4.0", "interfaces": [{"name": pod.veth}, {"name": "eth0", "sandbox": pod.path}]}}
    environment = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "server", "CNI_NETNS": pod.path, "CNI_IFNAME": "eth0",
                   "CNI_PATH": f"{WORK}/bin", "PATH": os.environ["PATH"]}
    result = subprocess.run(["bandwidth"], input=json.dumps(config), text=True, check=True, env=environment,
                            stdout=subprocess.PIPE).stdout
    ifb = json.loads(result)["interfaces"][-1]["name"]
    defer(subprocess.call, ["ip", "link", "del", ifb])
    return ifb


# The pod receives through tbf on its veth, and sends through tbf on the ifb device.
@cases(bandwidth_to_pod=("receive", "send"), bandwidth_from_pod=("send", "receive"))
def bandwidth(role, other):
    pod, rate_bps = server(role), 20 * 10 ** 6
    dev = [pod.veth, limit(pod, rate_bps)][role == "send"]
    expect("root qdisc", tc("qdisc", "show", "dev", dev).startswith("qdisc tbf 1: root"), True)
    add_port(dev, ["parent", "1:1"], rate_bps)
    peer = Peer("client", pod.addr, other)
    expect_hop(pod if role == "send" else peer, dev, rate_bps)


# ---- Without root ----

def test_rootless():
    """A rootless container can select hpcc if it is loaded and allowed, and cannot load it."""
    home = WORK / "user"
    defer(configure, WORK)
    configure(home)
    subprocess.run(["chown", "-Rh", f"{NOBODY}:{NOBODY}", home, ROOTFS], check=True)
    environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "TMPDIR": str(home)}

    def run(script, *options):
        return container(script, "--cgroups", "disabled", *options, user=NOBODY, group=NOBODY, extra_groups=[],
                         env=environment)
    expect("--sysctl", run(SHOW + SHOW_T, *HPCC, *T)[-2:], ["hpcc", "13000"])
    without_module(*INSTALLED)
    expect_error("not loaded", run(SHOW, *HPCC), NO_MODULE)
    expect("NET_ADMIN", run(SELECT, *ADMIN)[-1:], ["No such file or directory"])
    expect("loaded", users() is not None, False)


# ---- The last test: the kernel leaks a reference to the module when it refuses ----

def test_not_loaded():
    """With --sysctl the runtime loads the module. But then hpcc is not yet allowed, and the kernel refuses."""
    without_module(*INSTALLED)
    expect_error("podman", container(SHOW, *HPCC), NOT_ALLOWED)
    expect("loaded, allowed", (users() is not None, "hpcc" in allowed()), (True, False))
    expect_error("docker", container(SHOW, *HPCC, program="docker"), NOT_ALLOWED)


if __name__ == "__main__":
    prepare()
    main(sys.modules[__name__], modules=["sch_hpcc"])
