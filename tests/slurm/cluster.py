"""A Slurm cluster for one test, on this machine: munged, slurmctld, and one slurmd per node.

    with Cluster(nodes=2) as cluster:
        process = cluster.srun("--nodes=2", "--mpi=pmix", DDPM, "train", config)
        job = cluster.sbatch("--nodes=2", "job.sh")
        cluster.kill_node("node2")
        cluster.wait_for_job(job, "PENDING")

Each daemon and each client lives in namespaces of its own, so each node has the host name, the process numbers and the
/dev/shm of a separate machine: ranks of two nodes meet over TCP, not in shared memory. All processes of a node end with
its slurmd, and that ends with this program. So nothing is left behind, not even by a test that is killed, and
kill_node() is as sudden as a power cut. Files, CPUs and the loopback network are shared.

All files are in a temporary folder; nothing in /etc, /run or /var is read or written. Ports are free ones of 127.0.0.1.
Needs root, for the namespaces, and Debian's slurm-wlm, munge and libpmix-dev (Slurm's PMIx plugin opens libpmix.so).
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launcher import without_launchers  # noqa: E402
from machine import BECOME_HOST, children_of, free_ports, processes_of  # noqa: E402

PATIENCE_S = 60  # for what takes a fraction of a second on an idle machine
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

CONFIGURATION = """
ClusterName=test
SlurmctldHost=controller(127.0.0.1)
SlurmUser=root
SlurmdUser=root
# Listen at the address of the host's name only, which is 127.0.0.1.
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
# A requeued job may start again when the credential of its first start has expired.
AuthInfo=socket={folder}/munge.socket,cred_expire=5

# A node has the CPUs that it is said to have; its processes are found without cgroups.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none

ReturnToService=2
JobRequeue=1
MailProg=/bin/true
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1

