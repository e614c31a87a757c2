"""What a cluster asks of the machine that it runs on: processes, ports, and hosts made of namespaces."""

import contextlib
import os
import pathlib
import random
import socket

# Turns the namespaces that it runs in into a host: NAME HOSTS-FILE COMMAND...
BECOME_HOST = """
hostname "$1" && mount --bind "$2" /etc/hosts && mount -t tmpfs tmpfs /dev/shm && shift 2 && exec "$@"
"""


def processes_of(slurm_conf):
    """{pid: command} of the processes that were started with this slurm.conf, by themselves or by a parent."""
    mark = os.fsencode(f"SLURM_CONF={slurm_conf}")
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is not one of ours
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


def children_of(parent):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # State and parent follow the name, which is in parentheses and may have blanks.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def free_ports(count):
    """Ports of 127.0.0.1 that are free, below those that the kernel gives to clients."""
    ports = []
    with contextlib.ExitStack() as open_sockets:
        while len(ports) < count:
            candidate = open_sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", random.randrange(20000, 32000)))
                ports.append(candidate.getsockname()[1])
    return ports
