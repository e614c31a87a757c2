#include "data/standardize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "comm/collectives.h"

namespace ddpm::data {
namespace {

using base::DatasetError;

void standardize(Field& field, const std::vector<ChannelStatistics>& statistics) {
  for (std::size_t v = 0; v < field.variables.size(); ++v) {
    field.variables[v].transform = standardized(statistics.at(v));
  }
}

}  // namespace

Transform standardized(const ChannelStatistics& s) {
  const bool one_value = !(s.std > 1e-7 * std::abs(s.mean)) || !(s.std > 0.0);
  if (one_value) return Normalization{.scale = 1.0, .offset = -s.mean};
  return {TransformType::standardize, s.mean, s.std};
}

std::vector<ChannelStatistics> statistics_of(const ImageFormat& format, std::span<const std::byte> values) {
  Statistics all(format);
  for (std::size_t at = 0; at < values.size(); at += format.bytes()) all.add(values.subspan(at, format.bytes()));
  return all.result();
}

std::vector<ChannelStatistics> surveyed(comm::Communicator& comm, const Dataset& dataset,
                                        const SurveyOptions& options) {
  const Survey seen = survey(comm, dataset, options);
  comm::agree(comm, [&] {
    if (seen.unusable > 0) throw DatasetError("{}", seen.faults.front());
    if (seen.statistics.empty()) {
      throw DatasetError("{}: {}", dataset.path().string(), kNothingValid);
    }
  });
  return seen.statistics;
}

void settle_transforms(comm::Communicator& comm, Dataset& dataset, Normalize normalize,
                       const std::vector<Field>& recorded) {
  if (!recorded.empty()) return comm::agree(comm, [&] { dataset.set_transforms(recorded); });
  std::vector<Field> settled = dataset.info().fields;
  const bool bare = dataset.info().shards.front().sha256.empty();
  comm::agree(comm, [&] {
    if (normalize == Normalize::none || bare) return;
    throw DatasetError(
        "{}: data.normalize = \"standardize\" is for a bare .h5 file; dataset.json records the transforms of a folder",
        dataset.path().string());
  });
  for (std::size_t f = 0; f < settled.size(); ++f) {
    Field& field = settled[f];
    if (field.role == FieldRole::parameters) {
      const ImageFormat row{.height = 1, .width = 1, .channels = field.shape.front(), .dtype = field.dtype};
      standardize(field, statistics_of(row, dataset.held_values(f)));
    }
    if (normalize == Normalize::none || field.dtype != base::DType::f32) continue;
    if (field.role == FieldRole::static_values) {
      standardize(field, statistics_of(field.format(), dataset.set_values(f - dataset.fields().size())));
    } else if (field.is_read_in_blocks()) {
      standardize(field, surveyed(comm, dataset, {.role = field.role}));
    }
  }
  dataset.set_transforms(settled);
}

}  // namespace ddpm::data
