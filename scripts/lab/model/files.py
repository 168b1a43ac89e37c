# SPDX-License-Identifier: GPL-2.0
"""Files that are not trusted: programs in a guest, or the author of a scenario, wrote them.

No symbolic link is followed, only regular files and directories are read, and sizes are bounded.
"""

import os
import re
import stat
from pathlib import Path

# Largest file that is read as a whole, in bytes.
SIZE_MAX = 1 << 30
PART = 1 << 20
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class NotRegular(OSError):
    """Neither a regular file nor a directory."""


def printable(text):
    """Escape the control characters that a terminal interprets; line feeds and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def open_regular(path, follow=False):
    """Open a file for reading. @follow: the user gave the path, and it may be a symbolic link."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC |
                 (0 if follow else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegular(None, "is not a regular file", str(path))
    return open(fd, "rb")


def _limited(file):
    """The contents of an open file; OSError if they have more than SIZE_MAX bytes."""
    data = bytearray()
    while part := file.read(PART):
        data += part
        if len(data) > SIZE_MAX:
            raise OSError(None, f"is larger than {SIZE_MAX >> 20} MiB")
    return bytes(data)


def lines(file, most=SIZE_MAX, longest=SIZE_MAX):
    """Yield the lines of an open file; OSError if it has more than @most bytes, or a line more than @longest."""
    left = most
    while line := file.readline(longest + 1):
        left -= len(line)
        if left < 0 or len(line) > longest:
            raise OSError(None, f"is larger than {most >> 20} MiB" if left < 0 else
                          f"has a line of more than {longest} bytes")
        yield line.decode("utf-8", "replace")


def read_text(path, follow=False):
    """The text of a file."""
    with open_regular(path, follow) as file:
        return _limited(file).decode("utf-8", "replace")


def _data(file):
    """Yield the data of a sparse file as (offset, bytes), without the holes."""
    end = 0
    while True:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        for at in range(start, end, PART):
            yield at, os.pread(file.fileno(), min(PART, end - at), at)


def _copy(source, target):
    """Copy a file, holes included. If the target is a symbolic link, the link itself is replaced."""
    with open_regular(source) as file:
        target.unlink(missing_ok=True)
        with open(target, "xb") as out:
            for at, part in _data(file):
                out.seek(at)
                out.write(part)
            out.truncate(os.fstat(file.fileno()).st_size)


def copy_tree(source, target, without=()):
    """Copy the regular files of a directory and of the directories below it. Skip all other kinds of files, and
    entries of the directory itself whose names are in @without.
    """
    if not stat.S_ISDIR(os.lstat(source).st_mode):
        raise NotADirectoryError(None, "is not a directory", str(source))
    if target.is_symlink():
        target.unlink()
    target.mkdir(exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in without:
                continue
            if entry.is_dir(follow_symlinks=False):
                copy_tree(Path(entry), target / entry.name)
            elif entry.is_file(follow_symlinks=False):
                _copy(entry.path, target / entry.name)
