"""jobs/track.py: what Weights & Biases and MLflow hold of a run afterwards, read by MLflow itself, and by the format of
W&B's offline files: records of wandb's own protobuf in a log of LevelDB's kind."""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow import MlflowClient  # noqa: E402
from wandb.proto import wandb_internal_pb2 as protocol  # noqa: E402

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
sys.path.insert(0, str(SOURCE / "jobs"))
import track as track_module  # noqa: E402
from ddpm_job import wait_until  # noqa: E402
from ddpm_run import ddpm, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
TIMEOUT_S = 120
# Nothing may be asked of the network: a proxy that refuses every connection.
ALONE = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}


def command(*arguments):
    return [sys.executable, str(SOURCE / "jobs" / "track.py"), *map(str, arguments)]


def track(*arguments, code=0):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          cwd=WORK, env={**os.environ, **ALONE})  # fmt: skip
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def wandb_records(path):
    """The records of an offline run: after 7 bytes, blocks of 32 KiB with pieces (CRC, length, kind, data)."""
    data = path.read_bytes()
    assert data[:4] == b":W&B", data[:8]
    at, record = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield protocol.Record.FromString(record)
            record = b""


def of_wandb(folder):
    """The one offline run below: its id, its configuration, and [(step, values)]."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    config, history, first = {}, [], None
    for record in wandb_records(path):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            assert not history, "the configuration comes first"
            first = record.run
        if kind == "history":
            items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            step = items.pop("_step", record.history.step.num)
            history.append((step, {key: value for key, value in items.items() if not key.startswith("_")}))
    return first.run_id, config, history


def expected(run):
    """[(step, values)] of metrics.jsonl, said in another way than the script's."""
    steps = []
    for line in metrics(run):
        values = {k: v for k, v in line.items() if k not in ("step", "loss_quartiles") and v is not None}
        for i in range(4):
            if line["loss_quartiles"][i] is not None:
                values[f"loss_quartile_{i + 1}"] = line["loss_quartiles"][i]
        steps.append((line["step"], {key.replace("loss_quartile_", "loss_quartiles_"): v for key, v in values.items()}))
    return steps


