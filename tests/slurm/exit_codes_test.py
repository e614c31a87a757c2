"""The exit codes of docs/running.md arrive through srun, from two nodes and from one, with one line of error."""

import re
import shutil
import sys
import unittest

from cluster_case import WORK, ClusterCase
from ddpm_run import DDPM, files_below, metrics
from launcher import FLAGS, SRUN_MPI

TWO_NODES = ("--nodes=2", "--ntasks=2", f"--mpi={SRUN_MPI}")
LATE_RANK = sys.argv.pop()  # see late_rank.cpp
ONE_NODE = ("--nodes=1", "--ntasks=2", f"--mpi={SRUN_MPI}")


class ExitCodes(ClusterCase):
    def train(self, launch, config, *overrides):
        return self.cluster.srun(*launch, DDPM, "train", config, *overrides)

    def assert_refused(self, process, code, *words):
        """All tasks returned `code`, and one of them said why, in one line."""
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertEqual(process.stdout, "")
        said_by_srun = re.compile(rf"srun: error: node\d: tasks? [-,\d]+: Exited with exit code {code}")
        lines = [line for line in process.stderr.splitlines() if not said_by_srun.fullmatch(line)]
        self.assertEqual(len(lines), 1, process.stderr)
        for word in ("ddpm: error: ", *words):
            self.assertIn(word, lines[0])

    def test_0_from_a_training_and_from_its_second_start(self):
        for name, launch in (("two-nodes", TWO_NODES), ("one-node", ONE_NODE)):
            config = self.config(name, train={"steps": 3})
            process = self.train(launch, config)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn("2 ranks", process.stderr)
            self.assertEqual([line["step"] for line in metrics(WORK / name)], [1, 2, 3])

            before = {path: path.stat().st_mtime_ns for path in (WORK / name).rglob("*")}
            process = self.train(launch, config)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn("nothing to do", process.stderr)
            self.assertEqual(before, {path: path.stat().st_mtime_ns for path in (WORK / name).rglob("*")})

    def test_0_from_ranks_that_end_at_different_times(self):
        # MPI_Finalize under Slurm's PMIx plugin does not wait for the ranks of other nodes.
        process = self.cluster.srun("--nodes=2", "--ntasks-per-node=2", f"--mpi={SRUN_MPI}", LATE_RANK, 3)
        self.assertEqual((process.returncode, process.stdout, process.stderr), (0, "", ""))

    def test_0_from_ranks_that_compare_their_collectives(self):
        counted = WORK / "counted"
        counted.unlink(missing_ok=True)
        process = self.cluster.srun(*TWO_NODES, LATE_RANK, 1, env={"DDPM_COLLECTIVES_COUNTED": str(counted)})
        self.assertEqual(process.returncode, 0, process.stderr)
        numbers = [int(line) for line in counted.read_text().splitlines()] if counted.exists() else []
        self.assertEqual([number > 0 for number in numbers], [True, True] if "LD_PRELOAD=" in " ".join(FLAGS) else [])

    def test_2_from_an_unknown_key_and_from_bad_usage(self):
        config = self.config("unknown-key", optimizer={"learning_rat": 1e-3})
        self.assert_refused(self.train(TWO_NODES, config), 2, "learning_rat", "learning_rate")
        self.assertFalse((WORK / "unknown-key").exists())
        self.assert_refused(self.cluster.srun(*ONE_NODE, DDPM, "train"), 2, "CONFIG")

    def test_3_from_a_missing_dataset(self):
        config = self.config("no-dataset", dataset=WORK / "nowhere")
        self.assert_refused(self.train(TWO_NODES, config), 3, str(WORK / "nowhere"))
        self.assertFalse((WORK / "no-dataset").exists())

    def test_3_from_one_rank_alone(self):
        # Only the rank that read the damaged image knows. It ends the other, which then has no code of its own.
        damaged = WORK / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(self.dataset, damaged)
        shard = sorted(damaged.glob("shard-*.h5"))[0]
        content = bytearray(shard.read_bytes())
        content[-5] ^= 1
        shard.write_bytes(content)
        for launch in (TWO_NODES, ONE_NODE):
            process = self.train(launch, self.config("damaged-image", dataset=damaged, train={"steps": 20}))
            self.assertEqual(process.returncode, 3, process.stderr)
            errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error: ")]
            self.assertEqual(len(errors), 1, process.stderr)
            self.assertIn(shard.name, errors[0])

    def test_4_from_another_runs_folder(self):
        config = self.config("mine", train={"steps": 1})
        self.assertEqual(self.train(ONE_NODE, config).returncode, 0)
        before = files_below(WORK / "mine")
        process = self.train(TWO_NODES, config, "--optimizer.learning_rate", "0.5")
        self.assert_refused(process, 4, str(WORK / "mine"), "optimizer.learning_rate", "0.5")
        self.assertEqual(files_below(WORK / "mine"), before)

    def test_5_from_single_ranks(self):
        # Without PMIx, srun starts two programs that would each be rank 0 of 1.
        config = self.config("single-ranks")
        for launch in (("--mpi=none", "-n", 2), ("--mpi=none", "-n", 2, "--nodes=2"), ("-n", 2)):
            self.assert_refused(self.train(launch, config), 5, f"srun --mpi={SRUN_MPI}")
            self.assertFalse((WORK / "single-ranks").exists())

    def test_0_from_a_command_of_one_process_in_a_shell_that_srun_started(self):
        config = self.config("in-a-shell")
        for tasks in (1, 2):
            process = self.cluster.srun("--mpi=none", "-n", tasks, "sh", "-c", f"{DDPM} config validate {config}")
            self.assertEqual(process.returncode, 0, process.stderr)

    def test_a_shell_that_srun_started_starts_ranks_as_the_refusal_says(self):
        command = f"srun --overlap --mpi={SRUN_MPI} -n 1 {LATE_RANK} 0"
        process = self.cluster.srun("--mpi=none", "-n", 1, "sh", "-c", f"{LATE_RANK} 0; {command} && {command}")
        self.assertEqual(process.returncode, 0, process.stderr)
        if SRUN_MPI == "pmix":
            self.assertIn("srun --overlap --mpi=pmix", process.stderr)

    def test_5_from_a_batch_script_that_forgot_srun(self):
        config = self.config("bare")
        output = WORK / "bare.out"
        output.unlink(missing_ok=True)
        job = self.cluster.sbatch("--ntasks=2", f"--output={output}", f"--wrap={DDPM} train {config}")
        ended = self.cluster.wait_for_job(job)
        self.assertEqual(ended["ExitCode"], "5:0", output.read_text())
        self.assertIn("SLURM_NTASKS", output.read_text())
        self.assertEqual(len(output.read_text().splitlines()), 1, output.read_text())
        self.assertFalse((WORK / "bare").exists())

    def test_6_from_an_exhausted_loss_scale(self):
        precision = {"mixed_precision": "fp16", "initial_loss_scale": 2.0**60, "min_loss_scale": 2.0**59}
        process = self.train(TWO_NODES, self.config("exhausted", precision=precision))
        self.assertEqual(process.returncode, 6, process.stderr)
        self.assertEqual(process.stderr.count("ddpm: error: "), 1, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
