#include "data/set_merge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/named.h"

namespace ddpm::data {
namespace {

void expect_same_kind(const DatasetInfo& all, const DatasetInfo& set, const std::string& first,
                      const std::string& name) {
  for (const Field& field : all.fields) {
    const Field* same = field_of(set.fields, field.role);
    if (same != nullptr && *same == field) continue;
    throw base::DatasetError("{}: {} field of role {} as {} has is wanted: the same name, shape, type and transforms",
                             name, same == nullptr ? "a" : "the same", base::name_of(field.role), first);
  }
  if (set.fields.size() > all.fields.size()) {
    throw base::DatasetError("{}: it has {} fields, {} has {}", name, set.fields.size(), first, all.fields.size());
  }
  if (set.class_names == all.class_names) return;
  throw base::DatasetError("{}: its {} classes are not the {} of {}, so labels would mean other things", name,
                           set.class_names.size(), all.class_names.size(), first);
}

/// The statistics of the values of both, which come from so many images.
ChannelStatistics merged(const ChannelStatistics& a, int64_t images_a, const ChannelStatistics& b, int64_t images_b) {
  const double share = static_cast<double>(images_b) / static_cast<double>(images_a + images_b);
  const double apart = b.mean - a.mean;
  const double variance = (1.0 - share) * a.std * a.std + share * b.std * b.std + share * (1.0 - share) * apart * apart;
  return {.mean = a.mean + share * apart,
          .std = std::sqrt(variance),
          .min = std::min(a.min, b.min),
          .max = std::max(a.max, b.max)};
}

}  // namespace

void append_set(DatasetInfo& all, DatasetInfo set, const std::string& first, const std::string& name) {
  expect_same_kind(all, set, first, name);
  const bool known = all.statistics.size() == set.statistics.size();
  if (!known) all.statistics.clear();
  for (std::size_t c = 0; c < all.statistics.size(); ++c) {
    all.statistics[c] = merged(all.statistics[c], all.count, set.statistics[c], set.count);
  }
  for (ShardInfo& shard : set.shards) {
    shard.first += all.count;
    all.shards.push_back(std::move(shard));
  }
  all.count += set.count;
}

}  // namespace ddpm::data