class Track(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = make_dataset(WORK / "set", 24)

    def config(self, name, steps, **sections):
        return write_config(WORK / f"{name}.toml", WORK / name, self.images, train={"steps": steps},
                            checkpoint={"every_steps": 2, "keep_latest": 10}, **sections)  # fmt: skip

    def trained(self, name, steps=5):
        for folder in (WORK / name, WORK / f"{name}-mlruns"):
            shutil.rmtree(folder, ignore_errors=True)
        ddpm("train", self.config(name, steps))
        return WORK / name

    def go_back(self, run, steps):
        """Resumes from the checkpoint of step 2, with another number of ranks."""
        ddpm("train", self.config(run.name, steps), "--checkpoint.resume", run / "checkpoints" / "step-00000002", ranks=2)

    def of_mlflow(self, store):
        client = MlflowClient(tracking_uri=store.as_uri())
        (experiment,) = [e for e in client.search_experiments() if e.name == "ddpm"]
        (run,) = client.search_runs([experiment.experiment_id])
        history = {}
        for name in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, name):
                self.assertNotIn(name, history.setdefault(metric.step, {}), "a step that is there twice")
                history[metric.step][name] = metric.value
        return run, sorted(history.items())

    def wait_for_looks(self, has_begun):
        """Waits until a follower has begun, and a second more, in which it looks several times."""
        wait_until(has_begun, TIMEOUT_S, "the tracker has the run")
        time.sleep(1)

    def wandb_folders(self, run):
        """How many offline runs track.json lists: each start adds its own."""
        state = run / "track.json"
        return len(json.loads(state.read_text())["wandb images"]["folders"]) if state.exists() else 0

    def test_wandb_holds_configuration_and_steps(self):
        run = self.trained("once")
        said = track(run, "--wandb", "images").stdout
        self.assertIn("5 steps of", said)
        self.assertIn("wandb sync", said)
        _, config, history = of_wandb(run)
        self.assertEqual(config["optimizer"]["learning_rate"], 0.002)
        self.assertEqual(config["model"]["block_out_channels"], [8, 16])
        self.assertEqual(config["run"]["directory"], str(run))
        self.assertEqual(history, expected(run))

    def test_wandb_continues_without_a_step_twice(self):
        run = self.trained("again")
        track(run, "--wandb", "images")
        first, _, _ = of_wandb(run)
        ddpm("train", self.config("again", 7))
        track(run, "--wandb", "images")
        second, config, history = of_wandb(run)  # the only offline run
        self.assertEqual(first, second)
        self.assertEqual(config["train"]["steps"], 7)
        self.assertEqual(history, expected(run))
        self.go_back(run, 8)
        track(run, "--wandb", "images")
        third, _, history = of_wandb(run)
        self.assertEqual(first, third)
        self.assertEqual([step for step, _ in history], [1, 2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(history, expected(run))

    def test_mlflow_holds_configuration_and_steps(self):
        run = self.trained("mlflow")
        store = WORK / "mlflow-mlruns"
        self.assertIn("mlflow ui", track(run, "--mlflow", store).stdout)
        found, history = self.of_mlflow(store)
        self.assertEqual(found.info.run_name, "mlflow")
        self.assertEqual(found.info.status, "FINISHED")
        self.assertEqual(found.data.params["optimizer.learning_rate"], "0.002")
        self.assertEqual(found.data.params["data.train"], str(self.images))
        self.assertEqual(history, expected(run))
        before = history
        track(run, "--mlflow", store)
        self.assertEqual(self.of_mlflow(store)[1], before)
        ddpm("train", self.config("mlflow", 7))
        track(run, "--mlflow", store)
        self.assertEqual(self.of_mlflow(store)[1], expected(run))
        self.go_back(run, 8)
        track(run, "--mlflow", store)
        found, history = self.of_mlflow(store)
        self.assertEqual([step for step, _ in history], [1, 2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(history[:7], before + history[5:7])  # what it has stays
        self.assertEqual(history[7], expected(run)[7])
        artifacts = {a.path for a in MlflowClient(tracking_uri=store.as_uri()).list_artifacts(found.info.run_id)}
        self.assertEqual(artifacts, {"config.toml"})

    def test_follows_a_run_that_goes_back_and_ends_with_it(self):
        run = self.trained("followed", 4)
        (run / "model").rename(WORK / "followed-model")  # it is not done
        shutil.rmtree(WORK / "followed-model")
        follower = subprocess.Popen(command(run, "--wandb", "images", "--follow", "--every", "0.2"), cwd=WORK,
                                    stdout=subprocess.PIPE, text=True, env={**os.environ, **ALONE})  # fmt: skip
        try:
            self.wait_for_looks(lambda: self.wandb_folders(run) == 1)
            self.assertIsNone(follower.poll())
            self.go_back(run, 6)
            said, _ = follower.communicate(timeout=TIMEOUT_S)
        finally:
            follower.kill()
        self.assertEqual(follower.returncode, 0, said)
        self.assertEqual(of_wandb(run)[2], expected(run))

    def test_a_lock_that_nobody_renews_is_none(self):
        lock = track_module.Lock(WORK)
        self.assertFalse(lock.is_held())
        (WORK / "LOCK").write_text("a run that was killed")
        self.addCleanup((WORK / "LOCK").unlink)
        lock.STALE_SECONDS = 1.0
        for renewed in range(4):
            os.utime(WORK / "LOCK", ns=(renewed, renewed))
            self.assertTrue(lock.is_held())
            time.sleep(0.4)
        time.sleep(0.8)
        self.assertFalse(lock.is_held())

    def test_a_follower_that_is_killed_leaves_nothing_twice(self):
        run = self.trained("killed", 4)
        shutil.rmtree(run / "model")
        for start, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
            follower = subprocess.Popen(command(run, "--wandb", "images", "--follow", "--every", "0.2"), cwd=WORK,
                                        stdout=subprocess.DEVNULL, env={**os.environ, **ALONE})  # fmt: skip
            self.wait_for_looks(lambda start=start: self.wandb_folders(run) == start)
            follower.send_signal(number)
            self.assertEqual(follower.wait(TIMEOUT_S), 0 if number == signal.SIGTERM else -number)
        self.assertEqual(of_wandb(run)[2], expected(run))

    def test_follows_a_run_of_an_own_model_to_its_end(self):
        run = self.trained("own", 2)
        shutil.rmtree(run / "model")  # such a run has none, and no keys of [model] and what else only ddpm train has
        text = (run / "config.toml").read_text()
        begin = text.index("[data]")
        (run / "config.toml").write_text(text[:begin] + "[train]\nsteps = 3\n\n" + text[text.index("[optimizer]") :])
        (manifest,) = (run / "checkpoints").glob("step-00000002/MANIFEST.json")
        store = WORK / "own-mlruns"
        follower = subprocess.Popen(command(run, "--mlflow", store, "--follow", "--every", "0.2"), cwd=WORK,
                                    stdout=subprocess.PIPE, text=True, env={**os.environ, **ALONE})  # fmt: skip
        try:
            self.wait_for_looks(lambda: any(len(file.read_text().splitlines()) == 2 for file in store.glob("*/*/metrics/loss")))
            self.assertIsNone(follower.poll(), "step 2 of 3 is not the end")
            said = json.loads(manifest.read_text())
            said["state"]["ended"] = True
            (run / "new").write_text(json.dumps(said))
            (run / "new").rename(manifest)
            follower.communicate(timeout=TIMEOUT_S)
        finally:
            follower.kill()
        self.assertEqual(follower.returncode, 0)
        self.assertEqual(self.of_mlflow(store)[0].info.status, "FINISHED")

    def test_a_line_that_is_being_written_waits(self):
        run = self.trained("torn", 2)
        whole = (run / "metrics.jsonl").read_bytes()
        (run / "metrics.jsonl").write_bytes(whole + b'{"step":3,"loss":0.')
        store = WORK / "torn-mlruns"
        track(run, "--mlflow", store)
        self.assertEqual([step for step, _ in self.of_mlflow(store)[1]], [1, 2])

    def test_what_cannot_be_done(self):
        run = self.trained("wrong", 1)
        self.assertIn("config.toml: is not there", track(WORK / "absent", "--wandb", "p", code=4).stderr)
        self.assertIn("--every 0", track(run, "--wandb", "p", "--every", "0", code=2).stderr)
        self.assertIn("required", track(run, code=2).stderr)
        config = (run / "config.toml").read_bytes()
        (run / "config.toml").write_text("# A configuration.\nsomething else\n")
        self.assertIn("config.toml: line 2 is 'something else'; wanted:", track(run, "--wandb", "p", code=4).stderr)
        (run / "config.toml").write_bytes(config)
        (run / "track.json").write_text("{")
        self.assertIn("track.json", track(run, "--wandb", "p", code=4).stderr)
        (run / "track.json").unlink()
        track(run, "--mlflow", WORK / "wrong-mlruns")
        shutil.rmtree(WORK / "wrong-mlruns")
        said = track(run, "--mlflow", WORK / "wrong-mlruns", code=4).stderr
        self.assertIn("a new run begins", said)
        self.assertEqual(len(said.strip().splitlines()), 1, said)
        bare = subprocess.run([sys.executable, "-I", "-S", SOURCE / "jobs" / "track.py", run, "--wandb", "p"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
        self.assertEqual(bare.returncode, 2)
        self.assertIn("pip install wandb", bare.stderr)


if __name__ == "__main__":
    unittest.main()
