// The machine of this node, for commands that were told no other one: plans, dry runs and new configurations take it by
// one rule.
#pragma once

#include <optional>
#include <string>

#include "device/device_choice.h"
#include "device/device_library.h"
#include "run/runtime.h"

namespace ddpm::plan {

struct MachineHere {
  std::string name = "cpu";   ///< one that find_machine() knows, whose constants count
  std::string label = "cpu";  ///< for messages: its name, or what a GPU calls itself that has no constants
  std::optional<double> memory_gib = std::nullopt;  ///< of a rank, as its GPU says; none: not known
  bool on_host = true;                              ///< ranks compute on the CPU
};

/// The machine whose ranks have a GPU each like `gpu`. One that has no constants counts as an h100, or as a v100 where
/// it is older than bf16; so does one of which nothing is known. usual_precision() of the name is what `gpu` trains in.
MachineHere machine_with(const device::DeviceFacts::Gpu& gpu);

/// The machine that run.device = `asked` computes on. Of GPUs it is that of rank 0's first one; for `cuda` there need
/// be none here, as on a login node. Collective: all ranks get the same.
MachineHere machine_here(device::DeviceChoice asked, const run::Runtime& runtime);

/// Whose constants count, and why where they are those of another GPU; for the log.
std::string constants_text(const MachineHere& here);

}  // namespace ddpm::plan
