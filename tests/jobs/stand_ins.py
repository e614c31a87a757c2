"""Stand-ins for PBS and Flux: shell programs under the names of theirs, which note how they were called, keep what is submitted,
and really start the ranks, by the MPI of this machine. Queue runs what was submitted, a job after the other, as the batch system
would: from a copy of the script, with nothing in its environment but what the batch system puts or passes there.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from launcher import MPIRUN, PREFIXES  # noqa: E402

TIMEOUT_S = 240
REAL = shlex.join([shutil.which(MPIRUN[0]), *MPIRUN[1:]])

# qsub's own way with variables; of several -v the last one counts.
VARIABLES = shlex.join([sys.executable, "-B", str(pathlib.Path(__file__).with_name("qsub_variables.py"))])

# The head of each: a line for each call.
NOTE = """#!/bin/bash
printf '%s\\n' "${0##*/} $*" >>"$STAND_INS/calls"
"""
# Keeps a submission: options, environment, folder and script. $1 is the script.
KEEP = """
keep() {
  number=$(($(ls "$STAND_INS/queue" | wc -l) + 1)) kept="$STAND_INS/queue/$number"
  mkdir "$kept" && env -0 >"$kept/environment" && pwd >"$kept/folder" && cp "$1" "$kept/script"
}
"""
# Starts $ranks ranks; the process is the launcher, as that of the real program would be.
START = f"""
start() {{
  echo $$ >"$STAND_INS/launcher"
  exec {REAL} -n "$ranks" "$@"
}}
"""
PROGRAMS = {
    "qsub": NOTE + KEEP + f"""
variables=
for ((i = 1; i < $#; i++)); do [ "${{!i}}" != -v ] || {{ next=$((i + 1)) && variables=${{!next}}; }}; done
{VARIABLES} "$variables" >"$STAND_INS/variables" || exit
keep "${{@: -1}}" || exit
mv "$STAND_INS/variables" "$kept"
printf '%s\\0' "${{@:1:$#-1}}" >"$kept/options"
echo "$number.server"
""",
    "qstat": NOTE + """
[ "$1 $2" = "-f $PBS_JOBID" ] || exit 2
printf 'Job Id: %s\\n    Job_Name = ddpm-train\\n    Resource_List.walltime = %s\\n    run_count = %s\\n    project = a\\n' \\
  "$2" "$STAND_IN_WALLTIME" "$STAND_IN_RUN_COUNT"
""",
    "mpiexec": NOTE + START + """
while true; do
  case $1 in
    -n) ranks=$2 && shift 2 ;;
    -ppn | --ppn | --cpu-bind | --depth) shift 2 ;;
    -*) echo "mpiexec: unknown option $1" >&2 && exit 2 ;;
    *) start "$@" ;;
  esac
done
""",
    "mpirun": NOTE + START + """
while true; do
  case $1 in
    --hostfile) ranks=$(wc -l <"$2") && shift 2 ;;
    --map-by) shift 2 ;;
    -*) echo "mpirun: unknown option $1" >&2 && exit 2 ;;
    *) start "$@" ;;
  esac
done
""",
    "flux": NOTE + KEEP + START + """
parent=
[ "$1" != --parent ] || { parent=yes && shift; }
run() {
  while true; do
    case $1 in
      --ntasks=*) ranks=${1#*=} && shift ;;
      --nodes=* | --cores-per-task=*) shift ;;
      -o) shift 2 ;;
      -*) echo "flux-run: unknown option $1" >&2 && exit 2 ;;
      *) start "$@" ;;
    esac
  done
}
batch() {
  # Without --parent it would queue inside of the job, and end with it.
  [ -z "$STAND_IN_JOB" ] || [ -n "$parent" ] || { echo "flux-batch: not enough resources" >&2 && exit 1; }
  options=()
  while [[ $1 == -* ]]; do options+=("$1") && shift; done
  keep "$1" || exit
  printf '%s\\0' "${options[@]}" >"$kept/options"
  printf '%s\\0' "${@:2}" >"$kept/arguments"
  echo "f$number"
}
case "$1 $2" in
  "run "*) run "${@:2}" ;;
  "batch "*) batch "${@:2}" ;;
  "getattr jobid") [ -n "$STAND_IN_JOB" ] && echo "$STAND_IN_JOB" ;;
  "getattr hostlist") echo "node[1-$STAND_IN_NODES]" ;;
  "getattr size") echo "$STAND_IN_NODES" ;;
  "job timeleft") echo "$STAND_IN_SECONDS" ;;
  "job killall") signal=${4#--signal=} && kill "-$signal" "$(cat "$STAND_INS/launcher")" ;;
  *) echo "flux: unknown command $*" >&2 && exit 2 ;;
