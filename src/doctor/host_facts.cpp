#include "doctor/host_facts.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include <sys/statvfs.h>

#include "base/machine_memory.h"
#include "device/processor_name.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

using base::kernel_file;
using base::Path;

int64_t integer(const std::string& text) { return std::atoll(text.c_str()); }

void read_processors(const Path& root, HostFacts& facts) {
  const Path system = root / "sys/devices/system";
  facts.cpus = parse_ranges(kernel_file(system / "cpu/online"));
  std::map<std::pair<int64_t, int64_t>, int> cores;
  for (const int cpu : facts.cpus) {
    const Path topology = system / "cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    const std::string core = kernel_file(topology / "core_id");
    // Without a topology each CPU is a core.
    const std::pair key(integer(kernel_file(topology / "physical_package_id")),
                        core.empty() ? -1 - cpu : integer(core));
    facts.cores.push_back(cores.emplace(key, static_cast<int>(cores.size())).first->second);
  }
  std::error_code error;
  std::map<int64_t, std::vector<int>> nodes;
  for (const auto& entry : std::filesystem::directory_iterator(system / "node", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node") || name.size() < 5) continue;
    const auto cpus = parse_ranges(kernel_file(entry.path() / "cpulist"));
    if (!cpus.empty()) nodes[integer(name.substr(4))] = cpus;  // memory alone has none
  }
  for (auto& [number, cpus] : nodes) facts.numa_nodes.push_back(std::move(cpus));
  facts.cpu_model = device::processor_name(root / "proc/cpuinfo");
  facts.governor = kernel_file(system / "cpu/cpu0/cpufreq/scaling_governor");
  facts.load = std::atof(kernel_file(root / "proc/loadavg").c_str());
}

void lower_cpus(double& limit, double quota, double period) {
  if (quota > 0.0 && period > 0.0 && (limit == 0.0 || quota / period < limit)) limit = quota / period;
}

void read_cpu_limits(const Path& root, HostFacts& facts) {
  base::each_control_group(root, [&](const Path& group, const std::string& kinds) {
    // The innermost group that has one: its CPUs are among those of the groups around it.
    if (facts.cpuset.empty()) {
      facts.cpuset =
          parse_ranges(kernel_file(group / (kinds.empty() ? "cpuset.cpus.effective" : "cpuset.effective_cpus")));
    }
    std::istringstream both(kernel_file(group / "cpu.max"));
    double quota = 0.0;
    double period = 0.0;
    if (both >> quota >> period) lower_cpus(facts.cpu_limit, quota, period);
    lower_cpus(facts.cpu_limit, std::atof(kernel_file(group / "cpu.cfs_quota_us").c_str()),
               std::atof(kernel_file(group / "cpu.cfs_period_us").c_str()));
  });
}

/// "4: ACTIVE" is "ACTIVE".
std::string state_of(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

void read_ports(const Path& root, HostFacts& facts) {
  std::error_code error;
  for (const auto& adapter : std::filesystem::directory_iterator(root / "sys/class/infiniband", error)) {
    std::error_code none;
    for (const auto& port : std::filesystem::directory_iterator(adapter.path() / "ports", none)) {
      facts.fabric_ports.push_back({adapter.path().filename().string() + "/" + port.path().filename().string(),
                                    state_of(kernel_file(port.path() / "state")), kernel_file(port.path() / "rate")});
    }
  }
}

/// A Slingshot adapter is a device of the class cxi, and a network interface: hsn0. On older systems such interfaces
/// are those of InfiniBand adapters.
void read_slingshot(const Path& root, HostFacts& facts) {
  std::error_code error;
  for (const auto& adapter : std::filesystem::directory_iterator(root / "sys/class/cxi", error))
    facts.cxi_devices.push_back(adapter.path().filename().string());
  std::ranges::sort(facts.cxi_devices);
  if (facts.cxi_devices.empty()) return;
  std::error_code none;
  for (const auto& interface : std::filesystem::directory_iterator(root / "sys/class/net", none)) {
    const std::string name = interface.path().filename().string();
    if (!name.starts_with("hsn") || name.find_first_not_of("0123456789", 3) != std::string::npos) continue;
    const std::string state = kernel_file(interface.path() / "operstate");
    const int64_t megabits = integer(kernel_file(interface.path() / "speed"));
    facts.fabric_ports.push_back({name, state == "up" || state == "unknown" ? "ACTIVE" : "DOWN",
                                  megabits > 0 ? std::to_string(megabits / 1000) + " Gb/sec" : ""});
  }
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 ..."
std::string driver_version(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

}  // namespace

std::string chosen_of(std::string_view text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  return std::string(begin == std::string_view::npos || end < begin ? text : text.substr(begin + 1, end - begin - 1));
}

HostFacts read_host_facts(const Path& root) {
  HostFacts facts;
  facts.kernel = kernel_file(root / "proc/sys/kernel/osrelease");
  facts.huge_pages = chosen_of(kernel_file(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  read_processors(root, facts);
  const base::MachineMemory memory = base::read_machine_memory(root);
  facts.memory_bytes = memory.total;
  facts.available_bytes = memory.available;
  facts.memory_limit_bytes = memory.limit;
  read_cpu_limits(root, facts);
  struct statvfs shared {};
  if (::statvfs((root / "dev/shm").c_str(), &shared) == 0) {
    facts.shared_memory_bytes = static_cast<int64_t>(shared.f_blocks * shared.f_frsize);
    facts.shared_memory_free_bytes = static_cast<int64_t>(shared.f_bavail * shared.f_frsize);
  }
  facts.gpu_driver = driver_version(kernel_file(root / "proc/driver/nvidia/version"));
  read_ports(root, facts);
  read_slingshot(root, facts);
  std::ranges::sort(facts.fabric_ports, {}, &FabricPort::name);
  return facts;
}

}  // namespace ddpm::doctor
