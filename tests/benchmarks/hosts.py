"""Emulated hosts on this machine: network namespaces, joined by a bridge over links of a given rate.

    with Hosts(count=4, mbit_per_s=1000) as hosts:
        print(hosts.mpirun(PROGRAM, "argument"))

Each host has a name, an address and a /dev/shm of its own, so ranks of different hosts meet over TCP, and the ranks of one
host, which are neighbours, in its shared memory: `Hosts(count=2, mbit_per_s=100, ranks_per_host=2)` has four. Its link is
shaped in both directions by tc's token bucket, which lets `burst_ms` of its rate pass at once after a pause; where small
messages are to take their time, set it to less than they take. Files are shared, and so are CPUs, unless each host is given a
share: `cores=0.45` is at most so much of a core's time, however many hosts there are. Nothing outlives the `with`: the names
are this process's, and the namespaces go with them. Needs root, for the namespaces, and Debian's iproute2.
"""

import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import bench

sys.path.insert(0, str(bench.ROOT / "tests" / "slurm"))
from machine import BECOME_HOST  # noqa: E402

BURST_MS = 8  # what a token bucket lets pass at once, after a pause: cores that are busy let it wait that long
QUEUE_MS = 50
PERIOD_US = 10_000  # within which a host gets its share of a core
CGROUPS = (  # of version 1 and of version 2: where groups are made, and how a share is written
    (pathlib.Path("/sys/fs/cgroup/cpu"), {"cpu.cfs_period_us": "{period}", "cpu.cfs_quota_us": "{quota}"}),
    (pathlib.Path("/sys/fs/cgroup"), {"cpu.max": "{quota} {period}"}),
)

# What mpirun calls in place of ssh: HOST COMMAND-LINE.
AGENT = """#!/bin/sh
host=$1
shift
{join}
exec {enter} sh -c "$*"
"""


class Hosts:
    def __init__(self, count, mbit_per_s, cores=None, ranks_per_host=1, burst_ms=BURST_MS):
        self.names = [f"ddpm{os.getpid()}-{i + 1}" for i in range(count)]
        self.rate = mbit_per_s
        self.bridge = f"ddpm{os.getpid()}"
        self.folder = None
        self.cores = cores
        self.ranks_per_host = ranks_per_host
        self.burst_ms = burst_ms
        self.groups = {}

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hosts-"))
        addresses = [f"10.213.77.{i + 1}" for i in range(len(self.names))]
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(addresses, self.names, strict=True))]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        try:
            if self.cores is not None:
                for name in self.names:
                    self.groups[name] = make_group(name, self.cores)
                    # A host has a /sys of its own, without the groups.
                    self._door(name).touch()
                    mount("--bind", self.groups[name] / "cgroup.procs", self._door(name))
            self._write_script("agent", AGENT.format(join=self._join("$host"), enter=" ".join(self._enter('"$host"'))))
            ip("link", "add", self.bridge, "type", "bridge")
            ip("link", "set", self.bridge, "up")
            for i, (name, address) in enumerate(zip(self.names, addresses, strict=True)):
                self._add(name, f"{self.bridge}-{i}", address)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        # A namespace disappears some time after its name, so its link is deleted by hand to free the name at once.
        ports = [f"{self.bridge}-{i}" for i in range(len(self.names))]
        for words in [
            *(("link", "delete", port) for port in (*ports, self.bridge)),
            *(("netns", "delete", name) for name in self.names),
        ]:
            with contextlib.suppress(subprocess.CalledProcessError):  # it was not made
                ip(*words)
        for name, group in self.groups.items():
            with contextlib.suppress(subprocess.CalledProcessError):  # it was not mounted
                subprocess.run(["umount", self._door(name)], check=True, stderr=subprocess.PIPE)
            remove_group(group)
        shutil.rmtree(self.folder, ignore_errors=True)

    def mpirun(self, *command, options=(), **environment):
        """`ranks_per_host` ranks on each host. Returns what is printed."""
        return bench.run(self.mpirun_command(*command, options=options), **environment)

    def mpirun_command(self, *command, options=()):
        return [*self._enter(self.names[0]), *self._launch(options), *command]

    def alone(self, *command, **environment):
        """The command on every host at the same time, as one rank each that knows nothing of the others. Returns what each
        prints."""
        processes = []
        for name in self.names:
            words = shlex.join(map(str, [*self._enter(name), *command]))
            script = self._write_script(f"alone-{name}", f"#!/bin/sh\n{self._join(name)}\nexec {words}\n")
            processes.append(
                subprocess.Popen(
                    [script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env=bench.environment(**environment),
                )
            )  # fmt: skip
        told = [process.communicate() for process in processes]
        for process, (_, errors) in zip(processes, told, strict=True):
            if process.returncode != 0:
                sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{errors}")
        return [output for output, _ in told]

    def launcher(self):
        """A program that starts the command given to it, `ranks_per_host` ranks on each host."""
        words = " ".join(map(str, self._launch(())))
        enter = " ".join(self._enter('"$host"'))
        text = f'#!/bin/sh\nhost={self.names[0]}\n{self._join("$host")}\nexec {enter} {words} "$@"\n'
        return self._write_script("launcher", text)

    def _launch(self, options):
        return [
            bench.ddpm_run.MPIRUN[0], "--bind-to", "none",
            "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.folder / "agent",
            "--mca", "btl", "self,vader,tcp", "--map-by", "slot", "--mca", "btl_tcp_if_include", "10.213.77.0/24",
            "--mca", "oob_tcp_if_include", "10.213.77.0/24",
            # Sends, no emulated puts: with those, a connection of Open MPI 4.1 carries data one way at a time.
            "--mca", "btl_tcp_flags", "1",
            "-H", ",".join(f"{name}:{self.ranks_per_host}" for name in self.names), *options,
        ]  # fmt: skip

    def _write_script(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def _join(self, name):
        """A line of shell: what follows belongs to the host's share of the CPUs."""
        return f"echo $$ > {self._door(name)}" if self.groups else ""

    def _door(self, name):
        """Who writes a process's number there makes it one of the host's share."""
        return self.folder / f"{name}.procs"

    def _add(self, name, port, address):
        """A host with one link to the bridge; `port` is the bridge's end of it."""
        ip("netns", "add", name)
        ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", port, "master", self.bridge, "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        self._shape(["tc"], port)
        self._shape(["ip", "netns", "exec", name, "tc"], "eth0")

    def _shape(self, tc, device):
        bucket = ["rate", f"{self.rate}mbit", "burst", str(int(self.rate * 1000 * self.burst_ms / 8)), "latency", f"{QUEUE_MS}ms"]
        subprocess.run([*tc, "qdisc", "add", "dev", device, "root", "tbf", *bucket], check=True)

    def _enter(self, name):
        become = ["sh", "-c", f"'{BECOME_HOST}'" if name.startswith('"') else BECOME_HOST, "sh"]
        return ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", *become, name, str(self.folder / "hosts")]


def make_group(name, cores):
    """A group of processes that get at most `cores` of the CPUs; its folder."""
    for parent, files in CGROUPS:
        if (parent / "cgroup.procs").exists():
            group = parent / name
            group.mkdir()
            for file, value in files.items():
                (group / file).write_text(value.format(period=PERIOD_US, quota=round(cores * PERIOD_US)))
            return group
    raise SystemExit("hosts.py: shares of the CPUs need the cpu controller of cgroups, below /sys/fs/cgroup")


def remove_group(group):
    """Its last processes may take a moment to end."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    print(f"hosts.py: {group} still has processes and stays", file=sys.stderr)


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True, stderr=subprocess.PIPE)
