"""Foreign files in which something is absent: times, records, chunks. Names that are unusual. Many files under a low limit.

Usage: foreign_absent_test.py FOREIGN_DUMP (the program made from foreign_dump.cpp)
"""

import resource
import unittest

import h5py
import hdf5plugin
import netCDF4
import numpy as np
import pandas
import xarray

from foreign_case import ForeignCase, decoded

Y, X = 4, 5


class Times(ForeignCase):
    def write_times(self, name, times, runs=None):
        """A file of xarray's with a field at these times, a date or a number each; returns its values."""
        shape = (len(times), Y, X) if runs is None else (runs, len(times), Y, X)
        values = self.random.random(shape, np.float32)
        dims = ("time", "y", "x") if runs is None else ("run", "time", "y", "x")
        xarray.Dataset({"field": (dims, values)}, {"time": times}).to_netcdf(self.folder / name, engine="netcdf4")
        return values

    def expect_pairs(self, values, firsts, lead, **keys):
        """Images at firsts + lead, with conditions at firsts."""
        info, seen = self.opened(variables=["field"], lead=lead, **keys)
        self.assertEqual(info["count"], len(firsts))
        np.testing.assert_array_equal(seen["condition"][..., 0], values[firsts])
        np.testing.assert_array_equal(seen["image"][..., 0], values[np.array(firsts) + lead])
        return info

    def test_pairs_across_a_missing_time_are_left_out(self):
        days = pandas.date_range("2021-01-01", periods=40)
        for missing in ((9,), (0, 1, 17), (5, 6, 7, 30)):
            there = [i for i in range(40) if i not in missing]
            values = self.write_times("a.nc", days[there])
            for lead in (1, 2, 5):
                with self.subTest(missing=missing, lead=lead):
                    firsts = [i for i in range(len(there) - lead) if there[i + lead] - there[i] == lead]
                    info = self.expect_pairs(values, firsts, lead)
                    self.assertEqual(info["pairs_left_out"], len(there) - lead - len(firsts))
        info, _ = self.opened(variables=["field"])
        self.assertEqual((info["count"], info["pairs_left_out"]), (36, 0))

    def test_times_that_come_twice_or_go_back_are_no_steps(self):
        for places in ([0, 1, 2, 3, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 2, 3, 4, 5, 6]):
            values = self.write_times("a.nc", np.array(places) * 6.0)
            firsts = [i for i in range(len(places) - 1) if places[i + 1] == places[i] + 1]
            self.expect_pairs(values, firsts, 1)

    def test_gaps_within_files_that_go_on(self):
        days = pandas.date_range("2021-01-01", periods=30)
        there = [i for i in range(30) if i not in (3, 17)]
        values = [
            self.write_times(f"m{part}.nc", xarray.DataArray(days[[i for i in there if i // 10 == part]], dims="time"))
            for part in range(3)
        ]
        for part in range(3):  # in one unit, as archives have it
            with netCDF4.Dataset(self.folder / f"m{part}.nc", "a") as file:
                file["time"].units = "days since 2021-01-01"
                file["time"][:] = [i for i in there if i // 10 == part]
        for lead in (1, 2, 4):
            firsts = [i for i in range(len(there) - lead) if there[i + lead] - there[i] == lead]
            self.expect_pairs(np.concatenate(values), firsts, lead, train=str(self.folder / "m?.nc"))

    def test_months_are_steps_and_a_missing_one_is_not(self):
        months = pandas.date_range("2019-01-01", periods=30, freq="MS")
        values = self.write_times("a.nc", months)
        for lead in (1, 12):
            self.assertEqual(self.expect_pairs(values, list(range(30 - lead)), lead)["pairs_left_out"], 0)
        there = [i for i in range(30) if i != 13]
        values = self.write_times("a.nc", months[there])
        self.expect_pairs(values, [i for i in range(28) if there[i + 1] == there[i] + 1], 1)

    def test_along_two_axes_each_run_has_the_same_pairs(self):
        places = [0, 1, 2, 4, 5, 6, 7]
        values = self.write_times("a.nc", np.array(places) * 6.0, runs=3)
        info, seen = self.opened(variables=["field"], lead=2, sample_axes=["run", "time"])
        firsts = [0, 3, 4]
        self.assertEqual(info["count"], 9)
        np.testing.assert_array_equal(seen["condition"][..., 0], values[:, firsts].reshape(9, Y, X))
        np.testing.assert_array_equal(seen["image"][..., 0], values[:, np.array(firsts) + 2].reshape(9, Y, X))

    def test_places_count_where_times_have_no_step(self):
        values = self.write_times("a.nc", 2.0 ** np.arange(12))
        self.assertEqual(self.expect_pairs(values, list(range(10)), 2)["pairs_left_out"], 0)
        with h5py.File(self.folder / "a.nc", "w") as file:
            file["field"] = values
        self.expect_pairs(values, list(range(10)), 2)

    def test_a_set_whose_pairs_are_all_left_out_is_refused(self):
        self.write_times("a.nc", np.array([0.0, 1, 3, 4, 6, 7, 9, 10, 11]))
        self.assertIn("no two places are data.lead = 3 apart", self.refused(variables=["field"], lead=3))


class Records(ForeignCase):
    def create(self, coordinates=True, **options):
        file = netCDF4.Dataset(self.folder / "a.nc", "w")
        for axis, size in (("time", None), ("y", Y), ("x", X)):
            file.createDimension(axis, size)
        if coordinates:
            file.createVariable("time", "f8", ("time",)).units = "days since 2021-01-01"
        for name, kind in (("long", "f4"), ("short", "f4"), ("packed", "i2")):
            file.createVariable(name, kind, ("time", "y", "x"), **options)
        file["packed"].scale_factor = 0.5
        return file

    def test_a_variable_with_fewer_records_is_missing_in_the_others(self):
        for coordinates in (True, False):
            for options in ({}, {"zlib": True}, {"chunksizes": (2, 3, 5)}):
                with self.create(coordinates, **options) as file:
                    file["short"][:3] = self.random.random((3, Y, X))
                    file["packed"][:4] = self.random.integers(0, 99, (4, Y, X))
                    file["long"][:7] = self.random.random((7, Y, X))
                    if coordinates:
                        file["time"][:] = np.arange(7)
                with self.subTest(coordinates=coordinates, options=options):
                    for names in (["short", "long", "packed"], ["packed", "short"], ["short"]):
                        _, seen = self.opened(variables=names, missing="mask")
                        wanted = np.stack([decoded(self.folder / "a.nc", name) for name in names], -1)
                        self.assertEqual(len(wanted), 7)
                        np.testing.assert_array_equal(seen["image"], wanted)
                        np.testing.assert_array_equal(seen["mask"], np.isfinite(wanted).all(-1))
                    _, seen = self.opened(variables=["long"], lead=2)
                    np.testing.assert_array_equal(seen["image"][..., 0], decoded(self.folder / "a.nc", "long")[2:])
                    self.assertIn("holds nan", self.refused(variables=["long", "short"]))

    def test_chunks_that_were_never_written_are_missing(self):
        for options in ({}, {"zlib": True, "shuffle": True}):
            with self.create(chunksizes=(2, 3, 4), **options) as file:
                file["long"][:] = self.random.random((9, Y, X))
                file["short"][8, 3, 4] = 1.0
                file["short"][2:4, :2] = self.random.random((2, 2, X))
                file["packed"][8, 1] = 7.0
            with self.subTest(options=options):
                names = ["long", "short", "packed"]
                _, seen = self.opened(variables=names, missing="mask")
                wanted = np.stack([decoded(self.folder / "a.nc", name) for name in names], -1)
                self.assertGreater(np.isnan(wanted[..., 1]).sum(), 150)
                np.testing.assert_array_equal(seen["image"], wanted)
                self.assertIn("holds nan", self.refused(variables=["short"]))

    def test_plain_hdf5_has_the_values_that_h5py_reads(self):
        for options in ({}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}, dict(hdf5plugin.Zstd())):
            with h5py.File(self.folder / "a.nc", "w") as file:
                for name, fill in (("set", -9.5), ("zero", 0.0), ("usual", None), ("told", 0.0)):
                    field = file.create_dataset(name, (6, Y, X), ">f4", chunks=(1, 2, X), fillvalue=fill, **options)
                    field[1:3, :2] = self.random.random((2, 2, X))
                file["told"].attrs["_FillValue"] = np.float32(0)
                wanted = file["set"][:]
            with self.subTest(options=options):
                _, seen = self.opened(variables=["set"])
                np.testing.assert_array_equal(seen["image"][..., 0], wanted)
                _, seen = self.opened(variables=["told"], missing="mask")
                self.assertEqual(seen["mask"].sum(), 2 * 2 * X)
                for name in ("zero", "usual"):  # zeros that nobody has written are no data
                    self.assertIn("2 of its 12 chunks were written", self.refused(variables=[name]))


class Names(ForeignCase):
    def test_names_with_spaces_and_commas_stand_in_quotes(self):
        names = ["Data Fields/rain, total", "Data Fields/Temperature", "a=b"]
        values = self.random.random((3, 6, 2, Y, X), np.float32)
        with h5py.File(self.folder / "a.nc", "w") as file:
            for name, field in zip(names, values, strict=True):
                file[name] = field
                file[name].dims[1].label = "air pressure"
        quoted = [f"'{name}' 'air pressure'=1" for name in names]
        info, seen = self.opened(variables=quoted, condition="'a=b' 'air pressure'=0, 'Data Fields/rain, total' 'air pressure'=0")
        np.testing.assert_array_equal(seen["image"], values[:, :, 1].transpose(1, 2, 3, 0))
        np.testing.assert_array_equal(seen["condition"], values[[2, 0], :, 0].transpose(1, 2, 3, 0))
        self.assertEqual(self.names(info, "image"), quoted)
        with h5py.File(self.folder / "a.nc", "a") as file:
            file["total cloud"] = values[0, :, 0]
        info, seen = self.opened(variables=["'total cloud'"])
        np.testing.assert_array_equal(seen["image"][..., 0], values[0, :, 0])
        self.assertEqual(self.names(info, "image"), ["total cloud"])
        self.assertIn("stand in single quotes", self.refused(code=2, variables=["total cloud"]))

    def test_long_names_are_shortened_in_messages(self):
        with h5py.File(self.folder / "a.nc", "w") as file:
            for i in range(20):
                file[f"{i}" + "é" * 500] = np.zeros((2, Y, X), np.float32)
        for text in (
            self.refused(variables=["x" * 250]),
            self.refused(code=2, variables=["x" * 3000]),
            self.refused(train=str(self.folder / ("*" + "y" * 200 + "/") / ("z" * 3000)), variables=["x"]),
        ):
            self.assertIn("...", text)
            self.assertLess(len(text), 4000)


class ManyFiles(ForeignCase):
    def test_each_file_takes_two_descriptors_however_many_variables_are_read(self):
        files, names = 80, [f"v{i}" for i in range(4)]
        values = self.random.random((files, 2, len(names), Y, X), np.float32)
        for i in range(files):
            with h5py.File(self.folder / f"m{i:03}.h5", "w") as file:
                for v, name in enumerate(names):  # contiguous and chunked ones
                    file.create_dataset(name, data=values[i, :, v], chunks=(1, Y, X) if v % 2 else None)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        _, seen = self.opened(train=str(self.folder / "m*.h5"), variables=names)
        np.testing.assert_array_equal(seen["image"], values.reshape(-1, len(names), Y, X).transpose(0, 2, 3, 1))


if __name__ == "__main__":
    unittest.main()
