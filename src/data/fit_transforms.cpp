#include "data/fit_transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/shortened.h"
#include "comm/collectives.h"
#include "data/grid_fit.h"
#include "data/quantiles.h"
#include "data/standardize.h"
#include "data/survey.h"
#include "layout/range.h"

namespace ddpm::data {
namespace {

using base::ConfigError;
using base::DatasetError;

constexpr int64_t kSampleImages = 4096;
constexpr int64_t kSampleValues = int64_t{1} << 20;  // sampled values of each variable, at most

TransformKind kind_named(std::string_view name) {
  if (const auto kind = base::find_named<TransformKind>(name)) return *kind;
  throw ConfigError("--transform: \"{}\" is not a transform; {} are wanted, as in \"t2m=standardize\"", name,
                    fmt::join(names_of(TransformKind{}), ", "));
}

bool may_be_fitted(const Field& field) {
  return field.dtype == base::DType::f32 && field.role != FieldRole::parameters && !field.variables.empty();
}

std::string names_in(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) {
    for (const Variable& variable : field.variables) {
      if (may_be_fitted(field)) names.push_back(field.name + "/" + variable.name);
    }
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// Sets the kind of the variables that `name` stands for; `named` holds those that have one.
void set_kind(std::string_view name, TransformKind kind, const std::vector<Field>& fields, TransformKinds& kinds,
              std::set<std::string>& named) {
  bool found = false;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    for (std::size_t v = 0; v < fields[f].variables.size(); ++v) {
      const std::string& variable = fields[f].variables[v].name;
      if (name != variable && name != fields[f].name + "/" + variable) continue;
      if (!may_be_fitted(fields[f])) {
        throw ConfigError(
            "--transform: {} of {} is {}; float32 values of images, conditions and static values are wanted", variable,
            fields[f].name,
            fields[f].role == FieldRole::parameters ? "a parameter, which training standardises"
                                                    : "uint8, which is always x / 127.5 - 1");
      }
      if (!named.insert(fields[f].name + "/" + variable).second) {
        throw ConfigError("--transform: {} of {} has two transforms; one of them is wanted", variable, fields[f].name);
      }
      kinds[f][v] = kind;
      found = true;
    }
  }
  if (!found) throw ConfigError("--transform: no variable is called \"{}\"; there are {}", name, names_in(fields));
}

/// Grids have a deviation for each point, and are recorded whole.
void expect_grids(const std::vector<Field>& fields, const TransformKinds& kinds) {
  int64_t all = 0;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    for (std::size_t v = 0; v < kinds[f].size(); ++v) {
      if (kinds[f][v] != TransformKind::grid) continue;
      const std::string name = fields[f].name + "/" + fields[f].variables[v].name;
      if (fields[f].role == FieldRole::static_values) {
        throw ConfigError(
            "--transform: {} has one value at each point of the set, so that no grid can be taken of it; "
            "wanted: another transform, as in \"{}=standardize\"",
            name, name);
      }
      const int64_t points = fields[f].format().pixels();
      all += points;
      if (points <= kMostGridPoints && all <= kMostGridPointsOfSet) continue;
      throw ConfigError(
          "--transform: a grid of {} has {} points, with those before it {}; at most {} of a variable and "
          "{} of a set are wanted",
          name, points, all, kMostGridPoints, kMostGridPointsOfSet);
    }
  }
}

/// Values at evenly spaced places, of each variable by itself.
struct Sampler {
  const ImageFormat& format;
  int64_t pixels;  // pixels that are sampled in each image; those that are not valid are skipped

  Sampler(const ImageFormat& of, int64_t images) : format(of), pixels(std::max<int64_t>(1, kSampleValues / images)) {
    pixels = std::min(pixels, format.pixels());
  }
  void add(std::span<const std::byte> image, std::span<const std::byte> valid, std::vector<std::vector<float>>& to) {
    for (int64_t i = 0; i < pixels; ++i) {
      const auto pixel = static_cast<std::size_t>(i * format.pixels() / pixels);
      if (!valid.empty() && valid[pixel] == std::byte{0}) continue;
      for (std::size_t c = 0; c < to.size(); ++c) {
        float value = 0.0F;
        std::memcpy(&value, &image[(pixel * to.size() + c) * sizeof(float)], sizeof(float));
        to[c].push_back(value);
      }
    }
  }
};

void take_logarithms(std::span<std::byte> values) {
  for (std::size_t at = 0; at < values.size(); at += sizeof(float)) {
    float value = 0.0F;
    std::memcpy(&value, &values[at], sizeof(float));
    value = std::log1p(value);
    std::memcpy(&values[at], &value, sizeof(float));
  }
}

/// What is asked of one field's values.
class FieldFit {
 public:
  FieldFit(comm::Communicator& comm, const Dataset& dataset, std::size_t field)
      : comm_(comm), dataset_(dataset), field_(field), of_set_(field >= dataset.fields().size()) {}

