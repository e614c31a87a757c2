"""Foreign files that are damaged, and variables that do not fit: each is read, or refused with one line.

Usage: foreign_refusals_test.py FOREIGN_DUMP (the program made from foreign_dump.cpp)
"""

import os
import unittest

import h5py
import numpy as np

from foreign_case import ForeignCase


class ForeignRefusals(ForeignCase):
    def test_damaged_files_are_read_or_refused_with_one_line(self):
        """Bytes of the metadata are changed: no crash, no hang. DDPM_FOREIGN_DAMAGE=2000 tries as many."""
        path = self.write(zlib=True)
        whole = path.read_bytes()
        codes = set()
        for _ in range(int(os.environ.get("DDPM_FOREIGN_DAMAGE", "30"))):
            changed = bytearray(whole)
            for at in self.random.integers(0, len(whole), self.random.integers(1, 9)):
                changed[at] = self.random.integers(0, 256)
            path.write_bytes(changed)
            keys = {"train": str(path), "variables": ["t2m", "z"], "static": "orography", "missing": "mask", "lead": 1}
            _, result = self.run_dump(keys)
            self.assertIn(result.returncode, (0, 3), result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), int(result.returncode == 3), result.stderr)
            codes.add(result.returncode)
        self.assertEqual(codes, {0, 3})

    def test_labels_that_are_none_are_refused(self):
        path = self.folder / "a.nc"
        for name, values, text in (
            ("missing", [0, 1, -9, 2], "the label at place 2 along the last sample axis is missing"),
            ("negative", [0, -1, 1, 2], "the label at place 1 along the last sample axis is -1; 0 to"),
            ("large", [0, 1, 2, 2**24], "the label at place 3 along the last sample axis is 16777216"),
            ("short", [0, 1, 2], "3 places along 0, another variable has 4"),
        ):
            with h5py.File(path, "w") as file:
                file["field"] = np.zeros((4, 5, 6), np.float32)
                file["kind"] = np.array(values, np.int32)
                file["kind"].attrs["_FillValue"] = np.int32(-9)
            with self.subTest(name):
                self.assertIn(text, self.refused(variables=["field"], labels="kind"))

    def test_links_lead_nowhere(self):
        """A file as The Well's, with a link in each place that the reader asks about."""
        path = self.folder / "a.nc"
        with h5py.File(self.folder / "other.h5", "w") as file:
            file["density"] = np.zeros((4, 5, 6), np.float32)
            file["x"], file["y"] = np.zeros(5), np.zeros(6)
        for place in ("t0_fields", "t1_fields", "dimensions", "boundary_conditions", "scalars", "dimensions/x"):
            for kind, link in (("external", h5py.ExternalLink("other.h5", "/")), ("soft", h5py.SoftLink("/elsewhere"))):
                with h5py.File(path, "w") as file:
                    for group in {"t0_fields", "dimensions", "elsewhere"} - {place}:
                        file.create_group(group)
                    if place != "dimensions":
                        file["dimensions"].attrs["spatial_dims"] = ["x", "y"]
                    if place != "t0_fields":
                        field = file["t0_fields"].create_dataset("density", data=np.zeros((4, 5, 6), np.float32))
                        field.attrs.update({"sample_varying": False, "time_varying": True, "dim_varying": [True, True]})
                    file[place] = link
                with self.subTest(place=place, kind=kind):
                    variable = "speed" if place in ("t1_fields", "scalars") else "density"
                    self.assertIn(f"/{place} is a{'n' * (kind == 'external')} {kind} link", self.refused(variables=[variable]))

    def test_units_become_what_a_set_can_hold_and_names_are_held_to_it(self):
        path = self.folder / "a.nc"
        for unit, seen in ((b"kg m-2\n", "kg m-2"), (b"\xb0C", "°C"), ("°C".encode(), "°C"), (b"\x1b[1mK", "[1mK"), (b"m" * 300, "m" * 255)):
            with h5py.File(path, "w") as file:
                file["field"] = np.zeros((4, 5, 6), np.float32)
                file["field"].attrs["units"] = np.bytes_(unit)
            with self.subTest(unit):
                info, _ = self.opened(variables=["field"])
                self.assertEqual(info["fields"][0]["variables"][0]["unit"], seen)
        for variable in ("a" * 300, "fi\x1beld"):
            with self.subTest(variable):
                self.assertIn("1 to 255 printable ones of UTF-8 are wanted", self.refused(code=2, variables=[variable]))

    def test_what_does_not_fit_is_refused_with_one_line(self):
        self.write()
        for keys, text in (
            ({}, "there is no /images; it has co2, ensemble, kind, lat, level, lon"),
            ({"variables": ["t3m"]}, "there is no variable t3m; wanted: one of co2, ensemble, kind, lat"),
            ({"variables": ["ocean"]}, "ocean"),
            ({"variables": ["co2"]}, "its axes are [time]; wanted: data.axes"),
            ({"variables": ["t2m"], "axes": ["y", "x"]}, "there is no axis y among its [time, lat, lon]"),
            ({"variables": ["t2m"], "sample_axes": ["day"]}, "no variable has the axis day"),
            ({"variables": ["z level=700"]}, "level=700 is not among its 3 places, from 1000 to 500"),
            ({"variables": ["t2m level=500"]}, '"t2m level=500" chooses along an axis that is not among its'),
            ({"variables": ["t2m"], "static": "u10"}, "static values are the same for all images"),
            ({"variables": ["t2m"], "mask": "orography"}, "a mask holds"),
            ({"variables": ["z", "z level=500"]}, 'two channels are "z level=500"'),
            ({"variables": ["t2m"], "labels": "kinds"}, "there is no variable kinds"),
            ({"variables": ["t2m"], "labels": "co2"}, "labels are integers, these values are float64"),
            ({"variables": ["t2m"], "labels": "u10"}, "labels are integers, these values are packed numbers"),
            ({"variables": ["t2m"], "labels": "member"}, "2 values for each label; one is wanted"),
            ({"variables": ["t2m"], "labels": "sea"}, "values for each label; one is wanted"),
        ):
            with self.subTest(keys):
                self.assertIn(text, self.refused(**keys))
        for keys, text in (
            ({"lead": 1}, "data.lead is set, but data.variables is not"),
            ({"missing": "mask"}, "data.missing is set"),
            ({"variables": ["t2m", " t2m"]}, 'data.variables names "t2m" twice'),
            ({"variables": ["t2m level=high"]}, '"NAME AXIS=NUMBER" is wanted'),
            ({"variables": ["t2m"], "axes": ["lat"]}, "data.axes has 1 names"),
            ({"variables": ["t2m"], "axes": ["lat", "lon"], "sample_axes": ["lon"]}, 'both name "lon"'),
            ({"variables": ["t2m"], "mask": "sea", "missing": "mask"}, "one of the two is wanted"),
            ({"variables": ["t2m"], "images": "/kind"}, "data.images is not for data.variables"),
            ({"variables": ["t2m"], "labels": "kind time=high"}, '"NAME AXIS=NUMBER" is wanted'),
        ):
            with self.subTest(keys):
                self.assertIn(text, self.refused(code=2, **keys))


if __name__ == "__main__":
    unittest.main()
