"""The jobs of a study: one folder for each point and repeat, what has become of it, and how it is started.

    STUDY/jobs/weak-8-zero0-bf16-4x4/2/     point.json, config.toml (a copy), *.arguments, job (Slurm's number), log-*.txt,
                                            result.json
"""

import hashlib
import itertools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

from description import StudyError
from results import read_result

HERE = pathlib.Path(__file__).resolve().parent
LOCAL_LAUNCH = "mpirun --oversubscribe --bind-to none -np {ranks}"
PATIENCE_S = 15
DONE, QUEUED, FAILED, MISSING = "done", "queued", "failed", "missing"


class Job:
    """One point, measured once."""

    def __init__(self, study, point, repeat):
        self.study, self.point, self.repeat = study, point, repeat
        self.folder = study.folder / "jobs" / point.name / str(repeat)
        self.name = f"{point.name}-{repeat}"
        self.config = self.folder.absolute() / "config.toml"

    @property
    def result(self):
        return self.folder / "result.json"

    def number(self):
        """Slurm's, of the last submission."""
        path = self.folder / "job"
        return path.read_text().strip() if path.exists() else None

    def state(self, queue):
        """The state, with the reason where there is one. `queue`: those that Slurm still has (queued())."""
        if self.result.exists():
            try:
                read_result(self.result)
            except StudyError as error:
                return FAILED, str(error)
            return DONE, ""
        number = self.number()
        if number in queue:
            return QUEUED, f"job {number}" + (f": {queue[number]}" if queue[number] else "")
        logs = sorted(self.folder.glob("log-*.txt"), key=lambda path: path.stat().st_mtime)
        if logs:
            return FAILED, f"no result; see {logs[-1]}"
        return (FAILED, f"job {number} is gone without a result") if number else (MISSING, "")

    def arguments(self):
        """The arguments of each command that point.sbatch runs."""
        study, point = self.study, self.point
        # Values are TOML, which has no \u escapes of surrogates.
        values = {
            "batch.global_size": point.global_size,
            "batch.micro_size": point.micro_size,
            "parallel.zero_stage": point.series.zero_stage,
            "precision.mixed_precision": json.dumps(point.series.mixed_precision),
            **{key: json.dumps(value, ensure_ascii=False) for key, value in study.settings.items()},
        }
        overrides = [word for key, value in values.items() for word in (f"--{key}", value)]
        steps = ["--steps", study.steps, "--warm-up", study.warm_up]
        shape = ["--nodes", point.nodes, "--gpus-per-node", point.series.ranks_per_node]
        words = {
            "plan": ["plan", self.config, *shape, *overrides],
            "step": ["bench", "step", self.config, *steps, *overrides],
        }
        if point.ranks > 1:
            sizes = ["--max-mib", study.comm_max_mib, "--repeats", study.comm_repeats]
            words["comm"] = ["bench", "comm", self.config, *sizes, *overrides]
        return {f"{name}.arguments": "".join(f"{word}\n" for word in some) for name, some in words.items()}

    def prepare(self):
        """Writes what point.sbatch reads, the configuration as it is now. The logs of earlier tries stay, in earlier/."""
        config = content(self.study.config)
        self.folder.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("log-*.txt"):
            (self.folder / "earlier").mkdir(exist_ok=True)
            log.replace(self.folder / "earlier" / log.name)
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()
        for name, text in self.arguments().items():
            (self.folder / name).write_text(text, encoding="utf-8")
        self.config.write_bytes(config)
        about = {**self.point.as_json(), "repeat": self.repeat, "config_sha256": sha256(config)}
        (self.folder / "point.json").write_text(json.dumps(about) + "\n")

    def refuse_other_settings(self):
        """What was measured with other options, of which both are told, is not of this study."""
        for name, text in self.arguments().items():
            path = self.folder / name
            old = options(path.read_text(encoding="utf-8", errors="replace")) if path.exists() else []
            pairs = itertools.zip_longest(old, options(text), fillvalue="")
            for i, (was, wanted) in enumerate(pairs):
                if value_of(was) != value_of(wanted):
                    where = f" after {old[i - 1]}" if 0 < i <= len(old) else ""
                    raise StudyError(
                        f"{path}: measured with '{was}'{where}, the study has '{wanted}';"
                        f" take another folder, or delete {self.study.folder}/jobs"
                    )

    # --- Starting -----------------------------------------------------------------------------------------------------

    def submit(self):
        """Hands the job to Slurm; returns its number."""
        self.prepare()
        point = self.point
        command = [
            "sbatch", "--parsable", *self.study.sbatch, f"--job-name={self.name}", f"--nodes={point.nodes}",
            f"--ntasks-per-node={point.series.ranks_per_node}", f"--output={self.folder.absolute() / 'log-%j.txt'}",
            HERE / "point.sbatch", self.folder.absolute(),
        ]  # fmt: skip
        said = capture(command, env=environment())
        number = said.strip().split(";")[0]  # the cluster's name may follow
        (self.folder / "job").write_text(number + "\n")
        return number

    def run(self, launch, hosts=None):
        """Runs without Slurm, on this machine; returns True if it has a result. `hosts`: the names of the hosts."""
        self.prepare()
        point = self.point
        try:
            words = launch.format(ranks=point.ranks, nodes=point.nodes, ranks_per_node=point.series.ranks_per_node)
        except (KeyError, IndexError, ValueError):
            raise StudyError(f"--launch '{launch}': {{ranks}}, {{nodes}} and {{ranks_per_node}} are filled in, no others") from None
        more = {"DDPM_LAUNCHER": "mpirun", "DDPM_SCALING_LAUNCH": words}
        if hosts:
            more["DDPM_SCALING_HOSTS"] = hosts
        with (self.folder / "log-local.txt").open("w") as log:
            process = subprocess.Popen(
                ["bash", str(HERE / "point.sbatch"), str(self.folder)],
                env=environment(**more), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait()
            except BaseException:  # Ctrl-C, say
                end_group(process)
                raise
        return process.returncode == 0 and self.result.exists()


def end_group(process):
    """Ends a script with all that it started. The launcher has its own way of ending ranks, and gets some time for it."""
    for attempt in range(10 * PATIENCE_S):
        try:
            os.killpg(process.pid, 0 if attempt else signal.SIGTERM)
        except ProcessLookupError:  # none is left
            break
        process.poll()  # the script's own end is seen by its parent only
        time.sleep(0.1)
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def jobs_of(study):
    """All jobs, in the order in which they are started: what drifts with time then meets all points alike."""
    points = study.points()
    return [Job(study, point, repeat) for repeat in range(1, study.repeats + 1) for point in points]


def environment(**more):
    values = {**os.environ, "DDPM_JOBS": str(HERE.parent), **more}
    values.setdefault("SLURM_SUBMIT_DIR", os.getcwd())
    return values


def queued(jobs):
    """{number: why it waits, if it is not its turn alone} of the user's jobs that Slurm still has. It is not asked before one
    of `jobs` was submitted."""
    if not any(job.number() for job in jobs):
        return {}
    lines = capture(["squeue", "--noheader", f"--user={os.getuid()}", "--format=%A %r"]).splitlines()
    pairs = [line.strip().partition(" ") for line in lines]
    return {number: "" if reason in ("None", "Priority", "Resources") else reason for number, _, reason in pairs}


def capture(command, **how):
    try:
        done = subprocess.run(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False, **how,
        )  # fmt: skip
    except FileNotFoundError:
        raise StudyError(f"{command[0]} is not on PATH; without Slurm: study.py run") from None
    if done.returncode != 0:
        raise StudyError(f"{shlex.join(map(str, command))}: exit code {done.returncode}: {' '.join(done.stderr.split())}")
    return done.stdout


def options(arguments):
    """Those of a command: what comes before is always the same, but for where the configuration lies."""
    return list(itertools.dropwhile(lambda word: not word.startswith("--"), arguments.splitlines()))


def value_of(word):
    """What a word says, however it is escaped; the word itself where it is no value."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def sha256(config):
    return hashlib.sha256(config).hexdigest()


def content(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; `config` is looked for from {os.getcwd()}") from None


def measured_with(about):
    """The configuration's hash, as point.json has it; None where it is damaged."""
    try:
        return json.loads(about.read_text()).get("config_sha256")
    except (ValueError, AttributeError):
        return None


def refuse_changed_study(study, jobs):
    """Points of different configurations and settings are not comparable."""
    now = sha256(content(study.config))
    for job in jobs:
        about = job.folder / "point.json"
        if job.result.exists() and about.exists() and measured_with(about) != now:
            raise StudyError(
                f"{study.config} has changed since {job.folder} was measured;"
                f" take another folder, or delete {study.folder}/jobs"
            )
        if job.result.exists():
            job.refuse_other_settings()


def say(text):
    print(text, file=sys.stderr, flush=True)
