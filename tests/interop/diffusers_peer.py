"""diffusers' side of diffusers_peer_test.cpp.

check FOLDER: each FOLDER/NAME is a pipeline that ddpm wrote, FOLDER/NAME.safetensors an input and ddpm's prediction.
write FOLDER: the reverse, for some models of diffusers' own.
"""

import json
import sys
from pathlib import Path

import torch
from diffusers import DDIMScheduler, DDPMPipeline, DDPMScheduler, DDIMPipeline, UNet2DModel
from safetensors.torch import load_file, save_file

TOLERANCE = 2e-5


def predict(unet, case):
    with torch.no_grad():
        return unet(case["x"], case["timesteps"], class_labels=case.get("labels")).sample


def check(folder):
    cases = sorted(folder.glob("*.safetensors"))
    assert len(cases) == 10, cases
    for path in cases:
        model = path.with_suffix("")
        if model.name in ("parameters", "torus", "cylinder", "volume", "periodic volume"):
            check_own(model, load_file(path))
            continue
        pipeline = from_parts(model) if model.name == "fields" else DDPMPipeline.from_pretrained(model)
        case = load_file(path)
        wanted = predict(pipeline.unet.eval(), case)
        error = ((case["output"] - wanted).norm() / wanted.norm()).item()
        assert error < TOLERANCE, f"{model.name}: {error}"
        check_configs(pipeline, model)
        if model.name == "classes":
            assert json.loads((model / "class_names.json").read_text()) == ["cat", "dog", "newt", "zebra"]
        if model.name == "plain":
            pipeline.set_progress_bar_config(disable=True)
            images = pipeline(batch_size=1, num_inference_steps=2, output_type="np").images
            assert images.shape == (1, 16, 16, 3)


def from_parts(model):
    """A model that is given more than noisy images: DDPMPipeline would draw something else, and refuses the folder."""
    try:
        DDPMPipeline.from_pretrained(model)
    except (AttributeError, ValueError) as error:
        assert "MoreInputs" in str(error), error
    else:
        raise AssertionError("DDPMPipeline gives the model nothing beside noisy images")
    unet = UNet2DModel.from_pretrained(model, subfolder="unet")
    return DDPMPipeline(unet, DDPMScheduler.from_pretrained(model, subfolder="scheduler"))


def check_own(model, case):
    """diffusers has no class for it and refuses the folder; the file that comes with it computes the model."""
    for load in [
        lambda: DDPMPipeline.from_pretrained(model),
        lambda: UNet2DModel.from_pretrained(model / "unet"),
        lambda: UNet2DModel.from_pretrained(model, subfolder="unet"),
    ]:
        try:
            load()
        except (AttributeError, OSError, ValueError) as error:
            print(f"refused: {error}")
        else:
            raise AssertionError("diffusers computes something else")
    sys.path.insert(0, str(model))
    from field_unet import FieldUNet2D

    sys.path.pop(0)
    unet = FieldUNet2D.from_folder(model)
    if "volume" in model.name:
        depth = json.loads((model / "unet" / "config.json").read_text())["sample_size"][0]
        case = {key: value.unflatten(2, (depth, -1)) if value.dim() == 4 else value for key, value in case.items()}
    with torch.no_grad():
        wanted = unet(case["x"], case["timesteps"], case.get("parameters"), case.get("labels"))
        error = ((case["output"] - wanted).norm() / wanted.norm()).item()
        assert error < TOLERANCE, f"{model.name}: {error}"
        if "parameters" in case:
            kept = unet(case["x"], case["timesteps"], case["parameters"], kept=torch.tensor([True, False]))
            assert torch.equal(kept[0], wanted[0]) and not torch.equal(kept[1], wanted[1])
        odd = None if "parameters" in case else torch.zeros(2, 1)
        try:
            unet(case["x"], case["timesteps"], odd, case.get("labels"))
        except ValueError as error:
            assert "parameters" in str(error), error
        else:
            raise AssertionError("those of the call before were taken")


def check_configs(pipeline, model):
    """What diffusers writes again has the same keys and values as what ddpm wrote."""
    again = model.with_name(model.name + ".again")
    pipeline.save_pretrained(again)
    for name in ["model_index.json", "unet/config.json", "scheduler/scheduler_config.json"]:
        ours = json.loads((model / name).read_text())
        theirs = json.loads((again / name).read_text())
        for private in ["_name_or_path", "_diffusers_version"]:
            theirs.pop(private, None)
            ours.pop(private, None)
        if model.name == "fields" and name == "model_index.json":
            assert (ours["_class_name"], ours["unet"]) == ("MoreInputsPipeline", ["diffusers", "MoreInputsUNet2D"]), ours
            ours |= {"_class_name": "DDPMPipeline", "unet": ["diffusers", "UNet2DModel"]}
        assert ours == theirs, f"{model.name}/{name}: {ours} {theirs}"
    assert pipeline.scheduler.config.prediction_type == "v_prediction"
    assert isinstance(pipeline.scheduler, DDPMScheduler)


def write(folder):
    torch.manual_seed(0)
    common = {
        "sample_size": 16,
        "block_out_channels": (16, 32),
        "layers_per_block": 1,
        "norm_num_groups": 8,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    models = {
        "plain": {},
        "classes": {"class_embed_type": "timestep", "dropout": 0.1},
        "shifted": {"resnet_time_scale_shift": "scale_shift", "attention_head_dim": None, "mid_block_type": None},
    }
    for name, changes in models.items():
        unet = UNet2DModel(**{**common, **changes}).eval()
        DDIMPipeline(unet, DDIMScheduler()).save_pretrained(folder / name)
        case = {"x": torch.randn(2, 3, 16, 16), "timesteps": torch.tensor([5, 800])}
        if name == "classes":
            case["labels"] = torch.tensor([0, 7])
        save_file({**case, "output": predict(unet, case)}, folder / f"{name}.safetensors")


if __name__ == "__main__":
    verb, path = sys.argv[1:]
    (check if verb == "check" else write)(Path(path))
