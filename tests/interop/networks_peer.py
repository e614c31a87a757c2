"""Whether the files that other programs run compute what ddpm does: PyTorch without ddpm, onnxruntime, torch.export.

Each FOLDER/NAME.safetensors holds inputs under their names in the files, and ddpm's `output`. Beside it lie NAME.pt, a
TorchScript module, NAME.onnx, and NAME/, a model folder with export.py.
"""

import pathlib
import runpy
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.torch import load_file

TOLERANCE = 1e-5
STANDARD = ("aten", "prim")


def error_of(seen, wanted):
    assert seen.shape == wanted.shape and seen.dtype == torch.float32, (seen.shape, seen.dtype, wanted.shape)
    return ((seen - wanted).norm() / wanted.norm()).item()


def repeated(inputs, count):
    """So many images, of which the given ones are the first."""
    return {name: torch.cat([value] * count)[:count].contiguous() for name, value in inputs.items()}


def check_torchscript(path, inputs, wanted):
    module = torch.jit.load(path)
    names = {argument.name for argument in module.forward.schema.arguments} - {"self"}
    assert names == set(inputs), (names, set(inputs))
    for node in module.inlined_graph.nodes():
        assert node.kind().split("::")[0] in STANDARD, node.kind()
    with torch.no_grad():
        errors = [error_of(module(**inputs), wanted)]
        for count in (1, 3):
            errors.append(error_of(module(**repeated(inputs, count)), torch.cat([wanted] * count)[:count]))
    return max(errors)


def check_onnx(path, inputs, wanted):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert {value.name for value in session.get_inputs()} == set(inputs), session.get_inputs()
    errors = []
    for count in (len(wanted), 1, 3):
        given = {name: value.numpy() for name, value in repeated(inputs, count).items()}
        (seen,) = session.run(None, given)
        errors.append(error_of(torch.from_numpy(np.asarray(seen)), torch.cat([wanted] * count)[:count]))
    return max(errors)


def check_program(folder, inputs, wanted):
    """torch.export's program, which export.py of a model folder makes; of diffusers' own models it gives a tuple."""
    program = folder.with_suffix(".pt2")
    arguments, path = sys.argv, list(sys.path)
    sys.argv = ["export.py", str(program)]
    sys.path.insert(0, str(folder))  # as Python does for a script
    sys.modules.pop("field_unet", None)
    try:
        runpy.run_path(str(folder / "export.py"), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = arguments, path
    module = torch.export.load(program).module()
    own = (folder / "field_unet.py").exists()
    errors = []
    for count in (len(wanted), 1, 3):
        given = repeated(inputs, count)
        if own:
            given["timesteps"] = given.pop("timestep")
        else:
            given["return_dict"] = False
        with torch.no_grad():
            seen = module(**given)
        errors.append(error_of(seen if own else seen[0], torch.cat([wanted] * count)[:count]))
    return max(errors)


def check(folder, programs):
    """Checks all models of the folder, and torch.export's programs of so many."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    cases = sorted(folder.glob("*.safetensors"))
    assert cases, folder
    worst = {"torchscript": 0.0, "onnx": 0.0, "torch.export": 0.0}
    for i, path in enumerate(cases):
        inputs = load_file(path)
        wanted = inputs.pop("output")
        found = {
            "torchscript": check_torchscript(path.with_suffix(".pt"), inputs, wanted),
            "onnx": check_onnx(path.with_suffix(".onnx"), inputs, wanted),
        }
        if i < programs:
            found["torch.export"] = check_program(path.with_suffix(""), inputs, wanted)
        for kind, error in found.items():
            worst[kind] = max(worst[kind], error)
            assert error < TOLERANCE, f"{path.stem} as {kind}: {error}"
    print(f"{len(cases)} networks, {min(programs, len(cases))} programs of torch.export; largest errors {worst}")


if __name__ == "__main__":
    check(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
