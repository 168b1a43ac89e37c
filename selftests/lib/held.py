# SPDX-License-Identifier: GPL-2.0
"""A read() that blocks in the middle until the test releases it."""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import threading

from .ktap import Skip, defer

# See userfaultfd(2).
NR_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
UFFD_API = 0xaa
UFFDIO_API = 0xc018aa3f
UFFDIO_REGISTER = 0xc020aa00
UFFDIO_REGISTER_MODE_MISSING = 1
UFFDIO_ZEROPAGE = 0xc020aa04
UFFD_MSG_BYTES = 32
PATIENCE_S = 60


def _userfaultfd():
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(NR_USERFAULTFD.get(platform.machine(), -1), os.O_CLOEXEC)
    if fd < 0 and ctypes.get_errno() == errno.ENOSYS:
        raise Skip("needs a kernel with CONFIG_USERFAULTFD")
    if fd < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    fcntl.ioctl(fd, UFFDIO_API, struct.pack("QQQ", UFFD_API, 0, 0))
    defer(os.close, fd)
    return fd


class HeldRead(threading.Thread):
    """Reads from a socket, and owns the socket until release(), because the page of the buffer is missing."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock, self.fd, self.got = sock, _userfaultfd(), 0
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        fcntl.ioctl(self.fd, UFFDIO_REGISTER, struct.pack(
            "QQQQ", self.at, mmap.PAGESIZE, UFFDIO_REGISTER_MODE_MISSING, 0))
        self.start()
        os.read(self.fd, UFFD_MSG_BYTES)    # reports the fault at the missing page

    def run(self):
        self.got = self.sock.recv_into(self.memory)

    def release(self):
        """End the read. Return the number of bytes read."""
        fcntl.ioctl(self.fd, UFFDIO_ZEROPAGE, struct.pack("QQQq", self.at, mmap.PAGESIZE, 0, 0))
        self.join(PATIENCE_S)
        return self.got