  [[nodiscard]] Field fitted(Field field, const std::vector<TransformKind>& kinds) {
    const auto wants = [&](auto... kind) { return ((std::ranges::count(kinds, kind) > 0) || ...); };
    std::vector<ChannelStatistics> plain;
    std::vector<ChannelStatistics> logarithms;
    std::vector<std::vector<float>> sample;
    std::vector<Transform> grids;
    if (wants(TransformKind::standardize, TransformKind::minmax, TransformKind::log1p)) plain = statistics({});
    comm::agree(comm_, [&] { expect_logarithms(field, kinds, plain); });
    if (wants(TransformKind::log1p)) logarithms = statistics(take_logarithms);
    if (wants(TransformKind::quantile, TransformKind::quantile_uniform)) sample = sampled();
    if (wants(TransformKind::grid)) grids = fitted_grids(field.role, kinds);
    for (std::size_t v = 0; v < kinds.size(); ++v) {
      Transform& transform = field.variables[v].transform;
      switch (kinds[v]) {
        case TransformKind::none:
          break;
        case TransformKind::standardize:
          transform = standardized(plain[v]);
          break;
        case TransformKind::minmax:
          transform = ranged(plain[v]);
          break;
        case TransformKind::log1p:
          transform = {TransformType::log1p, standardized(logarithms[v]).map().scale,
                       standardized(logarithms[v]).map().offset};
          break;
        case TransformKind::quantile:
        case TransformKind::quantile_uniform:
          transform = quantile_map(quantiles(v, sample), kinds[v] == TransformKind::quantile_uniform);
          break;
        case TransformKind::grid:
          transform = std::move(grids[v]);
          break;
      }
    }
    return field;
  }

 private:
  static Transform ranged(const ChannelStatistics& s) {
    if (!(s.max > s.min)) return Normalization{.scale = 1.0, .offset = -s.min};
    return {TransformType::minmax, s.min, s.max};
  }

  void expect_logarithms(const Field& field, const std::vector<TransformKind>& kinds,
                         const std::vector<ChannelStatistics>& plain) const {
    for (std::size_t v = 0; v < kinds.size(); ++v) {
      if (kinds[v] != TransformKind::log1p || plain[v].min > -1.0) continue;
      throw DatasetError("--transform: log1p takes values above -1, the least one of {}/{} is {}", field.name,
                         field.variables[v].name, plain[v].min);
    }
  }

  std::vector<ChannelStatistics> statistics(const std::function<void(std::span<std::byte>)>& prepare) {
    if (!of_set_) return surveyed(comm_, dataset_, {.role = dataset_.fields()[field_].role, .prepare = prepare});
    const std::size_t at = field_ - dataset_.fields().size();
    const std::span<const std::byte> values = dataset_.set_values(at);
    std::vector<std::byte> prepared(values.begin(), values.end());
    if (prepare) prepare(prepared);
    return statistics_of(dataset_.set_fields()[at].format(), prepared);
  }

  /// The transforms of the variables that are to have one, in the places of all variables.
  std::vector<Transform> fitted_grids(FieldRole role, const std::vector<TransformKind>& kinds) {
    std::vector<std::size_t> wanted;
    for (std::size_t v = 0; v < kinds.size(); ++v) {
      if (kinds[v] == TransformKind::grid) wanted.push_back(v);
    }
    std::vector<PointScales> scales = fit_grids(comm_, dataset_, role, wanted);
    std::vector<Transform> grids(kinds.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) grids[wanted[i]] = Transform(std::move(scales[i]));
    return grids;
  }

