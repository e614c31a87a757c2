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

TOLERANCE = 1e-4


def predict(unet, case):
    with torch.no_grad():
        return unet(case["x"], case["timesteps"], class_labels=case.get("labels")).sample


def check(folder):
    cases = sorted(folder.glob("*.safetensors"))
    assert len(cases) == 4, cases
    for path in cases:
        model = path.with_suffix("")
        pipeline = DDPMPipeline.from_pretrained(model)
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
