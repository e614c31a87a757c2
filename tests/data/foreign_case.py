"""What tests of foreign files share: a file as weather centres write them, and how our reader sees it, by the program made from
foreign_dump.cpp, which is the first argument."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import netCDF4
import numpy as np

DUMP = sys.argv.pop(1)
T, LAT, LON, LEVEL = 7, 6, 8, 3


def decoded(path, *names):
    """What netCDF4 gives of one variable, or of each, as float32 with NaN where a value is masked."""
    with netCDF4.Dataset(path) as file:
        values = [np.ma.filled(file[name][:].astype(np.float64), np.nan).astype(np.float32) for name in names]
    return values[0] if len(names) == 1 else values


class ForeignCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.random = np.random.default_rng(7)

    def run_dump(self, keys):
        config = self.folder / "config.toml"
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        config.write_text(f"[data]\n{lines}\n")
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        return out, subprocess.run([DUMP, config, out], capture_output=True, text=True)

    def opened(self, **keys):
        """(info, the values of each role) as our reader sees them."""
        out, result = self.run_dump({"train": str(self.folder / "a.nc"), **keys})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        info = json.loads((out / "info.json").read_text())
        values = {}
        for field in info["fields"]:
            rows = [] if field.get("per_set") else [info["count"]]
            raw = np.fromfile(out / f"{field['role']}.raw", field["dtype"])
            values[field["role"]] = raw.reshape(rows + field["shape"])
        return info, values

    def refused(self, code=3, **keys):
        _, result = self.run_dump({"train": str(self.folder / "a.nc"), **keys})
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        return result.stderr

    def names(self, info, role):
        return [v["name"] for f in info["fields"] if f["role"] == role for v in f["variables"]]

    def write(self, name="a.nc", times=T, first=0, backwards=False, **options):
        """A file as weather centres write them: time, levels, a grid, packed and plain variables, a group."""
        path = self.folder / name
        with netCDF4.Dataset(path, "w") as file:
            for axis, size in (("time", None), ("level", LEVEL), ("lat", LAT), ("lon", LON)):
                file.createDimension(axis, size)
            file.createDimension("ensemble", 2)  # without coordinates
            for axis, places in {
                "time": np.arange(first, first + times) * 6.0,
                "level": [1000.0, 850.0, 500.0],
                "lat": np.linspace(90, -90, LAT)[:: -1 if backwards else 1],
                "lon": np.linspace(0, 315, LON),
            }.items():
                variable = file.createVariable(axis, "f8", (axis,))
                variable[:], variable.units = places, "hours since 2020-01-01" if axis == "time" else "1"
            grid = ("time", "lat", "lon")
            shape = (times, LAT, LON)
            t2m = file.createVariable("t2m", "f4", grid, **options)
            t2m.units = "K"
            t2m[:] = 280 + 10 * self.random.standard_normal(shape)
            u10 = file.createVariable("u10", "i2", grid, **options)
            u10.scale_factor, u10.add_offset = 0.00137, -3.5
            u10.set_auto_scale(False)
            u10[:] = self.random.integers(-32000, 32000, shape)
            z = file.createVariable("z", "f8", ("time", "level", "lat", "lon"), **options)
            z[:] = self.random.standard_normal((times, LEVEL, LAT, LON))
            file.createVariable("orography", "f4", ("lat", "lon"))[:] = self.random.random((LAT, LON))
            sea = self.random.integers(0, 2, (LAT, LON))
            file.createVariable("sea", "i1", ("lat", "lon"))[:] = sea
            file.createVariable("kind", "i2", ("time",))[:] = self.random.integers(0, 5, times)
            file.createVariable("member", "u1", ("ensemble",))[:] = [3, 1]
            file.createVariable("co2", "f8", ("time",))[:] = np.linspace(400, 410, times)
            file.createVariable("runs", "f4", ("ensemble", *grid))[:] = self.random.random((2, *shape))
            group = file.createGroup("ocean")
            group.createVariable("sst", "f4", ("time", "lon", "lat"))[:] = self.random.random((times, LON, LAT))
        return path
