// A plan as JSON.
#include "base/named.h"
#include "plan/report.h"

namespace ddpm::plan {
namespace {

base::OrderedJson json_of(const Memory& memory) {
  base::OrderedJson json = base::OrderedJson::object();
  for (const auto& [kind, bytes] : memory.by_kind()) json[std::string(kind)] = bytes;
  if (memory.host > 0) json["of_these_on_host"] = memory.host;
  return json;
}

base::OrderedJson json_of(const HostMemory& host) {
  return {{"batches", host.batches}, {"images", host.images},     {"state", host.state},
          {"chunks", host.chunks},   {"snapshot", host.snapshot}, {"pinned", host.pinned}};
}

base::OrderedJson json_of(const Candidate& c) {
  const Arrangement& a = c.arrangement;
  base::OrderedJson json{{"nodes", a.nodes},
                         {"ranks", a.ranks()},
                         {"zero_stage", a.parallelism.zero_stage},
                         {"dp_shard_size", a.shard_size()},
                         {"micro_size", a.parallelism.micro_size},
                         {"works", c.refusal.empty()}};
  if (!c.refusal.empty()) {
    json["refusal"] = c.refusal;
    return json;
  }
  json["islands"] = a.islands();
  json["fits"] = c.fits;
  json["memory_bytes"] = json_of(c.memory);
  json["peak_memory_bytes"] = c.memory.total();
  json["memory_while_saving_bytes"] = c.memory.saving();
  if (a.on_device) {
    json["host_memory_bytes"] = json_of(c.memory.beside);
    json["host_memory_per_node_bytes"] = c.host_bytes();
  }
  json["seconds_per_step"] = c.time.total();
  json["efficiency"] = c.time.efficiency();
  return json;
}

base::OrderedJson json_of(const std::vector<Traffic>& lines, const Machine& machine) {
  base::OrderedJson json = base::OrderedJson::array();
  for (const Traffic& line : lines) {
    json.push_back({{"collective", base::name_of(line.kind)},
                    {"of", line.what},
                    {"ranks", line.group.size()},
                    {"calls", line.calls},
                    {"sent_bytes", line.sent_bytes()},
                    {"seconds", seconds_of(line, machine)}});
  }
  return json;
}

}  // namespace

base::OrderedJson json_of(const Request& request, const std::vector<Candidate>& all) {
  const Candidate given = configured(request);
  const bool runs = given.refusal.empty();
  const auto known = [runs](auto value) { return runs ? base::OrderedJson(value) : base::OrderedJson(nullptr); };
  base::OrderedJson json{{"peak_memory_bytes", known(given.memory.total())},
                         {"seconds_per_step", known(given.time.total())},
                         {"efficiency", known(given.time.efficiency())},
                         {"fits", given.fits},
                         {"parameters", request.model.parameters},
                         {"forward_flops_per_image", request.model.forward_flops},
                         {"backward_flops_per_image", request.model.backward_flops},
                         {"given", json_of(given)},
                         {"warnings", warnings_of(request)},
                         {"communication", json_of(given.traffic, request.machine)},
                         {"machine", request.machine.name}};
  base::OrderedJson rows = base::OrderedJson::array();
  for (const Candidate& candidate : all) rows.push_back(json_of(candidate));
  json["table"] = std::move(rows);
  const Candidate* best = cheapest(all);
  json["recommendation"] = best == nullptr ? base::OrderedJson(nullptr) : json_of(*best);
  return json;
}

}  // namespace ddpm::plan
