#!/usr/bin/env python3
"""Feeds a run's metrics to Weights & Biases (offline mode) or MLflow, from outside of the run.

    jobs/track.py RUN --wandb PROJECT [--folder DIR] [--follow]
    jobs/track.py RUN --mlflow STORE [--experiment NAME] [--follow]

It reads RUN/config.toml and RUN/metrics.jsonl and needs no network: start it on a login node, with a Python that has the
tracker's own package, while the run works or afterwards, as often as you like. No step is fed twice. RUN/track.json
remembers under which name the tracker knows the run. See docs/trackers.md.

Exit codes: 0 done, 2 usage or a missing package, 4 files.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import time
import uuid

METRICS = "metrics.jsonl"
CONFIG = "config.toml"
STATE = "track.json"
KEPT_OUT = ("step",)  # it is what the others are plotted over


class TrackError(Exception):
    """One line for the user. `code` is the exit code."""

    def __init__(self, message, code=4):
        super().__init__(message)
        self.code = code


# --- The run folder ---------------------------------------------------------------------------------------------------


def read_config(path):
    """{"section.key": value} of a resolved config.toml. Its values stand on one line each and are written as JSON writes
    them, but for tables, which stay text; keys that are not set are left out, being comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise TrackError(f"{path}: is not there; wanted: the folder of a run of ddpm train") from None
    except UnicodeDecodeError as error:
        raise TrackError(f"{path}: is no UTF-8 text: {error}") from None
    config, section = {}, ""
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition(" = ")
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[] ")
        elif equals:
            try:
                config[f"{section}.{name}"] = json.loads(value)
            except ValueError:
                config[f"{section}.{name}"] = value
        else:
            raise TrackError(f"{path}: line {number} is {line[:60]!r}; wanted: a section or a key, as ddpm train writes them")
    return config


