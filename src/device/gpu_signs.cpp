#include "device/gpu_signs.h"

#include <array>
#include <system_error>

namespace ddpm::device {
namespace {

constexpr std::array kSlurm{"SLURM_STEP_GPUS",     "SLURM_JOB_GPUS",      "SLURM_GPUS_ON_NODE",   "SLURM_GPUS",
                            "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET"};
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

bool says_none(const std::string& value) { return value.empty() || value == "-1" || value == "NoDevFiles"; }

}  // namespace

std::string gpu_sign(const comm::Environment& environment, const std::filesystem::path& devices) {
  const auto visible = environment(kVisible);
  if (visible && says_none(*visible)) return "";
  for (const char* name : kSlurm) {
    const auto value = environment(name);
    if (value && !value->empty() && *value != "0") return std::string(name) + "=" + *value;
  }
  if (visible) return std::string(kVisible) + "=" + *visible;
  std::error_code error;
  const auto file = devices / "nvidia0";
  return std::filesystem::exists(file, error) ? file.string() : "";
}

}  // namespace ddpm::device
