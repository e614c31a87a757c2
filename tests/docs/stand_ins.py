"""What the commands of the pages find: files and folders of the names that the pages use, small ones, made by the program itself and by
the libraries that others use. Each is made once, when it is first asked for."""

import gzip
import io
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile

import h5py
import netCDF4
import numpy as np

from pages import SOURCE
from table import TINY

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import DDPM, make_pictures  # noqa: E402

FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")
random = np.random.default_rng(0)


def normal(*shape):
    return random.standard_normal(shape, np.float32)


def ddpm(folder, *arguments):
    command = [DDPM, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")


def write_config(path, run, sections, model=""):
    path.write_text(TINY.replace("[run]\n", f'[run]\ndirectory = "{run}"\n').replace("[model]\n", f"[model]\n{model}") + sections)


def photos(stock):
    make_pictures(stock / "photos", 30, 20)


def photos_64(stock):
    stock.want("photos")
    ddpm(stock.folder, "data", "create", "photos", "--output", "photos-64", "--size", 64, "--shards", 2)


def my_toml(stock):
    write_config(stock / "my.toml", "runs/mine", '[data]\ntrain = "photos-64"\n[diffusion]\nnum_train_timesteps = 10\n',
                 "sample_size = 64\n")  # fmt: skip


def more_toml(stock):
    (stock / "more.toml").write_text('[data]\nvalidation = "photos-64/validation"\n[validation]\nevery_steps = 2\n[sample]\n'
                                     'every_steps = 2\ncount = 4\nscheduler = "dpmsolver++"\nsteps = 2\n')  # fmt: skip


def runs_mine(stock):
    """A finished run with everything that pages ask of one: several averages, all checkpoints, few timesteps."""
    stock.want("photos-64", "my.toml")
    ddpm(stock.folder, "train", "my.toml", "--train.steps", 4, "--checkpoint.keep_every", 1,
         "--ema.relative_lengths", "[0.05, 0.1]")  # fmt: skip


def celebahq256(stock):
    """A model folder of diffusers, with all files in one folder, as the hub has it."""
    stock.want("runs/mine")
    shutil.copytree(stock / "runs/mine/model/unet", stock / "celebahq256")
    shutil.copy(stock / "runs/mine/model/scheduler/scheduler_config.json", stock / "celebahq256")


def runs_edm(stock):
    stock.want("photos-64", "my.toml")
    ddpm(stock.folder, "train", "my.toml", "--run.directory", "runs/edm", "--diffusion.formulation", "edm",
         "--diffusion.num_train_timesteps", 1000)  # fmt: skip


def lora_run(stock):
    """A run that has trained adapters beside that model."""
    stock.want("celebahq256")
    ddpm(stock.folder, "train", "my.toml", "--run.directory", "runs/lora", "--model.pretrained", "celebahq256", "--model.lora_rank", 2,
         "--model.lora_targets", '["convolutions"]')  # fmt: skip


def faces_toml(stock):
    """Adapters beside that model."""
    write_config(stock / "faces.toml", "runs/faces", '[data]\ntrain = "photos-64"\n[diffusion]\nnum_train_timesteps = 10\n',
                 'pretrained = "celebahq256"\nlora_rank = 2\nlora_targets = ["convolutions"]\n')  # fmt: skip


def adapter(stock):
    stock.want("runs/lora")
    shutil.copytree(stock / "runs/lora/adapter", stock / "adapter")


def downscale(stock):
    """A model that draws fields given coarser ones, and such fields."""
    for name, count in (("fine", 12), ("forecast", 3)):
        with h5py.File(stock / f"{name}.h5", "w") as f:
            f["images"], f["condition"] = normal(count, 16, 16, 2), normal(count, 8, 8, 1)
    model = "in_channels = 3\nout_channels = 2\n"
    write_config(stock / "downscale.toml", "runs/downscale", '[data]\ntrain = "fine.h5"\ncondition = "/condition"\n'
                 '[diffusion]\nformulation = "edm"\n', model)  # fmt: skip
    ddpm(stock.folder, "train", "downscale.toml")


def tars(stock):
    """Two archives in WebDataset's layout, with labels."""
    stock.want("photos")
    pictures = sorted((stock / "photos").rglob("*.png"))
    for i in range(2):
        with tarfile.open(stock / f"train-{i:03}.tar", "w") as tar:
            for number, picture in enumerate(pictures[i::2]):
                tar.add(picture, f"{number:04}.png")
                label = tarfile.TarInfo(f"{number:04}.cls")
                label.size = 1
                tar.addfile(label, io.BytesIO(b"%d" % (number % 3)))


def photos_zip(stock):
    stock.want("photos")
    with zipfile.ZipFile(stock / "photos.zip", "w") as archive:
        for picture in sorted((stock / "photos").rglob("*.png")):
            archive.write(picture, picture.relative_to(stock / "photos"))


def train_tsv(stock):
    stock.want("photos")
    shutil.copytree(stock / "photos", stock / "flower-pictures")
    pictures = sorted((stock / "flower-pictures").rglob("*.png"))
    (stock / "train.tsv").write_text("".join(f"{p.relative_to(stock.folder)}\t{p.parent.name}\n" for p in pictures))


def trees(stock):
    """A set like the one that is made of train.tsv."""
    stock.want("train.tsv")
    ddpm(stock.folder, "data", "create", "train.tsv", "--output", "trees")


def mnist(stock):
    (stock / "mnist").mkdir()
    for part, count in (("train", 20), ("t10k", 5)):
        images = struct.pack(">IIII", 0x803, count, 28, 28) + random.integers(0, 256, count * 784, np.uint8).tobytes()
        labels = struct.pack(">II", 0x801, count) + random.integers(0, 10, count, np.uint8).tobytes()
        for name, data in (("images-idx3", images), ("labels-idx1", labels)):
            (stock / "mnist" / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(data))


def cifar(stock):
    folder = stock / "cifar-10-batches-bin"
    folder.mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = random.integers(0, 256, (6, 3073), np.uint8)
        records[:, 0] = random.integers(0, 10, 6)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    names = "airplane automobile bird cat deer dog frog horse ship truck"
    (folder / "batches.meta.txt").write_text(names.replace(" ", "\n") + "\n")


def era5_h5(stock):
    with h5py.File(stock / "era5.h5", "w") as f:
        f["fields"], f["sst"], f["orography"] = np.abs(normal(16, 16, 32, 2)), normal(16, 8, 16, 1), normal(16, 32, 1)


def fields_h5(stock):
    with h5py.File(stock / "fields.h5", "w") as f:
        f["images"], f["condition"], f["mask"] = normal(8, 16, 16, 2), normal(8, 8, 8, 1), np.ones((8, 16, 16), "u1")


def era5_nc(stock, names=("era5.nc", "era5_2021.nc", "era5_2022.nc")):
    """Six-hourly fields, whose times go on from file to file."""
    for part, name in enumerate(names):
        with netCDF4.Dataset(stock / name, "w") as f:
            for axis, values in (("time", part * 60 + 6 * np.arange(10)), ("level", [1000, 850, 500]), ("latitude", 60 - np.arange(8)),
                                 ("longitude", np.arange(16))):  # fmt: skip
                f.createDimension(axis, len(values))
                f.createVariable(axis, "f8", (axis,))[:] = values
            f["time"].units = "hours since 2021-01-01"
            plane = ("latitude", "longitude")
            for variable in ("t2m", "u10", "v10", "sst"):
                f.createVariable(variable, "f4", ("time", *plane), fill_value=-999.0)[:] = normal(10, 8, 16)
            f.createVariable("z", "f4", ("time", "level", *plane))[:] = normal(10, 3, 8, 16)
            f.createVariable("orography", "f4", plane)[:] = np.arange(128).reshape(8, 16)


def fields_toml(stock):
    """A configuration for such files."""
    write_config(stock / "fields.toml", "runs/fields",
                 '[data]\ntrain = "era5_*.nc"\nvariables = ["t2m", "u10"]\ncondition = "sst"\nstatic = "orography"\n'
                 'normalize = "standardize"\n[diffusion]\nformulation = "edm"\nsigma_data = 1.0\n',
                 "in_channels = 4\nout_channels = 2\n")  # fmt: skip


def era5_with_gaps(stock):
    """The same, with values of what is learned that are missing."""
    era5_nc(stock, ("era5_1979.nc", "era5_1980.nc"))
    with netCDF4.Dataset(stock / "era5_1979.nc", "a") as f:
        f["t2m"][0, 0, :3] = np.ma.masked


def forecast_run(stock):
    """A run that forecasts these fields."""
    stock.want("era5.nc")
    write_config(stock / "forecast.toml", "runs/forecast",
                 '[data]\ntrain = "era5.nc"\nvariables = ["t2m", "u10"]\nlead = 4\ncondition = "sst"\nstatic = "orography"\n'
                 "[diffusion]\nnum_train_timesteps = 10\n", "in_channels = 6\nout_channels = 2\n")  # fmt: skip
    ddpm(stock.folder, "train", "forecast.toml")


def images_npy(stock):
    np.save(stock / "images.npy", normal(20, 16, 16, 3))
    np.save(stock / "labels.npy", random.integers(0, 3, 20))


def era5_samples(stock):
    """A set of fields with a coarser one each, a model of it, and samples of several seeds."""
    np.savez(stock / "era5.npz", images=normal(6, 16, 16, 2), condition=normal(6, 8, 8, 1))
    ddpm(stock.folder, "data", "create", "era5.npz", "--output", "test", "--condition", "condition", "--transform", "standardize")
    write_config(stock / "era5.toml", "runs/era5", '[data]\ntrain = "test"\n[diffusion]\nformulation = "edm"\n',
                 "in_channels = 3\nout_channels = 2\n")  # fmt: skip
    ddpm(stock.folder, "train", "era5.toml")
    for seed, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3")):
        ddpm(stock.folder, "sample", "--model", "runs/era5", "--condition", "test", "--members", 2, "--steps", 2, "--seed", seed,
             "--denormalize", "--format", "dataset", "--output", name)  # fmt: skip


def icons(stock):
    """Two sets of pictures that are as large as those of photos, and two models of the first."""
    stock.want("photos")
    for name, part in (("icons", "a"), ("icons-held-out", "b")):
        ddpm(stock.folder, "data", "create", f"photos/{part}", "--output", name, "--size", 20)
    for run in ("icons", "long"):
        write_config(stock / "icons.toml", f"runs/{run}", '[data]\ntrain = "icons"\n[diffusion]\nnum_train_timesteps = 10\n')
        ddpm(stock.folder, "train", "icons.toml")


def links(stock):
    ddpm(stock.folder, "data", "generate", "u1", "--output", "links", "--count", 100, "--size", 8, "--beta", 1.5)


def quickstart(stock):
    """The quickstart's model, after two steps."""
    config = SOURCE / "jobs/quickstart.toml"
    ddpm(stock.folder, "data", "generate", "glyphs", "--fonts", FONTS, "--characters", "A-Z", "--size", 32, "--count", 20, "--output",
         "runs/quickstart-data")  # fmt: skip
    ddpm(stock.folder, "train", config, "--train.steps", 2, "--batch.global_size", 4, "--batch.micro_size", 2)


def site_sh(stock):
    (stock / "site.sh").write_text("export SITE_WAS_LOADED=1\n")


# By the name that pages use: who makes it, and what else that makes.
MAKERS = {
    "photos": (photos, ()),
    "photos-64": (photos_64, ()),
    "my.toml": (my_toml, ()),
    "more.toml": (more_toml, ()),
    "runs/mine": (runs_mine, ()),
    "celebahq256": (celebahq256, ()),
    "runs/edm": (runs_edm, ()),
    "runs/lora": (lora_run, ()),
    "adapter": (adapter, ()),
    "faces.toml": (faces_toml, ()),
    "runs/downscale": (downscale, ("fine.h5", "forecast.h5")),
    "train-000.tar": (tars, ("train-001.tar",)),
    "photos.zip": (photos_zip, ()),
    "train.tsv": (train_tsv, ("flower-pictures",)),
    "trees": (trees, ()),
    "mnist": (mnist, ()),
    "cifar-10-batches-bin": (cifar, ()),
    "era5.h5": (era5_h5, ()),
    "fields.h5": (fields_h5, ()),
    "era5.nc": (era5_nc, ("era5_2021.nc", "era5_2022.nc")),
    "era5_1979.nc": (era5_with_gaps, ("era5_1980.nc",)),
    "fields.toml": (fields_toml, ()),
    "runs/forecast": (forecast_run, ()),
    "images.npy": (images_npy, ("labels.npy",)),
    "runs/era5": (era5_samples, ("test", "a1", "a2", "a3", "b1", "b2", "b3")),
    "icons": (icons, ("icons-held-out", "runs/icons", "runs/long")),
    "links": (links, ()),
    "runs/quickstart": (quickstart, ()),
    "site.sh": (site_sh, ()),
}


class Stock:
    """Stand-ins that sandboxes are made of."""

    def __init__(self, folder):
        self.folder = folder
        self.made = set()
        folder.mkdir(parents=True)

    def __truediv__(self, name):
        return self.folder / name

    def want(self, *names):
        for name in names:
            if name not in self.made:
                self.made.add(name)
                MAKERS[name][0](self)

    def put(self, name, sandbox, called):
        """Copies a stand-in into a sandbox, under another name if the page has another one for it."""
        self.want(name)
        for one in (name, *MAKERS[name][1]):
            target = sandbox / (called if one == name else one)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (self / one).is_dir():
                shutil.copytree(self / one, target, dirs_exist_ok=True)
            else:
                shutil.copy(self / one, target)
