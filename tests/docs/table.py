"""What stands between the pages and their commands: what may be changed in a command, which ones are not run and why, and what a page
finds when its first command starts. tests/docs/commands_test.py runs the rest as it stands there."""

from dataclasses import dataclass

# --- Pending -------------------------------------------------------------------------------------------------------------
# Commands and tables of pages that are ahead of the program: (page, beginning). Empty it when the program has them; a test fails for
# one that works meanwhile.
PENDING = []

# Subcommands and options that pages name within sentences, too.
PENDING_SPOKEN = []

# --- Substitutions -------------------------------------------------------------------------------------------------------
# Everything that may change a command, in this order: (what, by what, where: a part of the page's path, or "" for all). They also
# change the examples' run.sh in the sandbox. What is dear becomes cheap; names, options and their order stay.
TINY = """[run]
device = "cpu"
[model]
block_out_channels = [8, 16]
down_block_types = ["DownBlock2D", "DownBlock2D"]
up_block_types = ["UpBlock2D", "UpBlock2D"]
layers_per_block = 1
norm_num_groups = 4
attention_head_dim = 8
[batch]
global_size = 4
micro_size = 2
[train]
steps = 2
[lr_schedule]
warmup_steps = 1
[precision]
mixed_precision = "no"
[validation]
images = 0
[checkpoint]
every_steps = 1
"""
# Tables of TOML are checked on top of these.
BASE = TINY.replace("[run]\n", '[run]\ndirectory = "run"\n').replace("[model]\n", "[model]\nsample_size = 64\n") + '[data]\ntrain = "set"\n'
REAL = "first-run|tutorial|jobs/"  # where configurations have models of a size that people want
SUBSTITUTIONS = [
    # Forms of a command: what is optional is left out, and of several words the first is taken.
    (r" \[(?=[\w-])[^\]]*\]+", "", "export|run.sh"),
    (r"(\w+)(\|[\w:]+)+", r"\1", "export"),
    ("SOURCE…", "SOURCE", ""),
    # Ranks: this machine may have two cores.
    (r"mpirun -np \d+", "mpirun -np 2", ""),
    (r"--parallel.dp_shard_size \d+", "--parallel.dp_shard_size 2", ""),
    (r"--parallel.spatial_size ('[^']+'|\d+)", "--parallel.spatial_size 2", ""),
    (r"--parallel.(tensor|pipeline)_size \d+", r"--parallel.\1_size 2", ""),
    # Trainings are of a tiny model, where the page has not made one.
    (r"(\btrain(?:\.sbatch)?(?: \S+\.toml)+)(?!.*--dry-run)", r"\1 tiny.toml", REAL),
    ("tiny.toml", "tiny.toml --model.add_attention false", "celebahq256"),
    (r"run.sh$", "run.sh --train.steps 2 --batch.global_size 4 --batch.micro_size 2", "run.sh"),
    (r"--world \d+", "--world 2", "docs/plan|tutorial-fields"),
    (r"--batch.micro_size \d+", "--batch.micro_size 1", ""),
    # Few samples, few steps, small pictures and messages.
    (r"\{000\.\.146\}", "{000..001}", ""),
    (r"--count \d+", "--count 4", ""),
    (r"--validation-share \d+%", "--validation-share 40%", ""),
    (r"--members \d+", "--members 2", ""),
    (r"--steps \d+", "--steps 2", ""),
    (r"set_timesteps\(\d+\)", "set_timesteps(2)", "export"),
    (r"pipeline\(batch_size=1\)", "pipeline(batch_size=1, num_inference_steps=2)", "export"),
    (r"(data generate (?:glyphs|grf)(?!.*--count).*)", r"\1 --count 20", "jobs|examples|run.sh|first-run|data/README"),
    (r"ddpm doctor", "ddpm doctor --max-mib 1 --file-mib 1", ""),
    (r"bench comm", "bench comm --max-mib 1", ""),
    (r"bench io my.toml", "bench io my.toml --repeats 1", ""),
    (r"bench step my.toml", "bench step my.toml --steps 1 --warm-up 0", ""),
    (r"bench stages my.toml --stages 4", "bench stages my.toml --stages 2 --repeats 1", ""),
    (r"bench sample my.toml", "bench sample my.toml --steps 1 --batch 1 --repeats 1", ""),
]


