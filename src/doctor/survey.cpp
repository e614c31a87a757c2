#include "doctor/survey.h"

#include <cstddef>
#include <map>

namespace ddpm::doctor {

std::vector<std::string> Survey::rank_hosts() const {
  std::vector<std::string> names;
  for (const int host : host_of) names.push_back(hosts[static_cast<std::size_t>(host)]);
  return names;
}

Survey make_survey(const std::vector<std::string>& names) {
  Survey survey;
  std::map<std::string, std::size_t> place;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [found, added] = place.emplace(names[rank], survey.hosts.size());
    if (added) {
      survey.hosts.push_back(names[rank]);
      survey.ranks_of.emplace_back();
    }
    survey.host_of.push_back(static_cast<int>(found->second));
    survey.ranks_of[found->second].push_back(static_cast<int>(rank));
  }
  return survey;
}

}  // namespace ddpm::doctor
