"""NetCDF files and The Well's serve the whole program where they lie: inspect, verify, plan, dry run, training, resume."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import netCDF4
import numpy as np
from the_well.utils.dummy_data import write_dummy_data

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
TIMES, SIZE, LEAD = 12, 16, 3


def write_year(path, seed):
    """Two packed variables of a year, some of whose values are missing in `sst`, and an orography."""
    numbers = np.random.default_rng(seed)
    with netCDF4.Dataset(path, "w") as file:
        for axis, size in (("time", None), ("lat", SIZE), ("lon", SIZE)):
            file.createDimension(axis, size)
            file.createVariable(axis, "f8", (axis,))[:] = np.arange(size or TIMES)
        for name, scale in (("t2m", 0.002), ("u10", 0.001)):
            variable = file.createVariable(name, "i2", ("time", "lat", "lon"), zlib=True, shuffle=True)
            variable.scale_factor, variable.add_offset = scale, 1.5
            if name == "u10":
                variable.units = "m/s"
            variable[:] = 1.5 + 10 * scale * numbers.standard_normal((TIMES, SIZE, SIZE)).cumsum(axis=2)
        sst = file.createVariable("sst", "f4", ("time", "lat", "lon"), fill_value=-999.0)
        values = numbers.standard_normal((TIMES, SIZE, SIZE)).astype(np.float32)
        values[:, :, :4] = -999.0
        sst[:] = values
        file.createVariable("season", "i1", ("time",))[:] = np.arange(TIMES) % 4
        file.createVariable("orography", "f4", ("lat", "lon"))[:] = np.outer(np.arange(SIZE), np.ones(SIZE))
    return path


class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.years = [write_year(WORK / f"era5_{year}.nc", year) for year in (2020, 2021)]
        cls.pattern = str(WORK / "era5_*.nc")
        years = []
        for path in cls.years:
            with netCDF4.Dataset(path) as file:
                years.append(np.stack([file[name][:] for name in ("t2m", "u10")], -1).astype(np.float32))
        cls.values = np.concatenate(years)

    def config(self, name, train, model, **data):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        return write_config(WORK / f"{name}.toml", run, train, data=data, model=model), run

    def test_a_dataset_is_made_of_them(self):
        made = WORK / "made"
        shutil.rmtree(made, ignore_errors=True)
        create = ("data", "create", self.pattern, "--output", made, "--variables", "t2m,u10", "--static", "orography", "--shards", 3)
        said = json.loads(ddpm(*create, "--lead", LEAD, "--transform", "t2m=standardize", "--json", ranks=2).stdout)
        listed = json.loads((made / "dataset.json").read_text())
        self.assertEqual((said["images"], listed["count"]), (2 * (TIMES - LEAD), 2 * (TIMES - LEAD)))
        images, conditions = (
            np.concatenate([h5py.File(made / shard["file"])[name][:] for shard in listed["shards"]]) for name in ("images", "condition")
        )
        first, second = self.values[:TIMES], self.values[TIMES:]
        np.testing.assert_array_equal(images, np.concatenate([first[LEAD:], second[LEAD:]]))
        np.testing.assert_array_equal(conditions, np.concatenate([first[:-LEAD], second[:-LEAD]]))
        names = {field["role"]: [variable["name"] for variable in field["variables"]] for field in listed["fields"]}
        self.assertEqual(names, {"image": ["t2m", "u10"], "condition": ["t2m", "u10"], "static": ["orography"]})
        transform = listed["fields"][0]["variables"][0]["transform"]
        np.testing.assert_allclose(transform["std"], images[..., 0].std(dtype=np.float64), rtol=1e-9)
        for option in (("--variables", "t2m"), ("--variables", "t2m", "--lead", 1)):
            ignored = ddpm("data", "inspect", made, *option, check=False)
            self.assertEqual(ignored.returncode, 3)
            self.assertIn("is for foreign files; this is a dataset", ignored.stderr)
        refused = ddpm("data", "create", self.pattern, "--output", WORK / "no", "--axes", "lat,lon", check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--axes is set", refused.stderr)
        pictures = ddpm("data", "create", WORK, "--output", WORK / "no", "--variables", "t2m", check=False)
        self.assertEqual(pictures.returncode, 3)
        self.assertEqual(len(pictures.stderr.strip().split("\n")), 1)

    def test_a_variable_gives_the_classes(self):
        """In a dataset and in training; what it drew for a further file has that file's classes."""
        seasons = np.tile(np.arange(TIMES) % 4, 2)
        made = WORK / "classes"
        shutil.rmtree(made, ignore_errors=True)
        ddpm("data", "create", self.pattern, "--output", made, "--variables", "t2m", "--labels", "season", "--shards", 2, ranks=2)
        listed = json.loads((made / "dataset.json").read_text())
        labels = np.concatenate([h5py.File(made / shard["file"])["labels"][:] for shard in listed["shards"]])
        np.testing.assert_array_equal(labels, seasons)
        shown = json.loads(ddpm("data", "inspect", self.pattern, "--variables", "t2m", "--labels", "season", "--json").stdout)
        self.assertEqual([c["count"] for c in shown["classes"]], [6, 6, 6, 6])
        model = {"in_channels": 2, "out_channels": 1, "num_class_embeds": 4}
        config, run = self.config("seasons", self.pattern, model, variables="t2m", condition="u10", labels="season")
        ddpm("train", config, "--train.steps", "2")
        sample = ("sample", "--model", run, "--condition", self.years[0], "--steps", 2, "--scheduler", "ddim", "--threads", 1)
        for options, wanted in (((), seasons[:TIMES]), (("--class-label", 2), np.full(TIMES, 2))):
            drawn = WORK / "drawn"
            shutil.rmtree(drawn, ignore_errors=True)
            ddpm(*sample, *options, "--format", "dataset", "--output", drawn)
            shards = sorted(drawn.glob("shard-*.h5"))
            np.testing.assert_array_equal(np.concatenate([h5py.File(shard)["labels"][:] for shard in shards]), wanted)

    def test_inspect_shows_what_numpy_computes(self):
        for ranks in (1, 2):
            shown = json.loads(ddpm("data", "inspect", self.pattern, "--variables", "t2m,u10", "--json", ranks=ranks).stdout)
            self.assertEqual((shown["count"], shown["channels"], len(shown["shards"])), (2 * TIMES, 2, 2))
            for channel, seen in enumerate(shown["statistics"]):
                values = self.values[..., channel].astype(np.float64)
                np.testing.assert_allclose(
                    [seen["mean"], seen["std"], seen["min"], seen["max"]],
                    [values.mean(), values.std(), values.min(), values.max()],
                    rtol=1e-9,
                )

    def test_verify_reads_all_and_names_what_is_missing(self):
        self.assertIn("24 images, all of them readable", ddpm("data", "verify", self.pattern, "--variables", "t2m, u10").stderr
                      + ddpm("data", "verify", self.pattern, "--variables", "t2m, u10").stdout)  # fmt: skip
        process = ddpm("data", "verify", self.years[0], "--variables", "sst", check=False)
        self.assertEqual(process.returncode, 3)
        self.assertIn("or --missing mask, which leaves out", process.stderr)
        ddpm("data", "verify", self.years[0], "--variables", "sst", "--missing", "mask")
        os.mkfifo(WORK / "pipe.nc")
        self.addCleanup((WORK / "pipe.nc").unlink)
        (WORK / "old.nc").write_bytes(b"CDF\x01" + bytes(28))
        for path, words in (("pipe.nc", "a regular file is wanted"), (".", "it is a folder"), ("old.nc", "nccopy -k nc4")):
            process = ddpm("data", "adopt", WORK / path, check=False)
            self.assertEqual((process.returncode, process.stderr.count("\n")), (3, 1), process.stderr)
            self.assertIn(words, process.stderr)
        for options, code, words in (
            (("--lead", 1), 2, "--lead is set, but --variables is not"),
            (("--variables", "t2m", "--lead", 99), 3, "no two places are --lead 99 apart"),
            (("--variables", "t2m", "--axes", "lat"), 2, "--axes has 1 names"),
            (("--variables", "t2m", "--sample-axes", "lat", "--axes", "lat,lon"), 2, '--axes and --sample-axes both name "lat"'),
            (("--variables", "t2m", "--labels", "t2m"), 3, "labels are integers, these values are packed numbers"),
            (("--condition", "sst"), 2, "--condition sst: the absolute name of an array"),
            ((), 3, "--images names the array of the images, --variables those"),
        ):
            process = ddpm("data", "verify", self.years[0], *options, check=False)
            self.assertEqual((process.returncode, process.stderr.count("\n")), (code, 1), process.stderr)
            self.assertIn(words, process.stderr)
            self.assertNotIn("data.", process.stderr)

    def test_adopted_files_give_the_same_and_no_changed_byte(self):
        folder = WORK / "adopted"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        years = [shutil.copy(path, folder) for path in self.years]
        inspect = ("data", "inspect", str(folder / "*.nc"), "--variables", "t2m,u10", "--json")
        before = json.loads(ddpm(*inspect).stdout)
        for said in json.loads(ddpm("data", "adopt", *years, "--json", ranks=2).stdout)["files"]:
            names = {array["name"] for array in said["arrays"] if array["compared_on_read"]}
            self.assertLessEqual({"/t2m", "/u10", "/sst", "/orography", "/time"}, names)
        after = json.loads(ddpm(*inspect, ranks=2).stdout)
        self.assertEqual(after["statistics"], before["statistics"])
        self.assertIn("all as they were when it was adopted", ddpm("data", "verify", years[0]).stdout)
        self.assertIn("24 images, all bytes", ddpm("data", "verify", folder / "*.nc", "--variables", "t2m,u10").stdout)
        with h5py.File(years[1]) as file:
            chunk = file["u10"].id.get_chunk_info(0)
        with open(years[1], "r+b") as file:
            file.seek(chunk.byte_offset + 9)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        for command in (inspect, ("data", "verify", folder / "*.nc", "--variables", "t2m,u10")):
            process = ddpm(*command, check=False)
            errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
            self.assertEqual((process.returncode, len(errors)), (3, 1), process.stderr)
            self.assertIn(f"{years[1]}:/u10, chunk 0", errors[0])

    def test_a_forecast_is_trained_on_pairs(self):
        config, run = self.config(
            "forecast", self.pattern, {"in_channels": 5, "out_channels": 2},
            variables=["t2m", "u10"], lead=LEAD, static="orography", normalize="standardize",
        )  # fmt: skip
        shown = ddpm("train", config, "--dry-run")
        self.assertIn("Images   18 of 16 × 16 × 2", shown.stdout)
        plan = json.loads(ddpm("plan", config, "--nodes", "1", "--gpus-per-node", "2", "--json").stdout)
        self.assertGreater(plan["peak_memory_bytes"], 0)
        ddpm("train", config, "--train.steps", "2", ranks=2)
        ddpm("train", config, "--train.steps", "3")
        recorded = json.loads((run / "model" / "normalization.json").read_text())
        fields = {field["role"]: field["variables"] for field in recorded["fields"]}
        years = self.values.reshape(2, TIMES, SIZE, SIZE, 2)
        for role, values in (("image", years[:, LEAD:]), ("condition", years[:, :-LEAD])):
            for channel, variable in enumerate(fields[role]):
                self.assertEqual(variable["name"], ("t2m", "u10")[channel])
                seen = values[..., channel].astype(np.float64)
                np.testing.assert_allclose(
                    [variable["transform"]["mean"], variable["transform"]["std"]], [seen.mean(), seen.std()], rtol=1e-9
                )
        self.conditions_are_read_in_place(run)
        self.forecasts_are_held_against_the_file_they_were_drawn_from(run)
        # Another packing is another set.
        with netCDF4.Dataset(self.years[1], "a") as file:
            file["t2m"].scale_factor = 0.003
        try:
            process = ddpm("train", config, "--train.steps", "4", check=False)
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertIn("was trained on other images than", process.stderr.splitlines()[-1])
        finally:
            write_year(self.years[1], 2021)

    def test_windows_of_files_are_those_of_a_dataset(self):
        made = WORK / "whole"
        shutil.rmtree(made, ignore_errors=True)
        ddpm("data", "create", self.pattern, "--output", made, "--variables", "t2m,u10")
        model = {"in_channels": 2, "out_channels": 2, "sample_size": 8}
        weights = []
        for name, train, ranks, data in (
            ("files", self.pattern, 1, {"variables": ["t2m", "u10"]}),
            ("files2", self.pattern, 2, {"variables": ["t2m", "u10"]}),
            ("dataset", made, 1, {}),
        ):
            config, run = self.config(f"windows_{name}", train, model, patch=[8, 8], **data)
            ddpm("train", config, "--train.steps", "3", "--run.reproducible", "true", "--run.threads_per_rank", "1", ranks=ranks)
            weights.append((run / "model" / "unet" / "diffusion_pytorch_model.safetensors").read_bytes())
        self.assertEqual(weights[0], weights[1])
        self.assertEqual(weights[0], weights[2])

    def test_a_run_continues_with_a_dataset_of_its_files(self):
        made = WORK / "converted"
        shutil.rmtree(made, ignore_errors=True)
        ddpm("data", "create", self.pattern, "--output", made, "--variables", "t2m,u10")
        model = {"in_channels": 2, "out_channels": 2}
        config, run = self.config("moved", self.years[0], model, variables=["t2m", "u10"])
        ddpm("train", config, "--train.steps", "2")
        write_config(config, run, made, data={"continue_with_other": True}, model=model, train={"steps": 3})
        self.assertIn("from step 3 on images are those of", ddpm("train", config).stderr)

    def conditions_are_read_in_place(self, run):
        """A file without the forecast's own times gives the same members as a dataset with the same conditions."""
        made = WORK / "conditions"
        shutil.rmtree(made, ignore_errors=True)
        ddpm("data", "create", self.years[0], "--output", made, "--variables", "t2m,u10", "--condition", "t2m,u10", "--static", "orography")
        arrays = []
        for name, condition in (("place", self.years[0]), ("made", made)):
            output = WORK / f"members_{name}.npy"
            ddpm("sample", "--model", run / "model", "--condition", condition, "--steps", 2, "--scheduler", "ddim", "--output", output)
            arrays.append(np.load(output))
        self.assertEqual(len(arrays[0]), TIMES)
        np.testing.assert_array_equal(*arrays)
        missing = ddpm("sample", "--model", run, "--condition", WORK / "bare.nc", "--output", WORK / "no.npy", check=False)
        self.assertEqual((missing.returncode, missing.stderr.count("\n")), (3, 1), missing.stderr)

    def forecasts_are_held_against_the_file_they_were_drawn_from(self, run):
        """No time follows the last ones by the lead, so that their forecasts have no truth."""
        drawn = {}
        for name, condition in (("year", self.years[0]), ("years", self.pattern)):
            drawn[name] = WORK / f"forecast_of_{name}"
            shutil.rmtree(drawn[name], ignore_errors=True)
            ddpm("sample", "--model", run, "--condition", condition, "--members", 2, "--steps", 2, "--scheduler", "ddim",
                 "--format", "dataset", "--denormalize", "--output", drawn[name])  # fmt: skip
        read = ("--variables", "t2m,u10", "--lead", LEAD)
        outputs = [ddpm("eval", "fields", drawn["year"], "--data", self.years[0], *read, "--json", ranks=n).stdout for n in (1, 2)]
        self.assertEqual(outputs[0], outputs[1])
        result = json.loads(outputs[0])
        kept = TIMES - LEAD
        self.assertEqual((result["settings"]["conditions"], result["count"]), (kept, 2 * kept))
        (said,) = [note for note in result["notes"] if "left out" in note]
        self.assertEqual(said, f"The last {LEAD} conditions are left out: with --lead {LEAD} no image of the data follows them.")
        members = np.concatenate([h5py.File(shard)["images"][:] for shard in sorted(drawn["year"].glob("shard-*.h5"))]).astype(np.float64)
        members, truth = members[: 2 * kept].reshape(kept, 2, SIZE, SIZE, 2), self.values[LEAD:TIMES].astype(np.float64)
        for channel, name in enumerate(("t2m", "u10")):
            found = {row["name"]: row["value"] for row in result["metrics"] if row["variable"] == name and "level" not in row}
            x, y = members[..., channel], truth[..., channel]
            np.testing.assert_allclose(found["bias"], (x.mean(1) - y).mean(), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(found["rmse"], np.sqrt(np.square(x.mean(1) - y).mean()), rtol=1e-4)
        # Of two series the pairs are numbered otherwise than the times, and other samples are of another file.
        for name, data in (("years", self.pattern), ("years", self.years[0])):
            process = ddpm("eval", "fields", drawn[name], "--data", data, *read, check=False)
            self.assertEqual(process.returncode, 3, process.stdout)
            self.assertIn("its samples are of condition 23", process.stderr)

    def test_a_model_knows_the_names_of_its_variables(self):
        made, drawn = WORK / "named", WORK / "named_samples"
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(drawn, ignore_errors=True)
        ddpm("data", "create", self.pattern, "--output", made, "--variables", "u10")
        config, run = self.config("named_run", made, {"in_channels": 1, "out_channels": 1})
        ddpm("train", config, "--train.steps", "2")
        recorded = json.loads((run / "model" / "normalization.json").read_text())
        self.assertEqual(recorded["variables"], [{"name": "u10", "unit": "m/s"}])
        evaluate = ("eval", "loss", "--levels", 4, "--json")
        results = [json.loads(ddpm(*evaluate, "--model", model, "--data", made).stdout) for model in (run, run / "model")]
        self.assertEqual(results[0]["metrics"], results[1]["metrics"])
        ddpm("sample", "--model", run, "--count", 2, "--steps", 2, "--scheduler", "ddim", "--format", "dataset", "--denormalize", "--output", drawn)
        (field,) = json.loads((drawn / "dataset.json").read_text())["fields"]
        self.assertEqual([(variable["name"], variable["unit"]) for variable in field["variables"]], [("u10", "m/s")])
        # Values of another variable are other values.
        other = WORK / "named_otherwise"
        shutil.rmtree(other, ignore_errors=True)
        ddpm("data", "create", self.pattern, "--output", other, "--variables", "t2m")
        process = ddpm(*evaluate, "--model", run, "--data", other, check=False)
        self.assertEqual(process.returncode, 3, process.stdout)
        self.assertIn("its field of role image holds t2m (no unit)", process.stderr)
        # An older record has no names, which then cannot be compared.
        shutil.rmtree(WORK / "nameless", ignore_errors=True)
        shutil.copytree(run / "model", WORK / "nameless")
        recorded.pop("variables")
        (WORK / "nameless" / "normalization.json").write_text(json.dumps(recorded))
        nameless = json.loads(ddpm(*evaluate, "--model", WORK / "nameless", "--data", made).stdout)
        self.assertEqual(nameless["metrics"], results[0]["metrics"])
        for variables, wanted in (("u10", "an array of variables is wanted"), ([{"name": "\n", "unit": ""}], "1 to 255 printable bytes")):
            (WORK / "nameless" / "normalization.json").write_text(json.dumps({**recorded, "variables": variables}))
            process = ddpm(*evaluate, "--model", WORK / "nameless", "--data", made, check=False)
            self.assertEqual((process.returncode, process.stderr.count("\n")), (4, 1), process.stderr)
            self.assertIn(wanted, process.stderr)

    def test_missing_values_are_left_out_of_the_loss(self):
        config, _ = self.config("masked", self.years[0], {"in_channels": 1, "out_channels": 1}, variables="sst", missing="mask")
        ddpm("train", config, "--train.steps", "2")
        config, run = self.config("refused", self.years[0], {"in_channels": 1, "out_channels": 1}, variables="sst")
        process = ddpm("train", config, check=False)
        self.assertEqual(process.returncode, 3)
        self.assertFalse((run / "checkpoints").exists())

    def test_boundaries_of_the_well_are_compared_with_the_model(self):
        path = WORK / "well.hdf5"
        write_dummy_data(str(path))
        config, _ = self.config("well", path, {"in_channels": 4, "out_channels": 2}, variables="field", lead=1)
        said = ddpm("train", config, "--train.steps", "1").stderr
        for side in ("height", "width"):
            self.assertIn(f'boundary conditions are periodic along the {side} of images, model.padding there is "zeros"', said)
        other = ["--run.directory", str(WORK / "around"), "--model.padding", "periodic"]
        said = ddpm("train", config, "--dry-run", *other).stderr
        self.assertNotIn("boundary conditions", said)

    def test_missing_times_are_said_and_absent_chunks_vouched_for(self):
        path, name = WORK / "gaps.h5", "'total, cloud cover'"
        path.with_name("gaps.h5.ddpm").unlink(missing_ok=True)
        with h5py.File(path, "w") as file:
            file["hours"] = np.delete(np.arange(9.0), 3)
            file["hours"].make_scale("hours")
            field = file.create_dataset("total, cloud cover", (8, SIZE, SIZE), "f4", chunks=(1, SIZE, SIZE), fillvalue=0.5, compression="lzf")
            field[:6] = np.random.default_rng(1).random((6, SIZE, SIZE))
            field.dims[0].attach_scale(file["hours"])
        keys = ("--variables", name, "--lead", 1)
        config, _ = self.config("gaps", path, {"in_channels": 2, "out_channels": 1}, variables=[name], lead=1)
        for adopted in (False, True):
            shown = json.loads(ddpm("data", "inspect", path, *keys, "--all", "--json", ranks=2).stdout)
            self.assertEqual((shown["count"], shown["pairs_left_out"]), (6, 1))
            self.assertEqual(shown["statistics"][0]["max"], float(field_max(path)))
            self.assertIn("1 pair left out", ddpm("data", "inspect", path, *keys).stdout)
            self.assertIn("1 pair left out, because times are missing", ddpm("train", config, "--dry-run").stderr)
            self.assertIn("1 pair left out, because times are missing", ddpm("train", config, "--train.steps", "1").stderr)
            ddpm("data", "verify", path, *keys)
            if not adopted:
                ddpm("data", "adopt", path)
            shutil.rmtree(WORK / "gaps", ignore_errors=True)
        with h5py.File(path, "r+") as file:
            file["total, cloud cover"][7] = 1.0  # a chunk that was absent
        self.assertEqual(ddpm("data", "verify", path, *keys, check=False).returncode, 3)

    def test_files_may_count_their_times_in_other_units(self):
        paths = [WORK / "days.nc", WORK / "hours.nc"]
        times = {"days": np.arange(4.0), "hours": 24.0 * np.delete(np.arange(4, 12), 3)}
        for path, (unit, values) in zip(paths, times.items()):
            with netCDF4.Dataset(path, "w") as file:
                for name, extent in (("time", len(values)), ("lat", SIZE), ("lon", SIZE)):
                    file.createDimension(name, extent)
                time = file.createVariable("time", "f8", ("time",))
                time.units, time[:] = f"{unit} since 2000-01-01", values
                file.createVariable("t2m", "f4", ("time", "lat", "lon"))[:] = values[:, None, None]
        shown = json.loads(ddpm("data", "inspect", WORK / "[dh]*s.nc", "--variables", "t2m", "--lead", 1, "--all", "--json").stdout)
        self.assertEqual((shown["count"], shown["pairs_left_out"]), (3 + 5, 1))


def field_max(path):
    """The largest value of the images: those of the places that have one before them."""
    with h5py.File(path) as file:
        return file["total, cloud cover"][[1, 2, 4, 5, 6, 7]].max()


if __name__ == "__main__":
    unittest.main()