def scalars(line):
    """The step of a line, and its numbers by name: element i of a list is NAME_i, KEY of an object NAME.KEY, and what is
    null, or no number that a double holds, is left out. None: the line is not a whole one of a step."""
    try:
        values = json.loads(line)
        step = values["step"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(step, int):
        return None
    flat = {}
    for name, value in values.items():
        parts = {name: value}
        if isinstance(value, list):
            parts = {f"{name}_{i + 1}": part for i, part in enumerate(value)}
        elif isinstance(value, dict):
            parts = {f"{name}.{key}": part for key, part in value.items()}
        for key, number in parts.items():
            is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
            if is_number and abs(number) <= sys.float_info.max and key not in KEPT_OUT:
                flat[key] = number
    return step, flat


class MetricsFile:
    """metrics.jsonl as it grows. A run that is resumed puts a shorter file in its place, which is then read anew."""

    def __init__(self, path):
        self.path = path
        self.seen = None  # device and inode
        self.offset = 0

    def new_lines(self):
        """Whole lines that were not read yet, of a file that was replaced all of them."""
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            return []
        with file:
            facts = os.fstat(file.fileno())
            if self.seen != (facts.st_dev, facts.st_ino) or facts.st_size < self.offset:
                self.seen, self.offset = (facts.st_dev, facts.st_ino), 0
            file.seek(self.offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()


class State:
    """RUN/track.json: what each tracker calls this run."""

    def __init__(self, path):
        self.path = path
        try:
            self.values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.values = {}
        except ValueError as error:
            raise TrackError(f"{path}: {error}; remove it to begin a new run of the tracker") from None
        if not isinstance(self.values, dict):
            raise TrackError(f"{path}: holds no object; remove it to begin a new run of the tracker")

    def of(self, key):
        found = self.values.get(key, {})
        return found if isinstance(found, dict) else {}

    def set(self, key, value):
        self.values[key] = value
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        new.write_text(json.dumps(self.values, indent=2) + "\n", encoding="utf-8")
        os.replace(new, self.path)


# --- The trackers: begin(), feed() for steps that grow, end() ----------------------------------------------------------


def imported(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise TrackError(f"{sys.executable} has no {name} ({error}); wanted: python3 -m pip install {name}", 2) from None


class WandbTracker:
    """An offline run is a file that only grows. So each start writes all steps into a new one under the same id, and
    removes the one before once the new one is whole: uploading it replaces what the server had of the run."""

    def __init__(self, run, config, state, options):
        self.wandb = imported("wandb")
        self.run, self.config, self.state, self.options = run, config, state, options
        self.key = f"wandb {options.wandb}"
        self.id = state.of(self.key).get("id") or uuid.uuid4().hex[:12]
        self.folder = (options.folder or run).resolve()
        self.writer = None
        self.last = 0

    def begin(self):
        before = self.state.of(self.key).get("folders", [])
        settings = self.wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True, x_disable_meta=True
        )
        nested = {}
        for name, value in self.config.items():
            section, _, key = name.partition(".")
            nested.setdefault(section, {})[key] = value
        self.folder.mkdir(parents=True, exist_ok=True)
        self.writer = self.wandb.init(
            mode="offline", project=self.options.wandb, id=self.id, name=self.options.name or self.run.resolve().name,
            dir=str(self.folder), config=nested, settings=settings,
        )  # fmt: skip
        self.place = pathlib.Path(self.writer.settings.sync_dir)
        self.state.set(self.key, {"id": self.id, "folders": [*before, str(self.place)]})
        self.last = 0

    def feed(self, steps):
        if steps and steps[0][0] <= self.last:  # the run went back to a checkpoint
            self.end()
            time.sleep(1.1)  # folders are named by the second
            self.begin()
        for step, values in steps:
            self.writer.log(values, step=step)
            self.last = step

    def end(self):
        self.writer.finish()
        for older in self.state.of(self.key).get("folders", []):
            is_ours = pathlib.Path(older).name.startswith("offline-run-") and older.endswith(f"-{self.id}")
            if is_ours and pathlib.Path(older) != self.place:
                shutil.rmtree(older, ignore_errors=True)
        self.state.set(self.key, {"id": self.id, "folders": [str(self.place)]})

    def result(self):
        return f"{self.place}; from a machine with network: wandb sync {self.place}"


class MlflowTracker:
    """MLflow keeps each number that it is given, so steps that its store has are not given again."""

    BATCH = 900  # numbers in one call; the store takes 1,000

    def __init__(self, run, config, state, options):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # releases from 2026 on ask for it
        self.mlflow = imported("mlflow")
        from mlflow import entities

        self.entities = entities
        self.run, self.config, self.state, self.options = run, config, state, options
        store = options.mlflow
        self.uri = store if "://" in store else pathlib.Path(store).resolve().as_uri()
        self.key = f"mlflow {self.uri}"
        self.client = self.mlflow.MlflowClient(tracking_uri=self.uri)

    def begin(self):
        try:
            self.id = self.state.of(self.key).get("id") or self.created()
            run = self.client.get_run(self.id)
        except self.mlflow.exceptions.MlflowException as error:
            raise TrackError(f"{self.uri}: {error}; without {self.state.path} a new run begins there") from None
        params = [self.entities.Param(key, str(value)) for key, value in self.config.items() if key not in run.data.params]
        for i in range(0, len(params), 100):
            self.client.log_batch(self.id, params=params[i : i + 100])
        self.client.log_artifact(self.id, str(self.run / CONFIG))  # keys that changed on resume are in it
        self.client.update_run(self.id, status="RUNNING")
        self.last = {}

    def created(self):
        experiment = self.client.get_experiment_by_name(self.options.experiment)
        number = experiment.experiment_id if experiment else self.client.create_experiment(self.options.experiment)
        name = self.options.name or self.run.resolve().name
        created = self.client.create_run(number, run_name=name).info.run_id
        self.state.set(self.key, {"id": created})
        return created

    def last_step(self, name):
        """Of each metric by itself: a start that was killed may have given some of a step."""
        if name not in self.last:
            history = self.client.get_metric_history(self.id, name)
            self.last[name] = max((metric.step for metric in history), default=0)
        return self.last[name]

    def feed(self, steps):
        now = int(time.time() * 1000)
        metrics = []
        for step, values in steps:
            for name, value in values.items():
                if step > self.last_step(name):
                    metrics.append(self.entities.Metric(name, value, now, step))
                    self.last[name] = step
        for i in range(0, len(metrics), self.BATCH):
            self.client.log_batch(self.id, metrics=metrics[i : i + self.BATCH])

    def end(self):
        if is_done(self.run):
            self.client.update_run(self.id, status="FINISHED")

    def result(self):
        return f"{self.uri}, run {self.id}; to look at it: mlflow ui --backend-store-uri {self.uri}"


# --- The command ------------------------------------------------------------------------------------------------------


def newest_manifest(run):
    """What the newest checkpoint says of itself; {}: there is none that can be read."""
    for path in sorted((run / "checkpoints").glob("step-*/MANIFEST.json"), reverse=True):
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict) and isinstance(manifest.get("state"), dict):
            return manifest
    return {}


class Lock:
    """RUN/LOCK, which whoever works in the folder writes anew every 30 seconds."""

    STALE_SECONDS = 300

    def __init__(self, run):
        self.path = run / "LOCK"
        self.seen = None
        self.since = 0.0

    def is_held(self):
        """Whether it is there, and not left over from a run that was killed: unchanged for as long as we have looked."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        if (found.st_mtime_ns, found.st_size) != self.seen:
            self.seen, self.since = (found.st_mtime_ns, found.st_size), time.monotonic()
        return time.monotonic() - self.since < self.STALE_SECONDS


def is_done(run, lock=None):
    """Whether no step follows, and nobody is at work. A run of ddpm train ends with RUN/model. One of a model of one's own
    writes none: its last checkpoint is that of train.steps, or says that a callback has ended the run."""
    if (lock or Lock(run)).is_held():
        return False
    if (run / "model").exists():
        return True
    config = read_config(run / CONFIG)
    steps = config.get("train.steps")
    if any(key.startswith("model.") for key in config) or not isinstance(steps, int):
        return False
    manifest = newest_manifest(run)
    step = manifest.get("step")
    return isinstance(step, int) and (step >= steps or manifest["state"].get("ended") is True)


def follow(run, tracker, options, stopped):
    """Feeds until the run has no more steps, the run is done, or a signal asks to end."""
    file = MetricsFile(run / METRICS)
    lock = Lock(run)
    count = 0
    while True:
        done = not options.follow or is_done(run, lock) or bool(stopped)  # before the read, which then sees all
        steps = [found for found in map(scalars, file.new_lines()) if found]
        tracker.feed(steps)
        count += len(steps)
        if done:
            return count
        for _ in range(int(options.every * 10)):
            if stopped:
                break
            time.sleep(0.1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, help="a run folder: config.toml and metrics.jsonl in it")
    tracker = parser.add_mutually_exclusive_group(required=True)
    tracker.add_argument("--wandb", metavar="PROJECT", help="write an offline run of Weights & Biases")
    tracker.add_argument("--mlflow", metavar="STORE", help="a folder for MLflow's files, or a tracking URI")
    parser.add_argument("--folder", type=pathlib.Path, help="where wandb's folder is made; default: RUN")
    parser.add_argument("--experiment", default="ddpm", help="MLflow's experiment; default: ddpm")
    parser.add_argument("--name", help="how the tracker shows the run; default: the folder's name")
    parser.add_argument("--follow", action="store_true", help="continue until the run is done, or until Ctrl-C")
    parser.add_argument("--every", type=float, default=30.0, metavar="SECONDS", help="how often to look; default: 30")
    options = parser.parse_args()
    if not options.every > 0:
        parser.error(f"--every {options.every}: a number above 0 is wanted")
    return options


def main():
    options = arguments()
    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.append(True))
    try:
        config = read_config(options.run / CONFIG)
        state = State(options.run / STATE)
        tracker = (WandbTracker if options.wandb else MlflowTracker)(options.run, config, state, options)
        tracker.begin()
        count = follow(options.run, tracker, options, stopped)
        tracker.end()
        print(f"{count} steps of {options.run} in {tracker.result()}")
    except (TrackError, OSError) as error:
        print(f"track.py: error: {error}", file=sys.stderr)
        return getattr(error, "code", 4)
    except Exception as error:  # the trackers' packages have types of their own
        if not type(error).__module__.startswith(("wandb", "mlflow")):
            raise
        print(f"track.py: error: {type(error).__module__.partition('.')[0]}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
