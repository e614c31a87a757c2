"""Foreign files: what is trained on equals what netCDF4, xarray and The Well's own reader decode.

Usage: foreign_test.py FOREIGN_DUMP (the program made from foreign_dump.cpp)
"""

import unittest
import warnings

import h5py
import netCDF4
import numpy as np
import xarray
from the_well.data import WellDataset
from the_well.utils.dummy_data import write_dummy_data

from foreign_case import ForeignCase, LAT, LEVEL, LON, T, decoded


class ForeignValues(ForeignCase):
    def test_variables_are_the_channels_of_images(self):
        for options in ({}, {"zlib": True, "shuffle": True}, {"zlib": True, "chunksizes": (3, 4, 5)}):
            chunks = {k: v for k, v in options.items() if k != "chunksizes"}
            path = self.write(**(chunks if "chunksizes" in options else options))
            info, seen = self.opened(variables=["t2m", "u10"])
            self.assertEqual((info["count"], seen["image"].shape), (T, (T, LAT, LON, 2)))
            for channel, name in enumerate(("t2m", "u10")):
                np.testing.assert_array_equal(seen["image"][..., channel], decoded(path, name), err_msg=f"{name} {options}")
            self.assertEqual(self.names(info, "image"), ["t2m", "u10"])
            self.assertEqual(info["fields"][0]["variables"][0]["unit"], "K")
            with xarray.open_dataset(path, decode_times=False) as peer:
                np.testing.assert_array_equal(seen["image"][..., 1], peer.u10.values.astype(np.float32))

    def test_levels_groups_members_and_turned_axes(self):
        path = self.write()
        info, seen = self.opened(variables=["z", "t2m", "/ocean/sst"], axes=["lat", "lon"], sample_axes=["time"])
        z = decoded(path, "z")
        np.testing.assert_array_equal(seen["image"][..., :LEVEL], z.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(seen["image"][..., LEVEL + 1], decoded(path, "ocean/sst").transpose(0, 2, 1))
        self.assertEqual(self.names(info, "image")[:4], ["z level=1000", "z level=850", "z level=500", "t2m"])
        info, seen = self.opened(variables=["z level=500"])
        np.testing.assert_array_equal(seen["image"][..., 0], z[:, 2])
        self.assertEqual(self.names(info, "image"), ["z level=500"])
        info, seen = self.opened(variables=["z"], axes=["level", "lat", "lon"])  # volumes
        np.testing.assert_array_equal(seen["image"][..., 0], z)
        runs = decoded(path, "runs")
        info, seen = self.opened(variables=["runs", "t2m"], sample_axes=["ensemble", "time"])
        np.testing.assert_array_equal(seen["image"][..., 0], runs.reshape(-1, LAT, LON))
        np.testing.assert_array_equal(seen["image"][..., 1], np.tile(decoded(path, "t2m"), (2, 1, 1)))
        info, seen = self.opened(variables=["runs ensemble=1"], sample_axes=["time"])
        np.testing.assert_array_equal(seen["image"][..., 0], runs[1])

    def test_all_roles_come_from_the_same_file(self):
        path = self.write()
        info, seen = self.opened(
            variables="t2m", condition="u10, z level=850", static="orography", parameters="co2", mask="sea"
        )
        expected = [decoded(path, "u10"), decoded(path, "z")[:, 1]]
        np.testing.assert_array_equal(seen["condition"], np.stack(expected, -1))
        np.testing.assert_array_equal(seen["static"][..., 0], decoded(path, "orography"))
        np.testing.assert_array_equal(seen["parameters"][:, 0], decoded(path, "co2"))
        np.testing.assert_array_equal(seen["mask"], np.broadcast_to(decoded(path, "sea"), (T, LAT, LON)))
        self.assertEqual(self.names(info, "condition"), ["u10", "z level=850"])

    def test_labels_are_integers_of_a_variable(self):
        path = self.write()
        with netCDF4.Dataset(path) as file:
            kind, member = file["kind"][:].astype(np.int64), file["member"][:].astype(np.int64)
        for variables, keys, wanted in (
            (["t2m"], {"labels": "kind"}, kind),
            (["t2m"], {"labels": "/kind", "lead": 2}, kind[2:]),  # of the image that is learned
            (["runs"], {"labels": "kind", "sample_axes": ["ensemble", "time"]}, np.tile(kind, 2)),
            (["runs"], {"labels": "member", "sample_axes": ["ensemble", "time"]}, np.repeat(member, T)),
        ):
            with self.subTest(keys):
                info, seen = self.opened(variables=variables, **keys)
                np.testing.assert_array_equal(seen["labels"], wanted)
                self.assertEqual(info["count"], len(wanted))
        for keys in ({}, {"labels": ""}):
            info, _ = self.opened(variables=["t2m"], **keys)
            self.assertNotIn("labels", [field["role"] for field in info["fields"]])
        second = self.write("b.nc", first=T)
        with netCDF4.Dataset(second) as file:
            both = np.concatenate([kind, file["kind"][:]])
        for lead in (0, 3):  # pairs reach from one file into the next
            _, seen = self.opened(train=str(self.folder / "?.nc"), variables=["t2m"], labels="kind", lead=lead)
            np.testing.assert_array_equal(seen["labels"], both[lead:])

    def test_labels_of_plain_hdf5_files(self):
        values = self.random.random((5, 4, 6)).astype(np.float32)
        with h5py.File(self.folder / "plain.h5", "w") as file:
            file["field"] = values
            file["labels"] = np.array([4, 0, 1, 2, 0], ">u8")
        _, seen = self.opened(train=str(self.folder / "plain.h5"), variables=["field"], labels="labels")
        np.testing.assert_array_equal(seen["labels"], [4, 0, 1, 2, 0])

    def test_pairs_of_times_are_condition_and_image(self):
        path = self.write()
        t2m, u10 = decoded(path, "t2m"), decoded(path, "u10")
        for lead in (1, 4, T - 1):
            info, seen = self.opened(variables=["t2m"], condition="u10, orography", lead=lead)
            self.assertEqual(info["count"], T - lead)
            np.testing.assert_array_equal(seen["image"][..., 0], t2m[lead:])
            np.testing.assert_array_equal(seen["condition"][..., 0], t2m[:-lead])
            np.testing.assert_array_equal(seen["condition"][..., 1], u10[:-lead])
            np.testing.assert_array_equal(seen["condition"][..., 2], np.tile(decoded(path, "orography"), (T - lead, 1, 1)))
        self.assertIn(f"no two places are data.lead = {T} apart", self.refused(variables=["t2m"], lead=T))

    def test_pairs_reach_into_files_that_go_on(self):
        paths, first = [], 0
        for i, times in enumerate((3, 1, 2, 4, 5)):
            first += 2 * (i == 4)  # a gap before the last file
            paths.append(self.write(f"m{i}.nc", times=times, first=first))
            first += times
        u10 = [decoded(path, "u10") for path in paths]
        joined, last = np.concatenate(u10[:4]), u10[4]
        co2 = np.concatenate([decoded(path, "co2") for path in paths[:4]])
        for lead in (1, 2, 4, 5, 9):
            info, seen = self.opened(train=str(self.folder / "m*.nc"), variables=["u10"], parameters="co2", lead=lead)
            image, condition = [joined[lead:], last[lead:]], [joined[:-lead], last[: max(0, 5 - lead)]]
            np.testing.assert_array_equal(seen["image"][..., 0], np.concatenate(image))
            np.testing.assert_array_equal(seen["condition"][..., 0], np.concatenate(condition))
            np.testing.assert_array_equal(seen["parameters"][: len(image[0]), 0], co2[:-lead])
        self.refused(train=str(self.folder / "m*.nc"), variables=["u10"], lead=10)
        with netCDF4.Dataset(paths[1], "a") as file:
            file["time"].units = "hours since 2021-01-01"
        info, seen = self.opened(train=str(self.folder / "m*.nc"), variables=["u10"], lead=1)
        parts = [u10[0], np.concatenate(u10[2:4]), last]
        np.testing.assert_array_equal(seen["image"][..., 0], np.concatenate([part[1:] for part in parts]))

    def test_a_file_that_is_missing_does_not_set_the_step(self):
        paths = [self.write(f"s{i}.nc", times=1, first=first) for i, first in enumerate((0, 2, 3, 4, 5))]
        u10 = np.concatenate([decoded(path, "u10") for path in paths])
        _, seen = self.opened(train=str(self.folder / "s*.nc"), variables=["u10"], lead=1)
        np.testing.assert_array_equal(seen["image"][..., 0], u10[2:])
        np.testing.assert_array_equal(seen["condition"][..., 0], u10[1:-1])

    def test_several_files_are_one_set_in_the_order_given(self):
        paths = [self.write(f"y{i}.nc", times=3 + i, first=10 * i) for i in range(3)]
        wanted = np.concatenate([decoded(path, "u10") for path in paths])
        hashes = set()
        for train in (list(map(str, paths)), str(self.folder / "y*.nc"), str(self.folder / "y[0-2].nc")):
            info, seen = self.opened(train=train, variables=["u10"])
            np.testing.assert_array_equal(seen["image"][..., 0], wanted)
            hashes.add(info["content_hash"])
        self.assertEqual(len(hashes), 1)
        info, seen = self.opened(train=[str(paths[1]), str(paths[0])], variables=["u10"], parameters="co2")
        np.testing.assert_array_equal(seen["image"][..., 0], np.concatenate([wanted[3:7], wanted[:3]]))
        np.testing.assert_array_equal(
            seen["parameters"][:, 0], np.concatenate([decoded(paths[1], "co2"), decoded(paths[0], "co2")])
        )
        self.assertNotIn(info["content_hash"], hashes)
        info, seen = self.opened(train=str(self.folder / "y*.nc"), variables=["u10"], lead=2)
        np.testing.assert_array_equal(seen["condition"][..., 0], np.concatenate([decoded(p, "u10")[:-2] for p in paths]))
        self.write("z.nc", backwards=True)
        text = self.refused(train=[str(paths[0]), str(self.folder / "z.nc")], variables=["u10"])
        self.assertIn("its lat has other coordinates than that of", text)
        text = self.refused(train=str(self.folder / "y*.nc"), variables=["t2m"], static="orography")
        self.assertIn("which all images share", text)
        self.assertIn("no file has a name like this", self.refused(train=str(self.folder / "q*.nc"), variables=["u10"]))

    def test_packed_values_are_decoded_as_netcdf4_does(self):
        """Each stored type with each kind of attributes; missing values by every convention."""
        path = self.folder / "a.nc"
        types = {"i1": (-120, 120), "u1": (0, 250), "i2": (-32000, 32000), "u2": (0, 65000), "i4": (-(2**31) + 9, 2**31 - 9),
                 "u4": (0, 2**32 - 9), "f4": None, "f8": None}  # fmt: skip
        scales = {
            "none": {},
            "f8": {"scale_factor": 0.1, "add_offset": 273.15},
            "f4": {"scale_factor": np.float32(0.1), "add_offset": np.float32(273.15)},
            "scale f4": {"scale_factor": np.float32(1.7)},
            "offset f4": {"add_offset": np.float32(1.7)},
            "mixed": {"scale_factor": np.float32(0.3), "add_offset": -7.1},
        }
        marks = {
            "none": lambda values: {},
            "fill": lambda values: {"_FillValue": values.flat[3]},
            "missing": lambda values: {"missing_value": values.flat[5]},
            "several": lambda values: {"_FillValue": values.flat[3], "missing_value": values.ravel()[[8, 1]]},
            "range": lambda values: {"valid_range": np.sort(values, axis=None)[[6, -9]]},
            "least": lambda values: {"valid_min": np.sort(values, axis=None)[4]},
            "most": lambda values: {"valid_max": np.sort(values, axis=None)[-4]},
        }
        names = []
        with netCDF4.Dataset(path, "w") as file:
            for axis, size in (("t", 3), ("y", 5), ("x", 4)):
                file.createDimension(axis, size)
            for kind, bounds in types.items():
                for scale, attributes in scales.items():
                    for mark, marked in marks.items():
                        shape = (3, 5, 4)
                        values = (
                            self.random.standard_normal(shape).astype(kind)
                            if bounds is None
                            else self.random.integers(*bounds, shape).astype(kind)
                        )
                        name = f"{kind}_{scale}_{mark}".replace(" ", "_")
                        more = {**attributes, **marked(values)}
                        variable = file.createVariable(name, kind, ("t", "y", "x"), fill_value=more.pop("_FillValue", None))
                        variable.setncatts(more)
                        variable.set_auto_maskandscale(False)
                        variable[:] = values
                        names.append(name)
        _, seen = self.opened(variables=names, missing="mask")
        for channel, (name, wanted) in enumerate(zip(names, decoded(path, *names), strict=True)):
            with self.subTest(name):
                np.testing.assert_array_equal(seen["image"][..., channel], wanted)
        # xarray does not know valid_range; float32 factors have it compute with 32-bit integers and float64 in float32.
        apart = ("range", "least", "most", "i4", "u4", "f8_f4", "f8_scale_f4")
        others = [name for name in names if any(word in name for word in apart)]
        warnings.simplefilter("ignore")  # of several values that mark missing ones
        with xarray.open_dataset(path, drop_variables=others) as peer:
            for channel, name in enumerate(names):
                if name in others:
                    continue
                with self.subTest(name, peer="xarray"):
                    np.testing.assert_allclose(
                        seen["image"][..., channel], peer[name].values.astype(np.float32), rtol=2e-7, atol=3e-5
                    )

    def test_unsigned_bytes_and_netcdfs_own_fill(self):
        path = self.folder / "a.nc"
        with netCDF4.Dataset(path, "w") as file:
            for axis, size in (("t", 2), ("y", 3), ("x", 4)):
                file.createDimension(axis, size)
            stored = file.createVariable("packed", "i1", ("t", "y", "x"), fill_value=-1)
            stored.setncatts({"_Unsigned": "true", "scale_factor": 0.5})
            stored.set_auto_maskandscale(False)
            stored[:] = np.arange(24, dtype=np.int8).reshape(2, 3, 4) * 11 - 1
            file.createVariable("untouched", "f4", ("t", "y", "x"))[0] = 1.5  # the rest is NetCDF's fill
        _, seen = self.opened(variables=["packed", "untouched"], missing="mask")
        for channel, name in enumerate(("packed", "untouched")):
            np.testing.assert_array_equal(seen["image"][..., channel], decoded(path, name))
        self.assertEqual(np.isnan(seen["image"][..., 1]).sum(), 12)

    def test_unsigned_numbers_without_a_fill_value_are_all_there(self):
        path = self.folder / "a.nc"
        with netCDF4.Dataset(path, "w") as file:
            for axis, size in (("t", 2), ("y", 3), ("x", 4)):
                file.createDimension(axis, size)
            for kind in ("i1", "i2", "i4", "i8"):
                stored = file.createVariable(kind, kind, ("t", "y", "x"))
                stored.setncatts({"_Unsigned": "true"})
                stored.set_auto_maskandscale(False)
                least = np.iinfo(kind).min  # near which NetCDF's fill values lie; unsigned ones are -1 and -2 here
                stored[:] = np.array([*range(least, least + 8), *range(-8, 8)], kind).reshape(2, 3, 4)
        names = ["i1", "i2", "i4", "i8"]
        _, seen = self.opened(variables=names)
        for channel, name in enumerate(names):
            with self.subTest(name):
                np.testing.assert_array_equal(seen["image"][..., channel], decoded(path, name))

    def test_integers_of_64_bits_that_no_double_holds(self):
        path = self.folder / "a.nc"
        least, most = -(2**63), 2**63 - 1
        cases = {"usual": ("i8", None, least + 2), "least": ("i8", least, least), "near": ("i8", least + 2, least + 2),
                 "most": ("i8", most, most), "unsigned": ("u8", None, 2**64 - 2), "odd": ("i8", 2**53 + 1, 2**53 + 1)}  # fmt: skip
        with netCDF4.Dataset(path, "w") as file:
            for axis, size in (("t", 2), ("y", 3), ("x", 4)):
                file.createDimension(axis, size)
            for name, (kind, fill, missing) in cases.items():
                stored = file.createVariable(name, kind, ("t", "y", "x"), fill_value=fill)
                stored.set_auto_maskandscale(False)
                values = np.arange(24).reshape(2, 3, 4).astype(kind)
                values[1, 2, 3] = missing
                values[0, 1, 1] = missing - 1 if missing > 0 else missing + 1
                stored[:] = values
        _, seen = self.opened(variables=list(cases), missing="mask")
        for channel, name in enumerate(cases):
            with self.subTest(name):
                np.testing.assert_array_equal(seen["image"][..., channel], decoded(path, name))
                self.assertEqual(np.argwhere(np.isnan(seen["image"][..., channel])).tolist(), [[1, 2, 3]])

    def test_missing_values_are_masked_when_told_so(self):
        path = self.folder / "a.nc"
        with netCDF4.Dataset(path, "w") as file:
            for axis, size in (("t", 4), ("y", 3), ("x", 5)):
                file.createDimension(axis, size)
            sst = file.createVariable("sst", "i2", ("t", "y", "x"), fill_value=-99)
            sst.scale_factor = 0.01
            values = self.random.integers(0, 3000, (4, 3, 5)) * 0.01
            sst[:] = np.ma.masked_where(self.random.random((4, 3, 5)) < 0.3, values)
            file.createVariable("depth", "f4", ("t", "y", "x"))[:] = 1.0
        _, seen = self.opened(variables=["depth", "sst"], missing="mask")
        missing = np.isnan(decoded(path, "sst"))
        np.testing.assert_array_equal(seen["mask"], ~missing)
        np.testing.assert_array_equal(seen["image"][..., 1], decoded(path, "sst"))
        text = self.refused(variables=["depth", "sst"])
        self.assertRegex(text, r"a\.nc:depth,sst: image \d .* holds nan in channel 1 at row \d, column \d; finite values")
        self.assertIn('data.missing = "mask"', text)
        text = self.refused(variables=["depth"], condition="sst")
        self.assertIn("holds nan", text)

    def test_plain_hdf5_with_and_without_scales(self):
        path = self.folder / "a.nc"
        values = self.random.random((5, 4, 6), np.float32)
        with h5py.File(path, "w") as file:
            file["plain"] = values
            file["labelled"] = values.transpose(1, 2, 0)
            for axis, name in enumerate(("y", "x", "t")):
                file["labelled"].dims[axis].label = name
            file["y"] = np.arange(4.0)
            file["y"].make_scale("y")
            file["scaled"] = values.transpose(1, 0, 2)
            file["scaled"].dims[0].attach_scale(file["y"])
        _, seen = self.opened(variables=["plain"])
        np.testing.assert_array_equal(seen["image"][..., 0], values)
        _, seen = self.opened(variables=["labelled"], axes=["y", "x"], sample_axes=["t"])
        np.testing.assert_array_equal(seen["image"][..., 0], values)
        _, seen = self.opened(variables=["scaled"], axes=["y", "2"], sample_axes="1")
        np.testing.assert_array_equal(seen["image"][..., 0], values)

    def test_the_well_is_read_as_its_own_reader_does(self):
        path = self.folder / "a.h5"
        np.random.seed(3)
        write_dummy_data(path)
        with h5py.File(path, "a") as file:  # one more field, of a scalar, and one that does not change along y
            for group, name, values, dims in (
                ("t0_fields", "density", self.random.random((2, 10, 32, 32), np.float32), [True, True]),
                ("t0_fields", "inflow", self.random.random((2, 10, 32), np.float32), [True, False]),
            ):
                file[group][name] = values
                file[group][name].attrs.update({"dim_varying": dims, "sample_varying": True, "time_varying": True})
            names = ["constant_field", "density"]
            file["t0_fields"].attrs["field_names"] = names
        peer = WellDataset(path=str(self.folder), n_steps_input=1, n_steps_output=1, use_normalization=False)
        info, seen = self.opened(train=str(path), variables=["density", "field"], lead=1, condition="constant_field")
        self.assertEqual(info["count"], len(peer))
        self.assertEqual(self.names(info, "image"), ["density", "field_x", "field_y"])
        self.assertEqual(info["periodic"], [True, True])
        for index in range(len(peer)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sample = peer[index]
            np.testing.assert_array_equal(seen["image"][index], sample["output_fields"][0].numpy())
            np.testing.assert_array_equal(seen["condition"][index, ..., :3], sample["input_fields"][0].numpy())
            np.testing.assert_array_equal(seen["condition"][index, ..., 3:], sample["constant_fields"].numpy())
        with h5py.File(path) as file:
            inflow = np.broadcast_to(file["t0_fields/inflow"][:][..., None], (2, 10, 32, 32))
            scalar = file["scalars/time_varying_scalar"][:]
        info, seen = self.opened(train=str(path), variables=["density", "inflow"], parameters="time_varying_scalar, a, b")
        np.testing.assert_array_equal(seen["image"][..., 1], inflow.reshape(20, 32, 32))
        np.testing.assert_array_equal(seen["parameters"][:, 0], np.tile(scalar, 2).astype(np.float32))
        constants = peer[0]["constant_scalars"].numpy().astype(np.float32)
        np.testing.assert_array_equal(seen["parameters"][:, 1:], np.tile(constants, (20, 1)))


if __name__ == "__main__":
    unittest.main()
