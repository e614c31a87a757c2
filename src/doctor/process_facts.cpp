#include "doctor/process_facts.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/version.h"
#include "comm/mpi_library.h"
#include "device/affinity.h"
#include "device/gpu_signs.h"
#include "doctor/nccl_settings.h"

namespace ddpm::doctor {
namespace {

// Whole names, and beginnings. Open MPI's own launcher sets many OMPI_MCA_ variables, which differ between ranks, so
// only the frameworks that users set are listed.
constexpr std::array kVariables{"CUDA_VISIBLE_DEVICES",  "CUDA_DEVICE_ORDER",    "CUBLAS_WORKSPACE_CONFIG",
                                "HDF5_USE_FILE_LOCKING", "LD_LIBRARY_PATH",      "LD_PRELOAD",
                                "ATEN_CPU_CAPABILITY",   "THP_MEM_ALLOC_ENABLE", "OPENBLAS_NUM_THREADS",
                                "SLURM_CPUS_PER_TASK",   "SLURM_CPU_BIND",       "GLIBC_TUNABLES"};
constexpr std::array kBeginnings{
    "DDPM_",          "GOMP_",        "OMP_",         "KMP_",           "MKL_",
    "NCCL_",          "UCX_",         "FI_",          "PSM2_",          "PSM3_",
    "MALLOC_",        "TORCH_",       "PYTORCH_",     "ONEDNN_",        "ROMIO_",
    "MPICH_",         "I_MPI_",       "OMPI_MCA_btl", "OMPI_MCA_pml",   "OMPI_MCA_mtl",
    "OMPI_MCA_coll",  "OMPI_MCA_osc", "OMPI_MCA_io",  "OMPI_MCA_mpi_",  "OMPI_MCA_hwloc_",
    "OMPI_MCA_rmaps", "OMPI_MCA_fs_", "OMPI_MCA_oob", "OMPI_MCA_opal_", "OMPI_MCA_sharedfp"};

struct Limit {
  const char* name;
  __rlimit_resource resource;
};
constexpr std::array kLimits{Limit{"locked_memory_bytes", RLIMIT_MEMLOCK},
                             Limit{"stack_bytes", RLIMIT_STACK},
                             Limit{"core_bytes", RLIMIT_CORE},
                             Limit{"open_files", RLIMIT_NOFILE},
                             Limit{"processes", RLIMIT_NPROC},
                             Limit{"address_space_bytes", RLIMIT_AS},
                             Limit{"file_bytes", RLIMIT_FSIZE}};

std::map<std::string, std::string> variables() {
  constexpr std::size_t kMostLetters = 256;  // LD_LIBRARY_PATH may be very long; a digest compares the rest
  std::map<std::string, std::string> found;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view pair = *at;
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || !is_of_interest(pair.substr(0, equals))) continue;
    std::string value(pair.substr(equals + 1));
    if (value.size() > kMostLetters) {
      value = fmt::format("{}... (SHA-256 {})", value.substr(0, kMostLetters), base::sha256_hex(value).substr(0, 12));
    }
    found.emplace(pair.substr(0, equals), std::move(value));
  }
  // A process that no launcher started has been told by MpiSession to use no network.
  if (getenv("OMPI_MCA_ess_singleton_isolated") != nullptr) {
    for (const char* own : {"OMPI_MCA_pml", "OMPI_MCA_btl"}) found.erase(own);
  }
  return found;
}

std::map<std::string, int64_t> limits() {
  std::map<std::string, int64_t> found;
  for (const Limit& limit : kLimits) {
    struct rlimit value {};
    if (getrlimit(limit.resource, &value) != 0) continue;
    found[limit.name] = value.rlim_cur == RLIM_INFINITY ? -1 : static_cast<int64_t>(value.rlim_cur);
  }
  return found;
}

