"""Jobs of Slurm with stand-ins for its commands: what the job scripts ask of them, and what they make of it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
# scontrol, as far as the script asks: lists of nodes, the job, nodes, and a requeue. A list is written in full, not as node[1-3].
# A question that $HERE/refused-WORD names is refused as often as that file says; $HERE/meanwhile is done with a question about the job.
SCONTROL = """#!/bin/bash
echo "$*" >>"$HERE/asked"
for refused in "$HERE"/refused-*; do
  [ -e "$refused" ] && [[ $* == *"${refused##*-}"* ]] || continue
  left=$(cat "$refused")
  [ "$left" -gt 0 ] || continue
  echo $((left - 1)) >"$refused"
  echo "slurm_load_jobs error: Unable to contact slurm controller" >&2
  exit 1
done
case "$*" in
  "show hostnames"*) tr , '\\n' <<<"$3" ;;
  "show hostlistsorted"*) tr , '\\n' <<<"$3" | sort | paste -sd, ;;
  *"show job"*)
    [ ! -e "$HERE/meanwhile" ] || . "$HERE/meanwhile"
    echo "JobId=$4 JobState=${STATE-RUNNING} ExcNodeList=${EXCLUDED:-(null)} PreemptTime=${PREEMPTED:-None} Comment="
    ;;
  *"show node"*)
    if [ "$SLURM_TIME_FORMAT" = standard ]; then cat "$HERE/nodes"; else sed 's/SlurmdStartTime=.*/SlurmdStartTime=09:00/' "$HERE/nodes"; fi
    ;;
  requeue*) touch "$HERE/requeued" && kill -TERM "$(cat "$HERE/pid")" ;;
  update*) ;;
esac
"""
COMMON = 'set -euo pipefail; job=7 task=; die() { echo "$1"; exit 2; }'  # what train.sbatch has when it sources the script


def failed_start(words, job="7", code=137):
    """The lines of the script in the log of a start that failed."""
    return (f"2026-11-30 05:00:00: job {job} on node1,node2, start 1: {words}\n"
            f"2026-11-30 05:01:00: a rank or the launcher is lost (exit code {code}); back into the queue\n")


class StandInCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.log = self.here / "log"
        self.log.touch()
        self.usable(*(f"node{i} idle" for i in range(1, 6)))
        self.script("scontrol", SCONTROL)

    def script(self, name, text):
        (self.here / name).write_text(text)
        (self.here / name).chmod(0o755)

    def usable(self, *lines):
        self.script("sinfo", "#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))

    def call(self, commands, **variables):
        """What commands print to stdout, after the script was sourced. Its stderr is the job's log, as under Slurm."""
        environment = {
            "PATH": f"{self.here}:/usr/bin:/bin", "HERE": str(self.here), "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node1,node2",
            "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "all", **variables,
        }  # fmt: skip
        script = f"{COMMON}; . '{SOURCE}/jobs/failed_nodes.sh'; {commands}"
        with self.log.open("a") as log:
            done = subprocess.run(["bash", "-c", script], env=environment, stdout=subprocess.PIPE, stderr=log, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + self.log.read_text())
        return done.stdout.strip()

    def train(self, code, said, to_log=True, before="", **variables):
        return self.job("train", ("my.toml",), code, said, to_log, before, **variables)

    def job(self, stage, words, code, said, to_log=True, before="", **variables):
        """A job whose program says something and ends with a code, and whose log had something before. Returns the job's own code and
        whether it was put back. What it writes to stdout is no part of its log, as with `sbatch --error`."""
        self.script("srun", '#!/bin/sh\ncat "$HERE/said" >&2\nexit "$CODE"\n')
        self.script("ddpm", "#!/bin/sh\n")
        self.script("sleep", "#!/bin/sh\nexec /usr/bin/sleep 0.01\n")
        environment = {
            "PATH": f"{self.here}:/usr/bin:/bin", "HERE": str(self.here), "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node1,node2",
            "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "all", "DDPM_JOBS": str(SOURCE / "jobs"), "DDPM": str(self.here / "ddpm"),
            "CODE": str(code), **variables,
        }  # fmt: skip
        (self.here / "said").write_text(said)
        for left in ("requeued", "asked", "pid"):
            (self.here / left).unlink(missing_ok=True)
        self.log.write_text(before)
        with self.log.open("a") if to_log else open(os.devnull, "a") as log:
            job = subprocess.Popen(["bash", SOURCE / f"jobs/{stage}.sbatch", *words], env=environment, stdout=subprocess.DEVNULL, stderr=log)
            (self.here / "pid").write_text(str(job.pid))
            self.addCleanup(job.kill)
            return job.wait(timeout=20), (self.here / "requeued").exists()

    def asked(self, word):
        return sum(word in line for line in (self.here / "asked").read_text().splitlines())

    def refuse(self, **times):
        for old in self.here.glob("refused-*"):
            old.unlink()
        for word, count in times.items():
            (self.here / f"refused-{word}").write_text(str(count))
