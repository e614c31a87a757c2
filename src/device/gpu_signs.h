// Finds signs that a job has GPUs, whether or not this program can use them.
#pragma once

#include <filesystem>
#include <string>

#include "comm/launch.h"

namespace ddpm::device {

/// The first sign that this process was given GPUs: "SLURM_JOB_GPUS=0,1", "CUDA_VISIBLE_DEVICES=0", "/dev/nvidia0"; ""
/// when there is none. An empty CUDA_VISIBLE_DEVICES, or one of -1, hides all of them on purpose. `devices` is the
/// folder of device files.
std::string gpu_sign(const comm::Environment& environment, const std::filesystem::path& devices = "/dev");

}  // namespace ddpm::device