/// What NCCL would find: also where no GPU is visible, since `ddpm env` may be asked on a login node.
void look_for_nccl(const comm::Environment& environment, ProcessFacts& facts) {
  facts.nccl_file = nccl_file_settings(environment, "/");
  const auto chosen = facts.nccl_file.find("NCCL_NET_PLUGIN");
  const std::string of_file = chosen == facts.nccl_file.end() ? "" : chosen->second;
  facts.nccl_plugin = find_library(nccl_plugin_names(environment("NCCL_NET_PLUGIN").value_or(of_file)),
                                   environment("LD_LIBRARY_PATH").value_or(""), "/");
}

/// Where no NVIDIA driver is loaded, LibTorch's CUDA part, which takes a second to load, can find no GPU. No GPU is
/// then expected, unless the job was given some.
void ask_for_gpus(ProcessFacts& facts) {
  if (facts.machine.gpu_driver.empty()) {
    const std::string sign = device::gpu_sign(comm::process_environment());
    if (!sign.empty()) facts.gpu_problem = fmt::format("{}, but no NVIDIA driver is loaded", sign);
    return;
  }
  try {
    const device::DeviceLibrary library;
    static_cast<void>(library.visible_devices());  // throws with a better reason where there is none
    facts.gpus = library.describe_devices();
    facts.versions["cuda"] = facts.gpus.runtime;
    facts.versions["cuda_of_driver"] = facts.gpus.driver;
    facts.versions["nccl"] = facts.gpus.nccl;
  } catch (const base::ConfigError& error) {
    facts.gpu_problem = fmt::format("an NVIDIA driver is loaded, but: {}", error.what());
  }
}

}  // namespace

bool is_of_interest(std::string_view variable) {
  return std::ranges::find(kVariables, variable) != kVariables.end() ||
         std::ranges::any_of(kBeginnings, [&](const char* begin) { return variable.starts_with(begin); });
}

std::string working_directory_in(std::string_view places) {
  if (places.empty()) return "";  // the linker takes it as not set
  while (true) {
    const std::size_t end = places.find_first_of(":;");
    const std::string_view place = places.substr(0, end);
    if (place.empty()) return "an empty element";
    const bool absolute = place.front() == '/' || place.starts_with("$ORIGIN") || place.starts_with("${ORIGIN}");
    if (!absolute) return fmt::format("the relative element '{}'", place);
    if (end == std::string_view::npos) return "";
    places.remove_prefix(end + 1);
  }
}

bool may_differ(std::string_view variable) {
  // SLURM_CPU_BIND lists masks, of which each node has its own; UCX_NET_DEVICES names the adapter beside a rank's GPU;
  // mpirun says to each host whether it is oversubscribed.
  constexpr std::array kOwn{"CUDA_VISIBLE_DEVICES", "SLURM_CPU_BIND", "UCX_NET_DEVICES",
                            "GOMP_CPU_AFFINITY",    "OMP_PLACES",     "OMPI_MCA_mpi_oversubscribe"};
  return std::ranges::find(kOwn, variable) != kOwn.end();
}

const std::string& program_hash() {
  static const std::string kHash = [] {
    try {
      return base::sha256_file("/proc/self/exe");
    } catch (const base::OutputError&) {
      return std::string("unreadable");
    }
  }();
  return kHash;
}

ProcessFacts process_facts() {
  ProcessFacts facts;
  facts.machine = read_host_facts();
  facts.launcher = comm::launcher_name(comm::process_environment());
  facts.pid = ::getpid();
  facts.versions["ddpm"] = base::kVersion;
  facts.versions["program"] = program_hash();
  facts.versions["mpi"] = comm::mpi_library_version();
  facts.environment = variables();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets variables
  if (const char* places = getenv("LD_LIBRARY_PATH"); places != nullptr) {
    facts.library_path_problem = working_directory_in(places);
  }
  look_for_nccl(comm::process_environment(), facts);
  facts.limits = limits();
  facts.cpus = device::affinity_cpus();
  facts.allocated_cpus = std::atoll(comm::process_environment()("SLURM_CPUS_ON_NODE").value_or("0").c_str());
  ask_for_gpus(facts);
  return facts;
}

}  // namespace ddpm::doctor
