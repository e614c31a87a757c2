"""`ddpm report`: what its page says about runs that were really made, and that it is one file that asks for nothing."""

import base64
import html.parser
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
EVIL = "<script>alert(1)</script>"


class Page(html.parser.HTMLParser):
    """The elements of a page, its text, and whatever would leave it."""

    VOID = {"meta", "img", "br", "hr", "input", "link", "col"}

    def __init__(self, text):
        super().__init__()
        self.open, self.scripts, self.links, self.images, self.words = [], 0, [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"elements that are not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        for name, value in attributes:
            if name in ("src", "href", "action", "data", "poster", "srcset"):
                (self.images if tag == "img" else self.links).append(value)
            assert not name.startswith("on"), f"{tag} has {name}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID and not (tag in ("path", "circle", "line")):
            assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.held_out = make_dataset(WORK / "held-out", 12)
        for name, rate in (("first", 2e-3), ("second", 1e-3)):
            config = write_config(
                WORK / f"{name}.toml", WORK / name, cls.dataset, train={"steps": 12}, data={"validation": str(cls.held_out)},
                validation={"every_steps": 4}, checkpoint={"every_steps": 6}, optimizer={"learning_rate": rate},
                sample={"every_steps": 6, "count": 4, "scheduler": "ddim", "steps": 2},
            )
            ddpm("train", config, ranks=2 if name == "first" else 1)

    def copy(self, name):
        run = WORK / f"{self.id().rsplit('.', 1)[-1]}-{name}"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(WORK / "first", run)
        return run

    def report(self, *runs, options=(), code=0):
        output = WORK / f"{self.id().rsplit('.', 1)[-1]}.html"
        finished = ddpm("report", *runs, "--output", output, *options, check=False)
        self.assertEqual(finished.returncode, code, finished.stderr)
        return finished, output

    def test_a_page_is_whole_and_asks_for_nothing(self):
        said, output = self.report(WORK / "first", WORK / "second", options=("--carbon", 300))
        text = output.read_text()
        page = Page(text)
        self.assertEqual({link for link in page.links if not link.startswith("#")}, {"data:,"})  # the icon: none
        self.assertTrue(all(image.startswith("data:image/png;base64,") for image in page.images), page.images)
        pictures = [base64.b64decode(image.split(",", 1)[1]) for image in page.images]
        for step in (6, 12):
            self.assertIn((WORK / f"first/samples/step-{step:08}.png").read_bytes(), pictures)
        self.assertNotRegex(re.sub(r"<script.*?</script>", "", text, flags=re.S), r"https?://")
        self.assertNotRegex(text, r"@import|url\((?!data:)")
        for phrase in ("learning_rate", "validation loss", "core-hours", "for a proposal"):
            self.assertIn(phrase, page.text.lower())
        self.assertEqual(len(said.stdout.splitlines()), 2)  # a line for each run: whether to stop it
        self.assertRegex(text, r'"name": ?"second"')  # legends leave out the folders that both runs are in

    def test_a_run_in_the_current_folder_has_its_name(self):
        os.chdir(WORK / "first")
        self.addCleanup(os.chdir, WORK)
        _, output = self.report(".")
        self.assertIn("<title>Training report: first</title>", output.read_text())

    def test_figures_are_those_of_the_run(self):
        finished = ddpm("report", WORK / "first", WORK / "second", "--json")
        figures = json.loads(finished.stdout)
        first, second = figures["runs"]
        self.assertEqual((first["step"], first["total_steps"], first["phase"]), (12, 12, "finished"))
        self.assertIn("optimizer.learning_rate", figures["differences"])
        self.assertNotIn("batch.global_size", figures["differences"])
        lines = metrics(WORK / "first")
        losses = [line["validation_loss"] for line in lines if line.get("validation_loss") is not None]
        self.assertEqual((first["validation"]["last"], first["validation"]["best"]), (losses[-1], min(losses)))
        folders = sorted((WORK / "first/checkpoints").iterdir(), reverse=True)
        self.assertEqual([one["step"] for one in first["checkpoints"]], [int(folder.name.removeprefix("step-")) for folder in folders])
        self.assertEqual({one["problem"] for one in first["checkpoints"]}, {""})
        usage = [json.loads(line) for line in (WORK / "first/usage.jsonl").read_text().splitlines()]
        self.assertEqual([line["event"] for line in usage], ["begin", *["checkpoint"] * (len(usage) - 2), "end"])
        self.assertGreaterEqual(len(usage) - 2, len(folders))
        self.assertEqual((usage[-1]["ranks"], usage[-1]["from"], usage[-1]["to"]), (2, 0, 12))
        self.assertAlmostEqual(first["use"]["core_seconds"], usage[-1]["core_seconds"])
        self.assertEqual(second["use"]["starts"], 1)

    def test_a_run_has_one_colour_in_all_charts(self):
        config = write_config(WORK / "plain.toml", WORK / "plain", self.dataset, train={"steps": 2})
        if not (WORK / "plain").exists():
            ddpm("train", config)
        runs = [WORK / name for name in ("first", "plain", "first", "second")]  # what is named twice is there once
        charts = json.loads(ddpm("report", *runs, "--json").stdout)["charts"]
        places = {chart["title"]: {one["name"]: one["place"] for one in chart["series"]} for chart in charts}
        self.assertEqual(places["Training loss"], {"first": 0, "plain": 1, "second": 2})
        self.assertEqual(places["Validation loss"], {"first": 0, "second": 2})

    def test_names_and_values_cannot_become_markup(self):
        run = self.copy(EVIL.replace("/", "%"))
        config = run / "config.toml"
        config.write_text(config.read_text().replace(str(self.dataset), f"{EVIL}</title>&quot;"))
        (run / "evaluation").mkdir()
        (run / "evaluation" / "evil.json").write_text(json.dumps({
            "format": 1, "kind": "samples", "data": EVIL, "samples": [EVIL], "count": 3, "comparisons": [],
            "metrics": [{"name": EVIL, "variable": EVIL, "level": EVIL, "value": 1.5, "low": 1.0, "high": 2.0, "standard_error": 0.25}]}))
        _, output = self.report(run)
        page = Page(output.read_text())
        _, plain = self.report(WORK / "first")
        self.assertEqual(page.scripts, Page(plain.read_text()).scripts)
        self.assertIn(EVIL, page.text)

    def test_a_run_that_is_being_written_is_read(self):
        run = self.copy("run")
        shutil.rmtree(run / "model")
        shutil.rmtree(run / "checkpoints" / "step-00000012")
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[:9]) + lines[9][:40])
        account = (run / "usage.jsonl").read_text().splitlines(keepends=True)
        (run / "usage.jsonl").write_text("".join(line for line in account if json.loads(line)["to"] <= 9))
        _, output = self.report(run)
        self.assertIn("9", Page(output.read_text()).text)
        figures = json.loads(ddpm("report", run, "--json").stdout)
        self.assertEqual(figures["runs"][0]["step"], 9)

    def test_a_run_that_failed_says_by_what(self):
        run = WORK / "failed"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / "failed.toml", run, self.dataset, optimizer={"learning_rate": 1e30, "max_grad_norm": 0})
        self.assertEqual(ddpm("train", config, ranks=2, check=False).returncode, 6)
        last = json.loads((run / "usage.jsonl").read_text().splitlines()[-1])
        self.assertEqual(last["event"], "end")
        self.assertIn("not finite", last["error"])
        figures = json.loads(ddpm("report", run, "--json").stdout)
        counsel = figures["runs"][0]["counsel"]
        self.assertEqual((counsel["about"], counsel["tone"]), ("It failed", "bad"))
        self.assertIn(last["error"], counsel["text"])
        _, output = self.report(run)
        text = Page(output.read_text()).text
        self.assertIn("not finite", text)
        self.assertIn(f"failed: {last['error'][:40]}", text)
        self.assertNotIn("ended in order", text)

    def test_validations_of_another_set_are_told_apart(self):
        run = WORK / "other-set"
        shutil.rmtree(run, ignore_errors=True)
        for steps, images in ((6, 4), (12, 8)):
            config = write_config(
                WORK / "other-set.toml", run, self.dataset, train={"steps": steps}, data={"validation": str(self.held_out)},
                validation={"every_steps": 2, "images": images}, checkpoint={"every_steps": 6},
            )
            ddpm("train", config)
        usage = [json.loads(line) for line in (run / "usage.jsonl").read_text().splitlines()]
        self.assertEqual([line["validation"].split(" of ")[0] for line in (usage[0], usage[-1])], ["4 images", "8 images"])
        self.assertEqual(usage[0]["images"], usage[-1]["images"])
        figures = json.loads(ddpm("report", run, "--json").stdout)["runs"][0]
        self.assertEqual((figures["other_validation_until"], figures["other_images_until"]), (6, 0))
        losses = {line["step"]: line["validation_loss"] for line in metrics(run) if line.get("validation_loss") is not None and line["step"] > 6}
        self.assertEqual(figures["validation"]["count"], len(losses))
        self.assertEqual(figures["validation"]["best"], min(losses.values()))

    def test_a_run_whose_process_was_killed_does_not_train(self):
        run = self.copy("run")
        shutil.rmtree(run / "model")
        account = (run / "usage.jsonl").read_text().splitlines(keepends=True)
        (run / "usage.jsonl").write_text("".join(account[:-1]))
        process = subprocess.Popen(["sleep", "600"])
        table = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip() + "/" + os.readlink("/proc/self/ns/pid")
        ticks = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        owner = {"host": socket.gethostname(), "pid": process.pid, "process_start": f"{table}/{ticks}"}
        (run / "LOCK").write_text(json.dumps(owner, indent=2) + "\n")
        figures = json.loads(ddpm("report", run, "--json").stdout)["runs"][0]
        self.assertEqual(figures["phase"], "training")
        self.assertGreater(figures["use"]["seconds"], json.loads(account[-2])["seconds"])
        process.kill()
        process.wait()
        figures = json.loads(ddpm("report", run, "--json").stdout)["runs"][0]
        self.assertEqual(figures["phase"], "interrupted")
        self.assertIn("The process that holds its lock has ended", figures["counsel"]["text"])
        self.assertEqual(figures["use"]["seconds"], json.loads(account[-2])["seconds"])

    def test_evaluations_say_of_which_step_they_are(self):
        run = self.copy("run")
        (run / "evaluation").mkdir()
        settings = {"levels": 1, "weights": "step 6, ema:0 weights"}
        for name, kind, more in (("loss", "loss", {"settings": settings}), ("samples", "samples", {"settings": {}})):
            result = {"format": 1, "kind": kind, "data": "d", "samples": ["s"], "count": 3, "metrics": [{"name": "m", "value": 1.5}]}
            (run / "evaluation" / f"{name}.json").write_text(json.dumps(result | more))
        os.utime(run / "evaluation" / "samples.json", (1e9, 1e9))
        _, output = self.report(run)
        text = Page(output.read_text()).text
        self.assertIn("Weights: step 6, ema:0 weights. The run has gone on to step 12 since.", text)
        self.assertIn("does not say of which step the samples are. It is older than the checkpoint of step 12", text)
        loss, samples = json.loads(ddpm("report", run, "--json").stdout)["runs"][0]["evaluations"]
        self.assertEqual((loss["step"], samples["step"]), (6, None))

    def test_logs_of_a_later_version_are_named(self):
        run = self.copy("run")
        text = (run / "usage.jsonl").read_text()
        (run / "usage.jsonl").write_text(text.replace('"format":1', '"format":2'))
        (run / "metrics.jsonl").write_text("{}\n")
        said, output = self.report(run, code=4)
        self.assertIn("format 2, this program reads 1: a newer ddpm wrote it", said.stderr)
        text = Page(output.read_text()).text
        self.assertIn("Step 12 of 12", text)
        self.assertNotIn("No step of the last ones was skipped", text)

    def test_a_page_is_not_written_beside_nothing(self):
        finished = ddpm("report", WORK / "first", "--output", WORK / "nowhere" / "page.html", check=False)
        self.assertEqual(finished.returncode, 4, finished.stderr)
        self.assertIn(f"the folder {WORK / 'nowhere'} does not exist", finished.stderr)

    def test_what_is_missing_is_said_and_what_is_damaged_is_named(self):
        run = self.copy("run")
        shutil.rmtree(run / "samples")
        (run / "usage.jsonl").unlink()
        figures = json.loads(ddpm("report", run, "--json").stdout)
        self.assertTrue(figures["runs"][0]["missing"])
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        lines[3] = "{not JSON}\n"
        (run / "metrics.jsonl").write_text("".join(lines))
        said, output = self.report(run, code=4)
        self.assertRegex(said.stderr, r"metrics\.jsonl.*4")
        self.assertTrue(output.exists())

    def test_other_files_and_folders_are_refused(self):
        output = WORK / f"{self.id().rsplit('.', 1)[-1]}.html"
        output.write_text("<html>mine</html>")
        said, _ = self.report(WORK / "first", code=4)
        self.assertIn("is not a report", said.stderr)
        self.assertEqual(output.read_text(), "<html>mine</html>")
        for folder in (WORK / "nowhere", WORK / "squares"):
            finished = ddpm("report", folder, "--json", check=False)
            self.assertEqual(finished.returncode, 4, finished.stderr)
            self.assertEqual(len(finished.stderr.strip().splitlines()), 1)
        self.assertEqual(ddpm("report", WORK / "first", check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