# %n is the node. PMIx makes folders of the same name on all nodes of a job, in TmpFS.
TmpFS={folder}/tmp/%n
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/log/controller.log
SlurmdLogFile={folder}/log/%n.log
"""


class ClusterError(AssertionError):
    """The cluster did not do what it was told. The message has what its daemons logged last."""


class Cluster:
    """`settings` replaces or adds lines of slurm.conf: {"KillWait": 5}."""

    def __init__(self, nodes=2, cpus=4, settings=None):
        self.nodes = [f"node{i + 1}" for i in range(nodes)]
        self.folder = None
        self._cpus = cpus
        self._settings = settings or {}
        self._daemons = {}
        self._clients = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    # --- The daemons -------------------------------------------------------------------------------------------------

    def start(self):
        """Returns when all nodes are ready for jobs."""
        # Not in TMPDIR: the path of a socket has at most 107 characters, and PMIx takes most of them.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        try:
            self._write_files()
            self._start_daemon("munged", self._munged())
            self.wait_for(lambda: (self.folder / "munge.socket").exists(), "munged to listen")
            self._start_daemon("controller", ["slurmctld", "-D"])
            for node in self.nodes:
                self._start_daemon(node, ["slurmd", "-D", "-N", node])
            self.wait_for(lambda: self.idle_nodes() == self.nodes, "all nodes to be idle")
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """Ends every process of the cluster, jobs and clients too, and removes its folder. Safe to call twice."""
        if self.folder is None:
            return
        for client in self._clients:
            end(client)
            client.stdout.close()
            client.stderr.close()
        while self._daemons:
            end(self._daemons.popitem()[1])
        left = self.processes()
        shutil.rmtree(self.folder)
        self.folder, self._clients = None, []
        if left:
            raise ClusterError(f"processes outlived their cluster: {left}")

    def kill_node(self, node, noticed=True):
        """Ends all processes of a node at once, as a power cut does. The controller is told, unless it shall find out
        itself, which it does after SlurmdTimeout (300 s if `settings` do not say otherwise)."""
        end(self._daemons.pop(node))
        if noticed:
            self.client("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed", check=True)

    def start_node(self, node, wait=True):
        """Switches a killed node on again, as one without a disk; returns when it is ready for jobs, or without waiting for
        that: a job may take it at once."""
        # What PMIx left there would disturb a requeued job, whose step has an equal number.
        for use in ("spool", "tmp"):
            shutil.rmtree(self.folder / use / node)
            (self.folder / use / node).mkdir()
        self._start_daemon(node, ["slurmd", "-D", "-N", node])
        if wait:
            self.wait_for(lambda: node in self.idle_nodes(), f"{node} to be idle")

    # --- Commands ----------------------------------------------------------------------------------------------------

    def start_client(self, *command, env=None, cwd=None):
        """Starts a command as on a login node: a Popen with text pipes. end() ends it early; stop() does, too."""
        process = subprocess.Popen(
            self._on_host("login", command), cwd=cwd, env={**self.environment(), **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._clients.append(process)
        return process

    def client(self, *command, check=False, timeout=240, env=None, cwd=None):
        """Runs a command as on a login node; `check` asserts success."""
        process = self.start_client(*command, env=env, cwd=cwd)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            end(process)
            out, err = process.communicate()
            raise ClusterError(f"{command} took more than {timeout} s\n{out}\n{err}\n{self.logs()}") from error
        finally:
            end(process)
            self._clients.remove(process)
        if check and process.returncode != 0:
            raise ClusterError(f"{command}: exit code {process.returncode}\n{out}\n{err}\n{self.logs()}")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def srun(self, *arguments, env=None, **how):
        """`how` is client()'s, here and below. srun does not tell that a job waits for nodes, which is chance. What it starts loads what
        ranks of mpiexec load, tests/comm/collective_check.cpp; srun itself does not."""
        loaded = [word for word in os.environ.get("DDPM_MPIEXEC_FLAGS", "").split() if word.startswith("LD_PRELOAD=")]
        exported = {"SLURM_EXPORT_ENV": ",".join(["ALL", *loaded])} if loaded else {}
        return self.client("srun", "--quiet", *arguments, env={**exported, **(env or {})}, **how)

    def sbatch(self, *arguments, **how):
        """Submits a batch script; returns the job's number."""
        return int(self.client("sbatch", "--parsable", *arguments, check=True, **how).stdout)

    def job(self, number):
        """What the controller knows of a job, as text: JobState, ExitCode ("3:0"), Restarts, Reason, BatchHost, ..."""
        shown = self.client("scontrol", "--oneliner", "show", "job", number, check=True).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", shown))

    def wait_for_job(self, number, *states, timeout=PATIENCE_S):
        """Waits until the job is in one of the states, which are those of a job that has ended; returns job()."""
        wanted = states or ENDED
        self.wait_for(lambda: self.job(number)["JobState"] in wanted, f"job {number} to be {wanted}", timeout)
        return self.job(number)

    def idle_nodes(self):
        """Nodes that answer and have no job."""
        shown = self.client("sinfo", "--noheader", "--Node", "--states=idle", "--responding", "--format=%N").stdout
        return sorted(shown.split())

    # --- For tests and their messages --------------------------------------------------------------------------------

    def wait_for(self, condition, what, timeout=PATIENCE_S):
        deadline = time.monotonic() + timeout
        while True:
            ended = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                reason = f"{', '.join(ended)} ended" if ended else f"not within {timeout} s"
                raise ClusterError(f"waited for {what}: {reason}\n{self.logs()}")
            began = time.monotonic()
            if condition():
                return
            # Those that start a client of Slurm take processors from the job that they wait for: they are asked less often.
            time.sleep(max(0.1, 3 * (time.monotonic() - began)))

    def logs(self, lines=15):
        """What each daemon logged last; before its log is open, a daemon speaks on stderr."""
        shown = []
        for output in sorted((self.folder / "log").glob("*.stderr")):
            log = output.with_suffix(".log")
            text = (log if log.exists() else output).read_text(errors="replace")
            shown += [f"--- {output.stem}:", *text.splitlines()[-lines:]]
        return "\n".join(shown)

    def processes(self):
        """{pid: command} of the daemons, the clients and the jobs."""
        return processes_of(self.slurm_conf)

    @property
    def slurm_conf(self):
        return str(self.folder / "slurm.conf")

    def environment(self):
        """A client's: this program's, without the traces of a job that it may itself be in."""
        values = without_launchers()
        values["PATH"] = values.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        # The nodes are all at 127.0.0.1, where Open MPI would not look for its peers.
        interface = {f"OMPI_MCA_{layer}_tcp_if_include": "lo" for layer in ("btl", "oob")}
        return {**values, **interface, "SLURM_CONF": self.slurm_conf}

    # --- How it is done ----------------------------------------------------------------------------------------------

    def _write_files(self):
        for name in ["log", "state", *(f"{use}/{node}" for use in ("spool", "tmp") for node in self.nodes)]:
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        names = ["localhost", "login", "munged", "controller", *self.nodes]
        (self.folder / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in names))

        controller_port, *node_ports = free_ports(1 + len(self.nodes))
        lines = [line for line in CONFIGURATION.splitlines() if line.partition("=")[0] not in self._settings]
        lines = "\n".join(lines).format(folder=self.folder).splitlines()
        lines += [f"{name}={value}" for name, value in self._settings.items()]
        lines.append(f"SlurmctldPort={controller_port}")
        for node, port in zip(self.nodes, node_ports):
            lines.append(f"NodeName={node} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus}")
        lines.append("PartitionName=all Nodes=ALL Default=YES")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")

    def _munged(self):
        files = {"socket": "munge.socket", "key-file": "munge.key", "seed-file": "munge.seed",
                 "pid-file": "munge.pid", "log-file": "log/munged.log"}  # fmt: skip
        # --force: munged wants a socket that every user can reach; here root alone shall.
        return ["munged", "--foreground", "--force", *(f"--{key}={self.folder / name}" for key, name in files.items())]

    def _start_daemon(self, name, command):
        with (self.folder / f"log/{name}.stderr").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                self._on_host(name, command), cwd=self.folder, env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def _on_host(self, name, command):
        """A Popen of this is unshare, which waits for the command and ends with its exit code."""
        namespaces = ["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        become = ["sh", "-c", BECOME_HOST, "sh", name, str(self.folder / "hosts")]
        return ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, *become, *map(str, command)]


def end(process):
    """Ends a daemon or a client with all that it started, unless it has ended."""
    if process.poll() is not None:
        return
    # The child of unshare is the first process of the PID namespace. The kernel lets it go when it has killed all
    # others, and unshare waits for it. Without a child yet, unshare itself goes.
    for pid in children_of(process.pid) or [process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=PATIENCE_S)
