// A process's facts as JSON: what ranks send each other, and what reports keep.
#pragma once

#include <string>

#include "base/json.h"
#include "doctor/process_facts.h"

namespace ddpm::device {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceFacts::Gpu, name, bus_id, memory_bytes, capability)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceFacts, gpus, peer_access, driver, runtime, nccl)

}  // namespace ddpm::device

namespace ddpm::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FabricPort, name, state, rate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFacts, kernel, cpu_model, governor, huge_pages, cpus, cores, numa_nodes, load,
                                   cpu_limit, cpuset, memory_bytes, available_bytes, memory_limit_bytes,
                                   shared_memory_bytes, shared_memory_free_bytes, gpu_driver, fabric_ports, cxi_devices)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessFacts, host, launcher, pid, versions, libtorch_file, environment,
                                   library_path_problem, nccl_file, nccl_plugin, limits, cpus, allocated_cpus, threads,
                                   gpu_problem, gpus, machine)

/// The text that ranks send each other. Bytes that are not UTF-8, which paths and variables may hold, are replaced.
inline std::string sent_text(const base::Json& json) {
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

}  // namespace ddpm::doctor