# --- Not run -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Listed:
    """Commands of a page that begin like this are not run: why, and the file that tries them, if there is one."""

    page: str
    beginning: str
    why: str
    test: str = ""


NETWORK = "needs the network, and accounts"
MINUTES = "takes many minutes, and measures"
LISTED = [
    Listed("README.md", "jobs/quickstart.sh", "installs, builds and trains for 25 minutes; docs/first-run.md has its commands"),
    Listed("README.md", "tests/run.sh", "is what runs this test", ".ci/run"),
    Listed("CONTRIBUTING.md", "tests/run.sh", "is what runs this test", ".ci/run"),
    Listed("CONTRIBUTING.md", "git config", "changes the clone"),
    Listed("CONTRIBUTING.md", "cmake --preset debug", "builds everything"),
    Listed("CONTRIBUTING.md", "ctest", "is what runs this test", "tests/run.sh"),
    Listed("data/README.md", "modules/setup.sh", "fetches packages", "tests/run.sh"),
    Listed("docs/cuda.md", "modules/setup.sh", "fetches packages"),
    Listed("docs/cuda.md", "cmake ", "builds everything", "tests/run.sh"),
    Listed("docs/cuda.md", "ddpm train", "needs a GPU", "tests/train/gpu_test.py"),
    Listed("docs/evaluation.md", "import torch, torchvision", "needs torchvision, and the network for its weights"),
    Listed("docs/fault-tolerance.md", "tests/soak.py --launcher", "needs an allocation of a real Slurm"),
    Listed("docs/fault-tolerance.md", "tests/soak.py", "takes an hour; its short form is a test", "tests/faults/soak_test.py"),
    Listed("docs/finetuning.md", "hf ", NETWORK),
    Listed("docs/generate.md", "DDPM=build/release/ddpm", "takes many minutes; its short form is a test", "tests/generate/truth_test.py"),
    Listed("docs/gpu.md", "tests/gpu/pack.sh", "needs a build with CUDA", "tests/gpu/kit_test.py"),
    Listed("docs/gpu.md", "tar xf", "needs a GPU", "tests/gpu/kit_test.py"),
    Listed("docs/gpu.md", "ddpm-gpu-box/box.sh", "needs a GPU", "tests/gpu/kit_test.py"),
    Listed("docs/gpu.md", "mpirun -np 2 ddpm train", "needs a GPU", "tests/train/gpu_test.py"),
    Listed("docs/installing.md", "cmake --install", "installs", "tests/package/install_test.py"),
    Listed("docs/installing.md", "cpack", "makes the tarball", "tests/package/tarball_test.py"),
    Listed("docs/installing.md", "module ", "needs a module system", "tests/package/modules_test.py"),
    Listed("docs/installing.md", 'sbatch "$DDPM_JOBS/train.sbatch"', "follows `module load`", "tests/package/modules_test.py"),
    Listed("docs/installing.md", "modules/setup.sh", "fetches LibTorch", "tests/run.sh"),
    Listed("docs/installing.md", "sha256sum", "takes the bundle", "tests/package/bundle_test.py"),
    Listed("docs/installing.md", "tar -xOf", "takes the bundle", "tests/package/bundle_test.py"),
    Listed("docs/installing.md", "cmake --preset release", "builds everything", "tests/run.sh"),
    Listed("docs/installing.md", "cmake --build", "builds everything", "tests/run.sh"),
    Listed("docs/installing.md", "cmake --preset mpich", "builds everything", "tests/run.sh"),
    Listed("docs/installing.md", "DDPM_MPI=mpich tests/run.sh", "builds everything"),
    Listed("docs/installing.md", "tests/arm.sh", "builds for another processor"),
    Listed("docs/installing.md", "cmake --preset aarch64-libtorch", "builds for another processor"),
    Listed("docs/library.md", "cmake --install", "installs", "tests/examples/own_model_test.py"),
    Listed("docs/performance.md", "tests/peers/setup.sh", "fetches packages", "tests/run.sh"),
    Listed("docs/performance.md", "~/.cache", MINUTES),
    Listed("docs/quality.md", "tests/peers/setup.sh", "fetches packages", "tests/run.sh"),
    Listed("docs/quality.md", "~/.cache", MINUTES),
    Listed("docs/running.md", "hf ", NETWORK),
    Listed("docs/scaling.md", "jobs/scaling/study.py", "needs a Slurm cluster", "tests/slurm/scaling_test.py"),
    Listed("docs/scaling.md", "sudo ", MINUTES),
    Listed("docs/sites.md", "jobs/submit.sh", "needs PBS or Flux", "tests/jobs/batch_test.py"),
    Listed("docs/sites.md", "TRAIN_", "needs PBS or Flux", "tests/jobs/batch_test.py"),
    Listed("docs/sites.md", "qsub ", "needs PBS", "tests/jobs/batch_test.py"),
    Listed("docs/sites.md", "flux ", "needs Flux", "tests/jobs/batch_test.py"),
    Listed("docs/sites.md", "spack ", "needs Spack", "tests/package/recipes_test.py"),
    Listed("docs/sites.md", "git archive", "is for EasyBuild", "tests/package/easyconfig_test.py"),
    Listed("docs/sites.md", "eb ", "needs EasyBuild, and builds for hours", "tests/package/easyconfig_test.py"),
    Listed("docs/sites.md", "cpack", "makes the tarball", "tests/package/tarball_test.py"),
    Listed("docs/sites.md", "packaging/image.sh", "takes the tarball", "tests/package/image_test.py"),
    Listed("docs/sites.md", "skopeo copy", "takes the image", "tests/package/image_test.py"),
    Listed("docs/sites.md", "podman build", "needs a registry of base images", "tests/package/recipes_test.py"),
    Listed("docs/sites.md", "apptainer", "needs Apptainer; the page says that it is not tested"),
    Listed("docs/sites.md", "mpirun -np 4 apptainer", "needs Apptainer; the page says that it is not tested"),
    Listed("docs/sites.md", "packaging/debian_root.sh", "fetches packages", "tests/package/recipes_test.py"),
    Listed("docs/sites.md", "srun --mpi=pmi2", "needs Apptainer; the page says that it is not tested"),
    Listed("docs/sites.md", "srun --mpi=pmix", "needs Apptainer; the page says that it is not tested"),
    Listed("docs/tutorial-fields.md", "examples/superresolution/run.sh", "is run as the head of the script has it; the page's other commands "
           "are its parts", "examples/superresolution/run.sh"),
    Listed("examples/exam/README.md", "examples/exam/run.sh", "trains five models", "tests/examples/exam_test.py"),
    Listed("examples/exam/README.md", "python3 examples/exam", "reads what these leave", "tests/examples/exam_test.py"),
    Listed("examples/exam/README.md", "ddpm eval fields", "reads what these leave", "tests/examples/exam_test.py"),
    Listed("examples/exam/run.sh", "examples/exam/run.sh", "trains five models", "tests/examples/exam_test.py"),
    Listed("examples/own_model/README.md", "", "builds against an installation", "tests/examples/own_model_test.py"),
    Listed("jobs/scaling/study.toml", "jobs/scaling/study.py", "needs a Slurm cluster", "tests/slurm/scaling_test.py"),
]

