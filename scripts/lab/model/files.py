# SPDX-License-Identifier: GPL-2.0
"""Files that somebody else wrote: a guest's programs, or whoever wrote a scenario.

No link is followed, only regular files and directories are read, and sizes are bounded.
"""

import os
import re
import stat
from pathlib import Path

# Of a file that is read as a whole.
SIZE_MAX = 1 << 30
PART = 1 << 20
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class NotRegular(OSError):
    """Neither a regular file nor a directory."""


def printable(text):
    """Without the characters that a terminal acts on; lines and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def open_regular(path, follow=False):
    """A file to read. @follow: the path is the user's own, and may be a link."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC |
                 (0 if follow else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegular(None, "is not a regular file", str(path))
    return open(fd, "rb")


def limited(file, most=SIZE_MAX):
    """What is in an open file, at most so many bytes."""
    data = bytearray()
    while part := file.read(PART):
        data += part
        if len(data) > most:
            raise OSError(None, f"is larger than {most >> 20} MiB")
    return bytes(data)


def read_text(path, follow=False):
    """The text of a file."""
    with open_regular(path, follow) as file:
        return limited(file).decode("utf-8", "replace")


def _data(file):
    """(offset, bytes) of what a file holds, without its holes."""
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
    """A link in the target's place goes; what it points to stays. Holes stay holes."""
    with open_regular(source) as file:
        target.unlink(missing_ok=True)
        with open(target, "xb") as out:
            for at, part in _data(file):
                out.seek(at)
                out.write(part)
            out.truncate(os.fstat(file.fileno()).st_size)


def copy_tree(source, target, without=()):
    """The regular files of a directory and of those below it. Other kinds of files are left out, and what it has by
    one of the names @without.
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
