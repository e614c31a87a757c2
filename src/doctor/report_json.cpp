#include <algorithm>

#include "base/named.h"
#include "base/version.h"
#include "doctor/process_json.h"
#include "doctor/report.h"

namespace ddpm::doctor {
namespace {

using base::OrderedJson;

OrderedJson json_of(const std::vector<Finding>& findings) {
  OrderedJson list = OrderedJson::array();
  for (const Finding& finding : findings) {
    list.push_back({{"severity", base::name_of(finding.severity)},
                    {"area", base::name_of(finding.area)},
                    {"seen", finding.seen},
                    {"advice", finding.advice}});
  }
  return list;
}

OrderedJson hosts_json(const Survey& survey) {
  OrderedJson list = OrderedJson::array();
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) {
    OrderedJson one{{"name", survey.hosts[host]}, {"ranks", survey.ranks_of[host]}};
    if (!survey.clocks.empty()) {
      one["clock_offset_seconds"] = survey.clocks[host].offset_s;
      one["clock_uncertainty_seconds"] = survey.clocks[host].uncertainty_s;
    }
    if (!survey.inside.empty() && survey.inside[host].latency_s > 0.0) {
      one["latency_seconds"] = survey.inside[host].latency_s;
      one["bytes_per_second"] = survey.inside[host].bytes_per_second;
    }
    if (!survey.ranks.empty()) one["machine"] = OrderedJson(base::Json(survey.machine(host)));
    list.push_back(std::move(one));
  }
  return list;
}

OrderedJson ranks_json(const Survey& survey) {
  OrderedJson list = OrderedJson::array();
  for (const ProcessFacts& rank : survey.ranks) {
    base::Json facts = rank;
    facts.erase("machine");  // its host's
    list.push_back(OrderedJson(facts));
  }
  return list;
}

OrderedJson links_json(const Survey& survey) {
  std::vector<Link> links = survey.links;
  std::ranges::sort(links, {}, &Link::bytes_per_second);
  if (links.size() > kMostLinks) links.resize(kMostLinks);
  OrderedJson list = OrderedJson::array();
  for (const Link& link : links) {
    list.push_back(
        {{"hosts", {survey.hosts[static_cast<std::size_t>(link.a)], survey.hosts[static_cast<std::size_t>(link.b)]}},
         {"latency_seconds", link.latency_s},
         {"bytes_per_second", link.bytes_per_second}});
  }
  return list;
}

OrderedJson curves_json(const Survey& survey) {
  OrderedJson list = OrderedJson::array();
  for (const ReductionCurve& curve : survey.curves) {
    OrderedJson points = OrderedJson::array();
    for (const auto& point : curve.points) {
      points.push_back(
          {{"bytes", point.bytes}, {"seconds", point.seconds}, {"bytes_per_second", point.bytes_per_second}});
    }
    list.push_back({{"device", base::name_of(curve.device)}, {"points", points}});
  }
  return list;
}

OrderedJson folder_json(const Survey& survey) {
  const FolderFacts& folder = survey.folder;
  OrderedJson visits = OrderedJson::array();
  for (std::size_t i = 0; i < folder.visits.size(); ++i) {
    const FolderVisit& visit = folder.visits[i];
    visits.push_back({{"rank", survey.visitors[i]},
                      {"host", survey.host_of_rank(survey.visitors[i])},
                      {"error", visit.error},
                      {"found_seconds", visit.found_s},
                      {"seen_seconds", visit.seen_s},
                      {"damage", visit.damage},
                      {"seconds", visit.seconds},
                      {"locks", visit.locks}});
  }
  return {{"path", folder.path},
          {"tested", folder.tested},
          {"error", folder.error},
          {"file_system", folder.type},
          {"mounted_at", folder.mount},
          {"free_bytes", folder.free_bytes},
          {"file_bytes", folder.file_bytes},
          {"exclusive_creators", folder.winners},
          {"visits", visits}};
}

}  // namespace

OrderedJson json_of(const Survey& survey, const std::vector<Finding>& findings) {
  return {{"ddpm", base::kVersion},
          {"exit_code", static_cast<int>(exit_code_of(findings))},
          {"findings", json_of(findings)},
          {"thread_level", survey.thread_level},
          {"hosts", hosts_json(survey)},
          {"links", links_json(survey)},
          {"all_reduce", curves_json(survey)},
          {"folder", folder_json(survey)},
          {"ranks", ranks_json(survey)}};
}

}  // namespace ddpm::doctor