# Tables of TOML that are no configuration of a run.
TOML_OF_MACHINES = [("docs/plan.md", "[machine]")]

# --- What a page finds ---------------------------------------------------------------------------------------------------
# Stand-ins of tests/docs/stand_ins.py, under the name that the page has for them.
PRELUDE = {
    "docs/cuda.md": ["my.toml", "photos-64"],
    "docs/data.md": ["photos=SOURCE", "my.toml", "photos-64", "train-000.tar", "photos.zip",
                     "train.tsv", "trees", "mnist", "cifar-10-batches-bin", "era5.h5", "fields.h5", "images.npy", "era5_1979.nc"],
    "docs/checkpoints.md": ["my.toml", "photos-64", "runs/mine=RUN"],
    "docs/data-reading.md": ["my.toml", "photos-64", "trees"],
    "docs/evaluation.md": ["runs/era5", "icons", "links", "photos=pictures"],
    "docs/doctor.md": ["my.toml", "photos-64"],
    "docs/export.md": ["runs/mine=DIR", "runs/edm"],
    "docs/finetuning.md": ["runs/mine=RUN", "runs/mine=runs/flowers", "celebahq256", "adapter=RUN/adapter", "runs/lora=runs/first", "photos", "photos-64",
                           "faces.toml"],
    "docs/first-run.md": ["photos"],
    "docs/foreign.md": ["era5.nc", "era5.nc=new.nc", "runs/forecast=RUN"],
    "docs/installing.md": ["my.toml", "photos-64", "site.sh"],
    "docs/parallel.md": ["my.toml", "photos-64"],
    "docs/performance.md": ["my.toml", "photos-64"],
    "docs/plan.md": ["my.toml", "photos-64"],
    "docs/report.md": ["runs/mine", "runs/mine=runs/a", "runs/mine=runs/b"],
    "docs/running.md": ["my.toml", "photos-64", "runs/mine=RUN"],
    "docs/sampling.md": ["runs/downscale", "runs/mine"],
    "docs/scaling.md": ["my.toml"],
    "docs/slurm.md": ["my.toml", "photos", "photos-64"],
    "docs/trackers.md": ["runs/mine"],
    "docs/tutorial-fields.md": ["era5.nc=new.nc", "fields.toml"],
    "docs/tutorial-pictures.md": ["photos", "more.toml"],
    "data/README.md": ["mnist", "cifar-10-batches-bin", "photos=home/Pictures", "photos=home/.cache/ddpm/pictures/32x32"],
    "examples/lora/run.sh": ["runs/quickstart"],
    "jobs/celebahq256.toml": ["photos=celeba-hq"],
    "jobs/cifar10-classes.toml": ["cifar-10-batches-bin"],
    "jobs/cifar10.toml": ["cifar-10-batches-bin"],
    "jobs/lightning64.toml": ["photos"],
}

# What blocks of Python take for granted, since the text around them says it.
# (page, a part of the block, what is run before it)
PYTHON_BEFORE = [
    ("docs/export.md", "torch.", "import torch\nnoisy, timesteps = torch.randn(2, 3, 64, 64), torch.tensor([1, 3])\n"),
    ("docs/export.md", "onnxruntime", "import numpy\nnoisy, timesteps = numpy.zeros((2, 3, 64, 64), 'float32'), numpy.array([1, 3])\n"),
]

# --- Groups --------------------------------------------------------------------------------------------------------------
# Tests that run beside each other, of about equal length. A page that is in none is run with "runs".
GROUPS = {
    "begin": ["README.md", "CONTRIBUTING.md", "docs/first-run.md", "docs/installing.md", "docs/tutorial-fields.md",
              "docs/tutorial-pictures.md", "docs/slurm.md", "docs/trackers.md", "docs/doctor.md"],
    "data": ["data/README.md", "docs/data.md", "docs/data-format.md", "docs/data-reading.md", "docs/generate.md", "docs/foreign.md"],
    "examples": [],  # the heads of configurations and scripts, and the examples' pages
    "runs": [],
}  # fmt: skip
