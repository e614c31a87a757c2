#include "eval/ensembles.h"

#include <algorithm>
#include <functional>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"

namespace ddpm::eval {
namespace {

using base::DatasetError;

constexpr const char* kConditionArray = "/condition_index";
constexpr const char* kMemberArray = "/member";

/// Groups of equal neighbouring conditions, whose members count from 0.
Ensembles groups_of(const std::string& path, int64_t samples, const std::vector<int64_t>& condition,
                    const std::vector<int64_t>& member) {
  if (std::ssize(condition) != samples || std::ssize(member) != samples) {
    throw DatasetError("{}: {} has {} numbers and {} {}, for {}", path, kConditionArray, condition.size(), kMemberArray,
                       member.size(), base::counted(samples, "sample"));
  }
  Ensembles result;
  const auto changes = std::ranges::adjacent_find(condition, std::not_equal_to<>());
  result.members = changes == condition.end() ? samples : changes - condition.begin() + 1;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    const auto first = i - i % static_cast<std::size_t>(result.members);
    const auto wanted = static_cast<int64_t>(i - first);
    if (condition[i] != condition[first] || member[i] != wanted || condition[i] < 0) {
      throw DatasetError("{}: sample {} is member {} of condition {}, wanted member {} of condition {}: {} of each",
                         path, i, member[i], condition[i], wanted, condition[first],
                         base::counted(result.members, "member"));
    }
    if (wanted == 0) result.conditions.push_back(condition[i]);
  }
  if (samples % result.members != 0) {
    throw DatasetError("{}: condition {} has {}, the first one {}", path, condition.back(),
                       base::counted(samples % result.members, "member"), result.members);
  }
  std::vector<int64_t> sorted = result.conditions;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    throw DatasetError("{}: condition {} is there twice", path, *twice);
  }
  return result;
}

}  // namespace

std::vector<std::string> condition_arrays() { return {kConditionArray, kMemberArray}; }

std::vector<int64_t> find_conditions(comm::Communicator& comm, const data::Dataset* set) {
  return set == nullptr ? std::vector<int64_t>{} : set->integers(comm, kConditionArray);
}

Ensembles find_ensembles(comm::Communicator& comm, const std::string& path, const data::Dataset* set, int64_t count,
                         std::optional<int64_t> members) {
  std::vector<int64_t> condition;
  std::vector<int64_t> member;
  if (members) {
    comm::agree(comm, [&] {
      if (count % *members == 0) return;
      throw DatasetError("--members {}: {} holds {}, wanted: a multiple", *members, path,
                         base::counted(count, "sample"));
    });
    for (int64_t i = 0; i < count; ++i) {
      condition.push_back(i / *members);
      member.push_back(i % *members);
    }
  } else if (set != nullptr) {
    condition = set->integers(comm, kConditionArray);
    if (!condition.empty()) member = set->integers(comm, kMemberArray);
  }
  Ensembles result;
  comm::agree(comm, [&] {
    if (!condition.empty()) result = groups_of(path, count, condition, member);
  });
  return result;
}

}  // namespace ddpm::eval
