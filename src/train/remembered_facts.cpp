#include "train/remembered_facts.h"

#include <cmath>

#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include "base/counted.h"
#include "base/version.h"
#include "comm/collectives.h"
#include "comm/mpi_library.h"
#include "device/choose_device.h"
#include "device/device_library.h"
#include "device/processor_name.h"
#include "train/readable_state.h"

namespace ddpm::train {
namespace {

/// What this rank computes with, and the versions beneath it.
struct Device {
  std::string name;
  std::string versions;
};

Device describe(at::Device device) {
  if (!device.is_cuda()) return {device::processor_name(), ""};
  const device::DeviceFacts facts = device::DeviceLibrary().describe_devices();
  return {device::gpu_of(facts, device).name, fmt::format(", CUDA {}, NCCL {}", facts.runtime, facts.nccl)};
}

}  // namespace

TrainingFacts gather_facts(const Task& task, const run::Runtime& runtime) {
  comm::MpiSession& session = runtime.session;
  const int64_t hosts =
      comm::all_reduce(session.world(), int64_t{session.local_rank() == 0 ? 1 : 0}, comm::ReduceOp::sum);
  const auto [name, versions] = describe(task.place.device);
  return {
      .hardware = fmt::format("{} on {}; {}{}{}", base::counted(session.size(), "rank"), base::counted(hosts, "host"),
                              task.place.device.is_cuda() ? "GPU" : "CPU", name.empty() ? "" : ": ", name),
      .software = fmt::format("LibTorch {}.{}.{}, {}{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH,
                              comm::mpi_library_version(), versions),
      .program = base::kVersion};
}

void RememberedFacts::set_statistics(const denoise::ImageValues& stored, const data::DatasetInfo& info) {
  const std::vector<data::Variable>& channels = info.image_field().variables;
  facts_.statistics.clear();
  for (std::size_t i = 0; i < stored.channels.size() && i < channels.size(); ++i) {
    const auto& [mean, deviation, min, max] = stored.channels[i];
    // A channel whose values are not finite numbers has none that a card, or a file of JSON, could tell.
    if (!std::isfinite(mean) || !std::isfinite(deviation) || !std::isfinite(min) || !std::isfinite(max)) continue;
    const std::string unit = channels[i].unit.empty() ? "" : fmt::format(" [{}]", channels[i].unit);
    facts_.statistics.push_back({channels[i].name + unit, mean, deviation, min, max});
  }
  facts_.counted_over = stored.origin == denoise::kAllImages ? "" : stored.origin;
}

void RememberedFacts::write(checkpoint::SaveRequest& request) {
  write_training_facts(facts_, request.state);
  check_also(request, read_training_facts);
}

}  // namespace ddpm::train
