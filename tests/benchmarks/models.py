"""Models of growing size for 32 x 32 pictures, as keys of [model]."""

SMALL = {
    "sample_size": 32,
    "layers_per_block": 1,
    "block_out_channels": [16, 32, 64],
    "down_block_types": ["DownBlock2D", "DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D", "UpBlock2D"],
    "norm_num_groups": 8,
}
MEDIUM = {
    "sample_size": 32,
    "layers_per_block": 2,
    "block_out_channels": [64, 128, 128],
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "AttnUpBlock2D", "UpBlock2D"],
    "norm_num_groups": 32,
}
# diffusers' train_unconditional.py: 113,673,219 parameters.
LARGE = {
    "sample_size": 32,
    "layers_per_block": 2,
    "block_out_channels": [128, 128, 256, 256, 512, 512],
    "down_block_types": ["DownBlock2D"] * 4 + ["AttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "AttnUpBlock2D"] + ["UpBlock2D"] * 4,
    "norm_num_groups": 32,
}
MODELS = {"small": SMALL, "medium": MEDIUM, "large": LARGE}
# Two levels of convolutions alone, for fields of any size; without block_out_channels.
CONVOLUTIONS = {
    "layers_per_block": 1,
    "down_block_types": ["DownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "UpBlock2D"],
    "norm_num_groups": 8,
    "add_attention": False,
}
# jobs/lightning64.toml: UNet2DModel(sample_size=64), whose other keys are diffusers' defaults.
LIGHTNING64 = {
    "sample_size": 64,
    "layers_per_block": 2,
    "block_out_channels": [224, 448, 672, 896],
    "down_block_types": ["DownBlock2D"] + ["AttnDownBlock2D"] * 3,
    "up_block_types": ["AttnUpBlock2D"] * 3 + ["UpBlock2D"],
    "norm_num_groups": 32,
}
