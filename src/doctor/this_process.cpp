#include "doctor/this_process.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include "device/threads.h"
#include "h5/library_version.h"

namespace ddpm::doctor {
namespace {

/// Returns the version of the library that is mapped, which LD_LIBRARY_PATH may have chosen.
std::string libtorch_version() {
  const uint64_t version = aoti_torch_abi_version();
  return fmt::format("{}.{}.{}", version >> 56U, version >> 48U & 0xffU, version >> 40U & 0xffU);
}

std::string libtorch_file() {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&aoti_torch_abi_version), &found) != 0 ? found.dli_fname : "";
}

}  // namespace

ProcessFacts this_process(const comm::MpiSession& session) {
  ProcessFacts facts = process_facts();
  facts.host = session.node_name();
  facts.versions["libtorch"] = libtorch_version();
  facts.versions["libtorch_of_build"] =
      fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
  facts.libtorch_file = libtorch_file();
  facts.versions["hdf5"] = h5::library_version();
  facts.versions["cpu_capability"] = at::get_cpu_capability();
  facts.threads = device::threads_per_rank(0, session.local_size());
  return facts;
}

}  // namespace ddpm::doctor
