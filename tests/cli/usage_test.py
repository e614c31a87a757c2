"""A command line that is refused names the word, the nearest known one and the help that says more; several configuration
files overlay each other."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


class Usage(unittest.TestCase):
    def refused(self, *arguments, ranks=1):
        process = ddpm(*arguments, ranks=ranks, check=False)
        self.assertEqual(process.returncode, 2, process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error: ")]
        self.assertEqual(len(errors), 1, process.stderr)
        return errors[0].removeprefix("ddpm: error: ")

    def test_subcommands(self):
        for arguments, said in {
            ("trian", "x.toml"): "unknown command 'trian'; did you mean train? Try ddpm --help",
            ("data", "craete", "x"): "unknown command 'craete'; did you mean create? Try ddpm data --help",
            ("checkpoint", "lsit", "x"): "unknown command 'lsit'; did you mean list? Try ddpm checkpoint --help",
            ("config", "shwo"): "unknown command 'shwo'; did you mean show? Try ddpm config --help",
            ("qwertyuiop",): "unknown command 'qwertyuiop'; try ddpm --help",
        }.items():
            self.assertEqual(self.refused(*arguments), said)
        self.assertRegex(self.refused(), "subcommand is required; try ddpm --help")
        self.assertRegex(self.refused("data"), "subcommand is required; try ddpm data --help")

    def test_options(self):
        for arguments, said in {
            ("--verison",): "unknown option --verison; did you mean --version? Try ddpm --help",
            ("data", "create", "x", "--sise", "64", "--output", "y"):
                "unknown option --sise; did you mean --size? Try ddpm data create --help",
            ("data", "create", "x", "--ouput", "y"):
                "unknown option --ouput; did you mean --output? Try ddpm data create --help",
            ("checkpoint", "list", "x", "--jsn"): "unknown option --jsn; did you mean --json? Try ddpm checkpoint list --help",
            ("sample", "--model=x", "--outptu=y"): "unknown option --outptu; did you mean --output? Try ddpm sample --help",
            ("train", "x.toml", "--dry-rum"): "unknown option --dry-rum; did you mean --dry-run? Try ddpm train --help",
            ("train", "x.toml", "--learning_rate", "1"):
                "unknown option --learning_rate; did you mean --optimizer.learning_rate? Try ddpm train --help",
            ("env", "-x"): "unknown option -x; try ddpm env --help",
            ("checkpoint", "list", "x", "y"): "unexpected argument 'y'; try ddpm checkpoint list --help",
        }.items():  # fmt: skip
            self.assertEqual(self.refused(*arguments), said)
        self.assertRegex(self.refused("data", "create", "x"), "--output is required; try ddpm data create --help")
        self.assertRegex(self.refused("doctor", "--timeout", "x"), "--timeout.*; try ddpm doctor --help")
        self.assertRegex(self.refused("train"), "CONFIG.*required; try ddpm train --help")

    def test_a_word_that_is_no_choice_is_refused_with_the_choices(self):
        for option, choices in {
            "--crop": "center, random or none",
            "--format": "auto, folder, list, archive, idx, cifar10 or cifar100",
        }.items():
            self.assertEqual(self.refused("data", "create", "x", "--output", "y", option, "all"),
                             f"{option} all: unknown, wanted {choices}")  # fmt: skip
        for option, choices in {"--device": "auto,cpu,cuda", "--timestep-spacing": "leading,linspace,trailing"}.items():
            self.assertEqual(self.refused("sample", "--model", "x", "--output", "y", option, "all"),
                             f"{option}: all not in {{{choices}}}; try ddpm sample --help")  # fmt: skip

    def test_one_line_whatever_the_word(self):
        self.assertEqual(self.refused("tra\nin"), "unknown command 'tra\\nin'; did you mean train? Try ddpm --help")

    def test_ranks_refuse_together(self):
        self.assertRegex(self.refused("trian", ranks=2), "did you mean train")


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares", 16)
        cls.site = WORK / "site.toml"
        cls.site.write_text("[run]\ndevice = \"cpu\"\nseed = 3\n[train]\nepochs = 2.0\n[optimizer]\neps = 1e-6\n")
        cls.own = write_config(WORK / "own.toml", WORK / "run", cls.dataset, run={"seed": 5}, train={"steps": 2},
                               lr_schedule={"warmup_steps": None, "warmup_fraction": 0.5})  # fmt: skip

    def test_later_files_win_and_the_command_line_last(self):
        shown = ddpm("config", "show", self.site, self.own, "--run.seed", 7, "--batch.global_size=4").stdout
        for line in ("seed = 7", "eps = 1e-06", "steps = 2", "# epochs = (unset)", "global_size = 4", "warmup_fraction = 0.5"):
            self.assertIn(f"\n{line}\n", shown)
        self.assertIn("\nseed = 3\n", ddpm("config", "show", self.own, self.site, "--train.steps", 1).stdout)
        self.assertIn("are valid", ddpm("config", "validate", self.site, self.own).stderr)

    def test_pairs_and_files_in_any_order(self):
        shown = ddpm("config", "show", "--run.seed", 7, self.site, "--optimizer.eps", "1e-5", self.own).stdout
        self.assertIn("\nseed = 7\n", shown)
        self.assertIn("\neps = 1e-05\n", shown)

    def test_errors_name_the_file_of_the_value(self):
        bad = WORK / "bad.toml"
        for text, said in {
            "[run]\nseed = -1\n": "run.seed = -1 in " + str(bad) + ":2; wanted: a number at least 0",
            "[run]\nsede = 1\n": "unknown key run.sede in " + str(bad) + ":2; did you mean run.seed?",
            "[run\n": str(bad) + ":1:5: ",
        }.items():
            bad.write_text(text)
            for files in ((bad, self.own), (self.own, bad), (self.site, bad, self.own)):
                process = ddpm("config", "validate", *files, check=False)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertTrue(process.stderr.startswith("ddpm: error: " + said), process.stderr)
                self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
        process = ddpm("config", "validate", self.own, WORK / "nowhere.toml", check=False)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("nowhere.toml", process.stderr)

    def test_what_no_number_of_ranks_can_run_is_not_valid(self):
        for keys, said in {
            ("--run.reproducible", "true"): "run.threads_per_rank = 0",
            ("--run.reproducible", "true", "--parallel.zero_stage", 2, "--run.threads_per_rank", 1): "parallel.zero_stage = 2",
            ("--parallel.offload", "parameters"): "parallel.zero_stage = 0",
        }.items():
            process = ddpm("config", "validate", self.own, *keys, check=False)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertIn(said, process.stderr)

    def test_a_configuration_may_be_keys_alone(self):
        keys = ("--run.directory", WORK / "never", "--data.train", self.dataset, "--train.steps", 1,
                "--batch.global_size", 4, "--batch.micro_size", 2,
                "--model.block_out_channels", "[8]", "--model.down_block_types", '["DownBlock2D"]',
                "--model.up_block_types", '["UpBlock2D"]', "--model.norm_num_groups", 4)  # fmt: skip
        self.assertIn("images/s", ddpm("bench", "io", *keys).stdout)
        self.assertIn("per step", ddpm("bench", "step", *keys, "--steps", 1, "--warm-up", 0).stdout)

    def test_names_that_a_dataset_does_not_list_are_refused(self):
        for key, listed in (("images", '"/images"'), ("labels", "no field of that role")):
            process = ddpm("bench", "io", self.own, f"--data.{key}", "/foo", check=False)
            self.assertEqual(process.returncode, 3, process.stderr)
            self.assertIn(f'data.{key} = "/foo", but dataset.json lists {listed}', process.stderr)

    def test_every_command_with_a_configuration_takes_several(self):
        self.assertIn("image", ddpm("plan", self.site, self.own, "--nodes", 1, "--gpus-per-node", 1).stdout)
        self.assertIn("per step", ddpm("bench", "step", self.site, self.own, "--steps", 1, "--warm-up", 0).stdout)
        self.assertIn("Who owns what", ddpm("train", self.site, self.own, "--dry-run").stdout)
        ddpm("train", self.site, self.own)
        self.assertIn("warmup_fraction = 0.5", (WORK / "run" / "config.toml").read_text())
        # The run is resumed: a key that is unset is not taken for its default.
        self.assertIn("nothing to do", ddpm("train", self.site, self.own).stderr)
        process = ddpm("train", self.site, self.own, "--lr_schedule.warmup_fraction", 0.25, check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn("lr_schedule.warmup_fraction = 0.5, yours is 0.25", process.stderr)
        rates = [line for line in (WORK / "run" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(rates), 2)

    def test_two_of_a_kind_in_one_file_are_refused(self):
        for pair in ("warmup_steps", "warmup_fraction"):
            process = ddpm("config", "validate", self.own, "--lr_schedule.warmup_steps=1", "--lr_schedule.warmup_fraction=0.1",
                           check=False)  # fmt: skip
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertIn(pair, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
