#include "data/prepare/create_plan.h"

#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "comm/collectives.h"
#include "layout/range.h"

namespace ddpm::data::prepare {
namespace {

constexpr std::size_t kNumbers = 3;

std::string to_bytes(std::span<const base::FileStamp> stamps) {
  std::vector<int64_t> numbers;
  numbers.reserve(stamps.size() * kNumbers);
  for (const base::FileStamp& stamp : stamps) {
    for (const int64_t number : {stamp.size, stamp.seconds, stamp.nanoseconds}) numbers.push_back(number);
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)};  // NOLINT: numbers as text
}

/// Appends the stamps of which to_bytes() made the text.
void append(std::string_view bytes, std::vector<base::FileStamp>& stamps) {
  std::vector<int64_t> numbers(bytes.size() / sizeof(int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i + kNumbers <= numbers.size(); i += kNumbers) {
    stamps.push_back({.size = numbers[i], .seconds = numbers[i + 1], .nanoseconds = numbers[i + 2]});
  }
}

}  // namespace

CreatePlan::CreatePlan(const CreateOptions& options, const ImageSource& source)
    : parts_(split(source, options.shards, options.validation_percent)) {}

int64_t CreatePlan::shards() const {
  return std::accumulate(parts_.begin(), parts_.end(), int64_t{0},
                         [](int64_t sum, const SplitPart& part) { return sum + part.shards; });
}

std::vector<std::string> CreatePlan::shard_names() const {
  std::vector<std::string> names;
  for (const SplitPart& part : parts_) {
    for (int64_t i = 0; i < part.shards; ++i) names.push_back(part.shard_name(i));
  }
  return names;
}

void CreatePlan::look_at(comm::Communicator& comm, const ImageSource& source) {
  std::string mine;
  comm::agree(comm,
              [&] { mine = to_bytes(source.look_at(layout::even_part(source.size(), comm.size(), comm.rank()))); });
  std::vector<base::FileStamp> all;
  for (const std::string& part : comm::all_gather(comm, mine)) append(part, all);
  DDPM_CHECK(std::ssize(all) == source.size(), "{} stamps of {} candidates", all.size(), source.size());
  for (const SplitPart& part : parts_) {
    std::vector<base::FileStamp>& stamps = stamps_.emplace_back();
    std::vector<int64_t> costs;
    for (const int64_t candidate : part.candidates) {
      stamps.push_back(all[static_cast<std::size_t>(candidate)]);
      costs.push_back(cost_of(stamps.back()));
    }
    borders_.push_back(cut_by_cost(costs, part.shards));
  }
}

CreatePlan::SourcePlace CreatePlan::place_of(int64_t index) const {
  SourcePlace place{0, index};
  while (place.index >= parts_[place.part].shards) place.index -= parts_[place.part++].shards;
  return place;
}

layout::Range CreatePlan::candidates_of(const SourcePlace& place) const {
  const auto border = borders_[place.part].begin() + place.index;
  return {border[0], border[1]};
}

ShardTask CreatePlan::task(GrowingFolder& folder, int64_t index) const {
  const SourcePlace place = place_of(index);
  const layout::Range range = candidates_of(place);
  const auto begin = static_cast<std::size_t>(range.begin);
  const auto count = static_cast<std::size_t>(range.size());
  return {folder, index, std::span(parts_[place.part].candidates).subspan(begin, count),
          std::span(stamps_[place.part]).subspan(begin, count)};
}

int64_t CreatePlan::cost(int64_t index) const {
  const SourcePlace place = place_of(index);
  const layout::Range range = candidates_of(place);
  int64_t sum = 0;
  for (int64_t i = range.begin; i < range.end; ++i) sum += cost_of(stamps_[place.part][static_cast<std::size_t>(i)]);
  return sum;
}

}  // namespace ddpm::data::prepare
