#include "train/doctor/process_facts.h"

namespace ddpm::comm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceFacts::Gpu, name, bus_id, memory_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceFacts, gpus, peer_access, driver, runtime, nccl)

}  // namespace ddpm::comm

namespace ddpm::train::doctor {

void to_json(base::Json& json, const ProcessFacts& facts) {
  json = {{"host", facts.host},         {"launcher", facts.launcher},       {"pid", facts.pid},
          {"versions", facts.versions}, {"environment", facts.environment}, {"limits", facts.limits},
          {"cpus", facts.cpus},         {"threads", facts.threads},         {"gpu_problem", facts.gpu_problem},
          {"gpus", facts.gpus},         {"machine", facts.machine}};
}

void from_json(const base::Json& json, ProcessFacts& facts) {
  json.at("host").get_to(facts.host);
  json.at("launcher").get_to(facts.launcher);
  json.at("pid").get_to(facts.pid);
  json.at("versions").get_to(facts.versions);
  json.at("environment").get_to(facts.environment);
  json.at("limits").get_to(facts.limits);
  json.at("cpus").get_to(facts.cpus);
  json.at("threads").get_to(facts.threads);
  json.at("gpu_problem").get_to(facts.gpu_problem);
  json.at("gpus").get_to(facts.gpus);
  json.at("machine").get_to(facts.machine);
}

}  // namespace ddpm::train::doctor
