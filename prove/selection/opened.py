"""Runs a command and records which files of a checkout each suite opens, children of children included.

usage: opened.py ROOT OUT COMMAND...   (as root, on Linux)

The command sees the checkout as a mount of its own, in a namespace of its own, so nobody else's files are watched or
delayed. Whoever opens a file there waits until it has been looked up whose process it is: a short-lived program would
be gone otherwise. A process belongs to the suite that SLUICE_TEST_SUITE names in its environment or, where that is
empty or written over, in its nearest ancestor's. OUT is JSON: {"suites": {NAME: [PATH...]}, "opens": N}; the name
is empty for what belongs to no suite, which is mostly the runner itself.
"""

import ctypes
import json
import os
import select
import signal
import struct
import sys

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
FAN_CLOEXEC, FAN_CLASS_CONTENT, FAN_UNLIMITED_QUEUE = 0x1, 0x4, 0x10
FAN_MARK_ADD, FAN_MARK_MOUNT = 0x1, 0x10
FAN_OPEN_PERM, FAN_ALLOW = 0x10000, 0x1
AT_FDCWD = -100
# struct fanotify_event_metadata: length, version, reserved, header's length, mask, fd, pid.
EVENT = struct.Struct("=IBBHQii")
ANSWER = struct.Struct("=iI")
VARIABLE = b"SLUICE_TEST_SUITE="
# What is installed or made by tools is no source.
APART = ("node_modules/", ".git/")

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    result = getattr(libc, name)(*args)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}; recording needs Linux and root")
    return result


def apart(root):
    """From here on this process and its children have the checkout as a mount of their own."""
    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    call("mount", root.encode(), root.encode(), None, ctypes.c_ulong(MS_BIND), None)
    os.chdir(root)


def watch(root):
    flags = FAN_CLOEXEC | FAN_CLASS_CONTENT | FAN_UNLIMITED_QUEUE
    watched = call("fanotify_init", ctypes.c_uint(flags), ctypes.c_uint(os.O_RDONLY | os.O_CLOEXEC))
    add = ctypes.c_uint(FAN_MARK_ADD | FAN_MARK_MOUNT)
    call("fanotify_mark", watched, add, ctypes.c_uint64(FAN_OPEN_PERM), AT_FDCWD, root.encode())
    return watched


def parent_and_start(pid):
    """A process's id may be another's later; with its start it is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        return int(fields[1]), int(fields[19])
    except (OSError, IndexError):
        return 0, 0


def named(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read().split(b"\0")
    except OSError:
        return None
    for variable in environment:
        if variable.startswith(VARIABLE):
            return variable[len(VARIABLE) :].decode() or None
    return None


class Suites:
    def __init__(self):
        self.known = {}

    def of(self, pid):
        """Only what is found is remembered: a process that has just been made still has its parent's environment."""
        passed = []
        suite = None
        while pid > 1 and suite is None:
            parent, start = parent_and_start(pid)
            suite = self.known.get((pid, start)) or named(pid)
            passed.append((pid, start))
            pid = parent
        if suite is not None:
            self.known.update(dict.fromkeys(passed, suite))
        return suite or ""


class Record:
    def __init__(self, root):
        self.inside = root.rstrip("/") + "/"
        self.suites = Suites()
        self.opened = {}
        self.opens = 0

    def take(self, pid, path):
        if not path.startswith(self.inside):
            return
        name = path[len(self.inside) :]
        if name.startswith(APART) or "/node_modules/" in name:
            return
        self.opens += 1
        self.opened.setdefault(self.suites.of(pid), set()).add(name)

    def told(self):
        return {"suites": {suite: sorted(names) for suite, names in self.opened.items()}, "opens": self.opens}


def answer(watched, record):
    """Whatever goes wrong with one event, its opener is let go on."""
    events = os.read(watched, 1 << 16)
    at = 0
    while at < len(events):
        length, _, _, _, _, opened, pid = EVENT.unpack_from(events, at)
        at += length
        if opened < 0:
            continue
        try:
            record.take(pid, os.readlink(f"/proc/self/fd/{opened}"))
        finally:
            os.write(watched, ANSWER.pack(opened, FAN_ALLOW))
            os.close(opened)


def start(command):
    """The command waits for a byte, so that it opens nothing before it is watched."""
    wait, begin = os.pipe()
    pid = os.fork()
    if pid > 0:
        os.close(wait)
        return pid, begin
    try:
        os.read(wait, 1)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def follow(watched, ended, record):
    while True:
        ready, _, _ = select.select([watched, ended], [], [])
        if watched in ready:
            answer(watched, record)
        elif ended in ready:
            return


def main(root, out, command):
    root = os.path.realpath(root)
    apart(root)
    pid, begin = start(command)
    watched = watch(root)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: os.kill(pid, number))
    os.write(begin, b".")
    record = Record(root)
    follow(watched, os.pidfd_open(pid), record)
    # From here on nobody waits for an answer.
    os.close(watched)
    _, status = os.waitpid(pid, 0)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(record.told(), file, indent=1)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