  /// This rank's share of the sample, for each variable.
  std::vector<std::vector<float>> sampled() {
    const Field& field = of_set_ ? dataset_.set_fields()[field_ - dataset_.fields().size()] : dataset_.fields()[field_];
    const ImageFormat format = field.format();
    std::vector<std::vector<float>> sample(static_cast<std::size_t>(format.channels));
    if (of_set_) {
      Sampler sampler(format, 1);
      if (comm_.rank() == 0) sampler.add(dataset_.set_values(field_ - dataset_.fields().size()), {}, sample);
      return sample;
    }
    const int64_t images = std::min(kSampleImages, dataset_.size());
    Sampler sampler(format, images);
    comm::agree(comm_, [&] {
      const layout::Range mine = layout::even_part(images, comm_.size(), comm_.rank());
      std::vector<std::byte> image(field.bytes());
      std::vector<std::byte> mask;
      for (int64_t i = mine.begin; i < mine.end; ++i) {
        const int64_t index = i * dataset_.size() / images;
        dataset_.read_unconfirmed(field_, index, 1, image);
        sampler.add(image, field.role == FieldRole::image ? mask_of(index, mask) : std::span<const std::byte>(),
                    sample);
      }
      dataset_.expect_unchanged();
    });
    return sample;
  }

  std::span<const std::byte> mask_of(int64_t image, std::vector<std::byte>& room) const {
    const std::size_t at = dataset_.info().find(FieldRole::mask);
    if (at == dataset_.info().fields.size()) return {};
    if (at >= dataset_.fields().size()) return dataset_.set_values(at - dataset_.fields().size());
    room.resize(dataset_.fields()[at].bytes());
    dataset_.read_unconfirmed(at, image, 1, room);
    return room;
  }

  /// All ranks' values together, whose order does not matter.
  std::vector<double> quantiles(std::size_t variable, const std::vector<std::vector<float>>& sample) {
    const std::vector<float>& mine = sample[variable];
    std::string bytes(mine.size() * sizeof(float), '\0');
    if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
    std::vector<float> all;
    for (const std::string& part : comm::all_gather(comm_, bytes)) {
      const std::size_t before = all.size();
      all.resize(before + part.size() / sizeof(float));
      if (!part.empty()) std::memcpy(&all[before], part.data(), part.size());
    }
    comm::agree(comm_, [&] {
      if (all.empty()) {
        throw DatasetError("{}: no mask says of any sampled pixel that it is valid, so there are no quantiles",
                           dataset_.path().string());
      }
    });
    return quantiles_of(all);
  }

  comm::Communicator& comm_;
  const Dataset& dataset_;
  std::size_t field_;
  bool of_set_;
};

}  // namespace

namespace {

TransformKinds read_kinds(const std::string& text, const std::vector<Field>& fields) {
  TransformKinds kinds;
  for (const Field& field : fields) kinds.emplace_back(field.variables.size(), TransformKind::none);
  if (base::trimmed(text).empty()) return kinds;
  if (text.find('=') == std::string::npos) {
    const TransformKind kind = kind_named(base::trimmed(text));
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (may_be_fitted(fields[f])) std::ranges::fill(kinds[f], kind);
    }
    if (kind != TransformKind::none && names_in(fields) == "none") {
      throw ConfigError("--transform {}: there are no float32 values", text);
    }
    return kinds;
  }
  std::set<std::string> named;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto equals = one.find('=');
    if (equals == std::string_view::npos) {
      throw ConfigError("--transform: \"{}\" lacks a transform, as in \"t2m=standardize\"", base::trimmed(one));
    }
    set_kind(base::trimmed(one.substr(0, equals)), kind_named(base::trimmed(one.substr(equals + 1))), fields, kinds,
             named);
  }
  return kinds;
}

}  // namespace

TransformKinds parse_transforms(const std::string& text, const std::vector<Field>& fields) {
  TransformKinds kinds = read_kinds(text, fields);
  expect_grids(fields, kinds);
  return kinds;
}

bool wants_fit(const TransformKinds& kinds) {
  const auto fits = [](TransformKind kind) { return kind != TransformKind::none; };
  return std::ranges::any_of(kinds, [&](const auto& field) { return std::ranges::any_of(field, fits); });
}

std::vector<Field> fit_transforms(comm::Communicator& comm, const Dataset& dataset, const TransformKinds& kinds) {
  std::vector<Field> fields = dataset.fields();
  fields.insert(fields.end(), dataset.set_fields().begin(), dataset.set_fields().end());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (wants_fit({kinds.at(f)})) fields[f] = FieldFit(comm, dataset, f).fitted(fields[f], kinds[f]);
  }
  return fields;
}

}  // namespace ddpm::data