esac
""",
}


@dataclasses.dataclass
class Ended:
    """A job that has run."""

    code: int
    said: str
    options: dict


def words(path):
    return [] if not path.exists() else [os.fsdecode(word) for word in path.read_bytes().split(b"\0")[:-1]]


def seconds(text):
    """The seconds that HH:MM:SS or a duration of Flux stands for."""
    if ":" in text:
        hours, minutes, rest = map(int, text.split(":"))
        return hours * 3600 + minutes * 60 + rest
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


class Queue:
    """A batch system whose commands are in `folder`/bin; the script that is submitted says which one is meant."""

    # Variables of this process that a job may inherit: those that Open MPI and the machine want, not those of the job scripts.
    OWN = re.compile("|".join(("DDPM", "STAND_IN", "(PREPARE|TRAIN|SAMPLE)_", *PREFIXES)))

    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("bin", "queue", "home"):
            (folder / name).mkdir(parents=True)
        for name, text in PROGRAMS.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.ran = 0

    def environment(self):
        inherited = {name: value for name, value in os.environ.items() if not self.OWN.match(name)}
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return inherited | {"PATH": path, "STAND_INS": str(self.folder), "HOME": str(self.folder / "home")}

    def calls(self, *beginning):
        """The calls of a program, each a list of words, that begin with these words."""
        lines = (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []
        return [line.split() for line in lines if line.split()[: len(beginning)] == list(beginning)]

    def pending(self):
        return [self.folder / "queue" / str(n) for n in range(self.ran + 1, len(list((self.folder / "queue").iterdir())) + 1)]

    def start_next(self, run_count=1):
        """A Popen of the job that was submitted next, and its options; PBS starts it for the so manyth time."""
        kept = self.pending()[0]
        self.ran += 1
        script = (kept / "script").read_text()
        environment = dict(word.split("=", 1) for word in words(kept / "environment"))
        options, values, folder = self._pbs(kept, script) if "\n#PBS " in script else self._flux(kept, script, environment)
        job = subprocess.Popen(
            ["bash", kept / "script", *words(kept / "arguments")], cwd=folder,
            env=self.environment() | values | {"STAND_IN_RUN_COUNT": str(run_count)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return job, options

    def run_next(self, run_count=1):
        job, options = self.start_next(run_count)
        with self.ending(job):
            said, _ = job.communicate(timeout=TIMEOUT_S)
        return Ended(job.returncode, said, options)

    @contextlib.contextmanager
    def ending(self, job):
        """Leaves nothing of the job behind: ranks die with their launcher."""
        try:
            yield
        finally:
            if job.poll() is None:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((self.folder / "launcher").read_text()), signal.SIGKILL)
                job.kill()
                job.wait(timeout=60)

    def run_all(self, most=8):
        """Runs jobs until none is left, and returns them."""
        ended = []
        while self.pending():
            assert len(ended) < most, [job.said for job in ended]
            ended.append(self.run_next())
        return ended

    # What a script says stands in the lines before its first command; what the command line says wins.
    def _pbs(self, kept, script):
        head = script.split("\nset ")[0]
        assert "#PBS" not in script[len(head) :], "qsub does not see a directive behind the first command"
        directives = [word for line in re.findall(r"^#PBS (.*)$", head, re.MULTILINE) for word in line.split()]
        given = directives + words(kept / "options")
        options = {}
        for flag, value in zip(given[::2], given[1::2]):
            name, _, rest = value.partition("=") if flag == "-l" else (flag, "", value)
            options[name] = rest
        select = re.fullmatch(r"(\d+):ncpus=\d+:mpiprocs=(\d+)", options["select"])
        nodes = "".join(f"node{n + 1}\n" * int(select[2]) for n in range(int(select[1])))
        (kept / "nodes").write_text(nodes)
        passed = dict(word.split("=", 1) for word in words(kept / "variables"))
        values = {
            "PBS_JOBID": f"{kept.name}.server", "PBS_JOBNAME": options["-N"], "PBS_NODEFILE": str(kept / "nodes"),
            "PBS_O_WORKDIR": (kept / "folder").read_text().strip(), "STAND_IN_WALLTIME": options["walltime"],
        }  # fmt: skip
        if "-J" in options:
            values["PBS_ARRAY_INDEX"] = options["-J"].split("-")[0]
        return options, values | passed, self.folder / "home"

    def _flux(self, kept, script, environment):
        lines = [line for line in script.splitlines() if re.match(r"\W*flux:", line)]
        assert "\n".join(lines) in script, "directives of Flux stand together"
        directives = shlex.split("\n".join(line.removeprefix("# flux:") for line in lines), comments=True)
        given = directives + words(kept / "options")
        options = dict((word.partition("=")[0], word.partition("=")[2]) for word in given)
        values = {name: value for name, value in environment.items() if self.OWN.match(name)}
        values |= {"STAND_IN_JOB": f"f{kept.name}", "STAND_IN_NODES": options["--nodes"],
                   "STAND_IN_SECONDS": str(seconds(options["--time-limit"]))}  # fmt: skip
        return options, values, (kept / "folder").read_text().strip()
