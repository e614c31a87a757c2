#include "data/prepare/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/format.h"

namespace ddpm::data::prepare {
namespace {

SplitPart all_of(const ImageSource& source) {
  SplitPart part;
  part.candidates.resize(static_cast<std::size_t>(source.size()));
  std::iota(part.candidates.begin(), part.candidates.end(), int64_t{0});
  return part;
}

void require_images(const SplitPart& part, const ImageSource& source, double percent, const char* what) {
  if (!part.candidates.empty()) return;
  throw base::DatasetError(
      "{}: none of {} images falls into the {} set of --validation-share {}%; wanted more images, "
      "or another share",
      source.name(), source.size(), what, percent);
}

}  // namespace

std::string SplitPart::shard_name(int64_t index) const {
  const std::string name = shard_file_name(index, shards);
  return folder.empty() ? name : folder + '/' + name;
}

bool is_for_validation(std::string_view name, double percent) {
  constexpr std::size_t kDigits = 16;  // hexadecimal digits, which make 64 bits
  const uint64_t hash = std::stoull(base::sha256_hex(name).substr(0, kDigits), nullptr, 16);
  return static_cast<double>(hash) < std::ldexp(percent / 100.0, 64);
}

std::vector<SplitPart> split(const ImageSource& source, int64_t shards, double percent) {
  if (percent <= 0.0) {
    std::vector<SplitPart> whole = {all_of(source)};
    whole.front().shards = std::min(shards, source.size());
    return whole;
  }
  SplitPart training;
  SplitPart validation;
  validation.folder = kValidationFolder;
  for (int64_t i = 0; i < source.size(); ++i) {
    const std::string name = source.name_of(i);
    if (name.empty()) {
      throw base::ConfigError("--validation-share {}%: the images of {} have no names, wanted pictures of files",
                              percent, source.name());
    }
    (is_for_validation(name, percent) ? validation : training).candidates.push_back(i);
  }
  require_images(training, source, percent, "training");
  require_images(validation, source, percent, "validation");
  const auto in_validation = std::ssize(validation.candidates);
  const auto share = static_cast<int64_t>(std::llround(
      static_cast<double>(shards) * static_cast<double>(in_validation) / static_cast<double>(source.size())));
  training.shards = std::min(shards, std::ssize(training.candidates));
  validation.shards = std::clamp<int64_t>(share, 1, in_validation);
  std::vector<SplitPart> parts;
  parts.push_back(std::move(training));
  parts.push_back(std::move(validation));
  return parts;
}

int64_t cost_of(const base::FileStamp& stamp) {
  constexpr int64_t kOfAnyFile = 8192;
  return stamp.size + kOfAnyFile;
}

std::vector<int64_t> cut_by_cost(std::span<const int64_t> costs, int64_t shards) {
  const auto count = std::ssize(costs);
  DDPM_CHECK(shards >= 1 && shards <= count, "{} shards of {} candidates", shards, count);
  const int64_t total = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  std::vector<int64_t> borders = {0};
  int64_t at = 0;
  int64_t passed = 0;
  for (int64_t shard = 1; shard < shards; ++shard) {
    // shard / shards of the total, without overflow.
    const int64_t wanted = total / shards * shard + total % shards * shard / shards;
    // A candidate belongs to the shard in which its middle lies.
    while (at < count && passed + costs[static_cast<std::size_t>(at)] / 2 < wanted) {
      passed += costs[static_cast<std::size_t>(at++)];
    }
    const int64_t border = std::clamp(at, borders.back() + 1, count - (shards - shard));
    for (; at < border; ++at) passed += costs[static_cast<std::size_t>(at)];
    borders.push_back(border);
  }
  borders.push_back(count);
  return borders;
}

}  // namespace ddpm::data::prepare
