#include "plan/machine_here.h"

#include <fmt/format.h>

#include "base/binary_units.h"
#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "device/choose_device.h"
#include "plan/machine.h"

namespace ddpm::plan {
namespace {

/// The first GPU that this process sees; nothing in it where there is none to ask.
device::DeviceFacts::Gpu first_gpu() {
  try {
    const device::DeviceFacts facts = device::DeviceLibrary().describe_devices();
    if (!facts.gpus.empty()) return facts.gpus.front();
  } catch (const base::ConfigError&) {  // NOLINT(bugprone-empty-catch): a login node has no driver
  }
  return {};
}

/// What first_gpu() is on rank 0. Collective.
device::DeviceFacts::Gpu agreed_gpu(comm::Communicator& world) {
  const std::string text = comm::agree_on_root(world, [] {
    const device::DeviceFacts::Gpu gpu = first_gpu();
    return base::Json{{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"capability", gpu.capability}}.dump(
        -1, ' ', false, base::Json::error_handler_t::replace);
  });
  const base::Json told = base::Json::parse(text);
  return {.name = told["name"].get<std::string>(),
          .memory_bytes = told["memory_bytes"].get<int64_t>(),
          .capability = told["capability"].get<int>()};
}

}  // namespace

MachineHere machine_with(const device::DeviceFacts::Gpu& gpu) {
  MachineHere here{.name = machine_of_gpu(gpu.name), .on_host = false};
  const bool known = !here.name.empty();
  if (!known) here.name = device::has_bf16(gpu) ? "h100" : "v100";
  here.label = known || gpu.name.empty() ? here.name : gpu.name;
  if (gpu.memory_bytes > 0) here.memory_gib = static_cast<double>(gpu.memory_bytes) / base::kGiB;
  return here;
}

MachineHere machine_here(device::DeviceChoice asked, const run::Runtime& runtime) {
  // Which GPU a rank would take does not matter here, nor whether there are enough for all.
  if (asked != device::DeviceChoice::cuda &&
      device::choose_device(asked, runtime.session, runtime.log, /*share_gpus=*/true).is_cpu()) {
    return {};
  }
  return machine_with(agreed_gpu(runtime.session.world()));
}

std::string constants_text(const MachineHere& here) {
  const std::string text = fmt::format("constants of machine \"{}\"", here.name);
  return here.label == here.name ? text : fmt::format("{}, since none are known of the {} here", text, here.label);
}

}  // namespace ddpm::plan
