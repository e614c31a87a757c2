"""Draws small configurations of UNet2DModel, most of which run: draw(seed, i) is always the same one."""

import random

DOWN = ["DownBlock2D", "ResnetDownsampleBlock2D", "AttnDownBlock2D", "SkipDownBlock2D", "AttnSkipDownBlock2D", "KDownBlock2D"]
UP = ["UpBlock2D", "ResnetUpsampleBlock2D", "AttnUpBlock2D", "SkipUpBlock2D", "AttnSkipUpBlock2D", "KUpBlock2D"]
NOT_RUNNABLE_DOWN = ["CrossAttnDownBlock2D", "SimpleCrossAttnDownBlock2D", "DownEncoderBlock2D", "AttnDownEncoderBlock2D"]
NOT_RUNNABLE_UP = ["CrossAttnUpBlock2D", "SimpleCrossAttnUpBlock2D", "UpDecoderBlock2D", "AttnUpDecoderBlock2D"]


def blocks(r, levels):
    """Types of the way down and of the way up: mixed freely, or of a family that fits together."""
    family = r.choices(["plain", "skip", "k", "any", "not runnable"], [8, 5, 3, 3, 1])[0]
    if family == "plain":
        return [r.choice(DOWN[:3]) for _ in range(levels)], [r.choice(UP[:3]) for _ in range(levels)]
    if family == "k":
        return ["KDownBlock2D"] * levels, ["KUpBlock2D"] * levels
    if family == "skip":  # skips from the image on downwards, and up to the image
        first, last = r.randint(0, levels), r.randint(0, levels)
        down = [r.choice(DOWN[3:5] if i < first else DOWN[:3]) for i in range(levels)]
        return down, [r.choice(UP[3:5] if i >= levels - last else UP[:3]) for i in range(levels)]
    down, up = [r.choice(DOWN) for _ in range(levels)], [r.choice(UP) for _ in range(levels)]
    if family == "not runnable":
        if r.random() < 0.5:
            down[r.randrange(levels)] = r.choice(NOT_RUNNABLE_DOWN)
        else:
            up[r.randrange(levels)] = r.choice(NOT_RUNNABLE_UP)
    return down, up


def embeddings(r, width):
    config = {"time_embedding_type": r.choices(["positional", "fourier", "learned"], [6, 2, 2])[0]}
    if config["time_embedding_type"] == "learned":
        config["num_train_timesteps"] = r.choice([10, 50])
    config["time_embedding_dim"] = r.choice([None, 24, 32])
    config["flip_sin_to_cos"] = r.random() < 0.7
    # The last one makes frequencies grow, though little: larger angles would show the rounding of float32 alone.
    config["freq_shift"] = r.choice([0, 0, 1, -2, 20 * width])
    classes = r.choices(["none", "table", "timestep", "identity"], [5, 2, 1, 1])[0]
    if classes == "table":
        config["num_class_embeds"] = r.choice([1, 7])
    elif classes != "none":
        config["class_embed_type"] = classes
        config["time_embedding_dim"] = 32  # identity takes labels of this width
    return config


def draw(seed, i):
    """UNet2DModel's arguments, images, height, width."""
    r = random.Random(seed * 1_000_003 + i)
    levels = r.choices([1, 2, 3], [1, 4, 2])[0]
    down, up = blocks(r, levels)
    types = down + up
    wide = any(name[0] == "K" or name.startswith("AttnSkip") for name in types)
    own_groups = all("Skip" in name or name[0] == "K" for name in types)  # diffusers' other blocks do not run with None
    choices = [32, 64, 32] if wide else [8, 12, 16, 24]
    groups = None if r.random() < (0.5 if own_groups else 0.02) else r.choice([4, 4, 2, 1, 8])
    channels = [r.choice(choices) for _ in range(levels)]
    if r.random() < 0.05:
        channels[r.randrange(levels)] = r.choice([6, 10, 40])
    has_pictures = any("Skip" in name for name in types)
    config = {
        "block_out_channels": channels,
        "down_block_types": down,
        "up_block_types": up,
        "layers_per_block": r.choices([1, 2], [3, 1])[0],
        "norm_num_groups": groups,
        "in_channels": 3 if has_pictures and r.random() < 0.95 else r.choice([1, 3, 4]),
        "out_channels": 3 if has_pictures and r.random() < 0.95 else r.choice([1, 3, 5]),
        "act_fn": r.choice(["silu", "swish", "mish", "gelu", "relu"]),
        "attention_head_dim": r.choice([None, 1, 2, 4, 8, 3]),
        "mid_block_type": r.choices(["UNetMidBlock2D", None], [4, 1])[0],
        "mid_block_scale_factor": r.choice([1, 1.4142135623730951, -1.5]),
        "add_attention": r.random() < 0.7,
        "attn_norm_num_groups": r.choice([None, None, 2, 4]),
        "resnet_time_scale_shift": r.choice(["default", "scale_shift"]),
        "downsample_type": r.choice(["conv", "resnet"]),
        "upsample_type": r.choice(["conv", "resnet"]),
        "downsample_padding": r.choice([0, 1]),
        "norm_eps": r.choice([1e-5, 1e-3]),
        "center_input_sample": r.random() < 0.2,
        "dropout": r.choice([0.0, 0.1]),
        **embeddings(r, channels[0]),
    }
    unit = 2 ** (levels - 1)
    height, width = (unit * r.choice([2, 3, 4]) for _ in range(2))
    return config, r.choice([1, 2]), height, width
