#include "eval/ensembles.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "h5/file.h"

namespace ddpm::eval {
namespace {

using base::DatasetError;

constexpr const char* kConditionArray = "/condition_index";

/// The numbers of one array of all files, in their order; empty where a file has none of that name.
std::vector<int64_t> numbers_of(const std::vector<base::Path>& files, const std::string& name) {
  std::vector<int64_t> numbers;
  for (const base::Path& path : files) {
    const h5::File file = h5::File::open(path);
    if (!file.contains(name)) return {};
    const h5::Array array = file.array(name);
    if (array.shape().size() != 1) {
      throw DatasetError("{}: it has {} axes, wanted one number for each sample", array.label(), array.shape().size());
    }
    const auto before = numbers.size();
    numbers.resize(before + static_cast<std::size_t>(array.rows()));
    array.read_integers(0, array.rows(), std::span(numbers).subspan(before));
  }
  return numbers;
}

void broadcast(comm::Communicator& comm, std::vector<int64_t>& numbers) {
  int64_t size = comm::all_reduce(comm, std::ssize(numbers), comm::ReduceOp::max);
  numbers.resize(static_cast<std::size_t>(size));
  if (size == 0) return;
  comm.broadcast({.data = numbers.data(), .count = size, .dtype = base::DType::i64}, 0).wait();
}

/// Groups of equal neighbouring conditions, whose members count from 0.
Ensembles groups_of(const std::string& path, int64_t samples, const std::vector<int64_t>& condition,
                    const std::vector<int64_t>& member) {
  if (std::ssize(condition) != samples || std::ssize(member) != samples) {
    throw DatasetError("{}: {} has {} numbers and /member {}, for {}", path, kConditionArray, condition.size(),
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

std::vector<int64_t> find_conditions(comm::Communicator& comm, const std::string& path,
                                     const std::vector<base::Path>& files, int64_t count) {
  std::vector<int64_t> conditions;
  comm::do_on_root(comm, [&] {
    if (!files.empty()) conditions = numbers_of(files, kConditionArray);
  });
  broadcast(comm, conditions);
  comm::agree(comm, [&] {
    if (conditions.empty() || std::ssize(conditions) == count) return;
    throw DatasetError("{}: {} has {} numbers, for {}", path, kConditionArray, conditions.size(),
                       base::counted(count, "sample"));
  });
  return conditions;
}

Ensembles find_ensembles(comm::Communicator& comm, const std::string& path, const std::vector<base::Path>& files,
                         int64_t count, std::optional<int64_t> members) {
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
  } else if (!files.empty()) {
    comm::do_on_root(comm, [&] {
      condition = numbers_of(files, kConditionArray);
      if (!condition.empty()) member = numbers_of(files, "/member");
    });
    broadcast(comm, condition);
    broadcast(comm, member);
  }
  Ensembles result;
  comm::agree(comm, [&] {
    if (!condition.empty()) result = groups_of(path, count, condition, member);
  });
  return result;
}

}  // namespace ddpm::eval
