#include "denoise/image_values.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "config/resolve.h"
#include "config/value.h"
#include "data/sample_bands.h"
#include "data/survey.h"
#include "run/run_folder.h"

namespace ddpm::denoise {
namespace {

// A sample of this size is read from a bare file at each start, which is little beside the first steps of training.
constexpr int64_t kSampleImages = 256;
constexpr int64_t kSampleBytes = int64_t{64} << 20;

data::ChannelStatistics normalized(const data::ChannelStatistics& stored, const data::Normalization& map) {
  const auto [least, greatest] =
      std::minmax({stored.min * map.scale + map.offset, stored.max * map.scale + map.offset});
  return {.mean = stored.mean * map.scale + map.offset,
          .std = stored.std * std::abs(map.scale),
          .min = least,
          .max = greatest};
}

bool holds_one_value(const data::ChannelStatistics& s) { return s.std == 0.0; }

bool far_from_unit_scale(const data::ChannelStatistics& s) {
  return !(std::abs(s.mean) <= kFarMean && s.std >= kLeastDeviation && s.std <= kGreatestDeviation);
}

/// "channel 0 (mean 288, deviation 21.3, from 210 to 320), channel 2 (...) and 3 more" of those that `matters` picks;
/// "" when there is none.
template <typename Matters>
std::string channels_text(const ImageValues& values, const Matters& matters) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> named;
  int64_t others = 0;
  for (std::size_t c = 0; c < values.channels.size(); ++c) {
    const data::ChannelStatistics& s = values.channels[c];
    if (!matters(s)) continue;
    if (named.size() == kNamed) {
      ++others;
      continue;
    }
    named.push_back(fmt::format("{} (mean {:.4g}, deviation {:.4g}, from {:.4g} to {:.4g})", values.names[c], s.mean,
                                s.std, s.min, s.max));
  }
  return fmt::format("{}{}", fmt::join(named, ", "), others > 0 ? fmt::format(" and {} more", others) : "");
}

/// The deviation of the values of all channels, which have as many pixels each.
double common_deviation(const std::vector<data::ChannelStatistics>& channels) {
  const auto count = static_cast<double>(channels.size());
  double mean = 0.0;
  for (const data::ChannelStatistics& s : channels) mean += s.mean / count;
  double variance = 0.0;
  for (const data::ChannelStatistics& s : channels) {
    variance += (s.std * s.std + (s.mean - mean) * (s.mean - mean)) / count;
  }
  return std::sqrt(variance);
}

/// Whether diffusion.clip_sample of the run in `run` is true. It is false when there is no readable run; the run's own
/// checks then say why.
bool clip_sample_of(const base::FileSystem& files, const base::Path& run) {
  const base::Path file = run / checkpoint::kConfigName;
  if (!files.exists(file)) return false;
  try {
    const config::Table stored = config::read_toml(file);
    const config::Value* value = config::find_value(stored, "diffusion", "clip_sample");
    const bool* clips = value == nullptr ? nullptr : std::get_if<bool>(&value->data);
    return clips != nullptr && *clips;
  } catch (const base::ConfigError&) {
    return false;
  }
}

}  // namespace

ImageValues stored_values(const data::Dataset& dataset, comm::Communicator& world) {
  ImageValues values{.channels = dataset.info().statistics, .origin = kAllImages};
  if (values.channels.empty() && dataset.image().bytes() > static_cast<std::size_t>(kSampleBytes)) {
    values = {.channels = data::statistics_of_bands(world, dataset), .origin = "sampled rows"};
  } else if (values.channels.empty()) {
    const auto seen =
        data::survey(world, dataset, {.most_images = data::sample_size(dataset, kSampleImages, kSampleBytes)});
    comm::agree(world, [&] {
      if (seen.unusable > 0) throw base::DatasetError("{}", seen.faults.front());
    });
    values = {.channels = seen.statistics,
              .origin = seen.images == dataset.size() ? kAllImages : fmt::format("{} sampled images", seen.images)};
  }
  const auto& variables = dataset.info().image_field().variables;
  for (std::size_t c = 0; c < values.channels.size(); ++c) values.names.push_back(variables[c].name);
  return values;
}

std::optional<ImageValues> model_values(const data::Dataset& dataset, const ImageValues& stored) {
  if (dataset.image().dtype != base::DType::f32 || stored.channels.empty()) return std::nullopt;
  const auto& variables = dataset.info().image_field().variables;
  if (std::ranges::any_of(variables, [](const data::Variable& v) { return !v.transform.is_affine(); })) return {};
  ImageValues values = stored;
  for (std::size_t c = 0; c < values.channels.size(); ++c) {
    values.channels[c] = normalized(values.channels[c], variables[c].transform.map());
  }
  return values;
}

std::optional<ImageValues> image_values(const data::Dataset& dataset, comm::Communicator& world) {
  if (dataset.image().dtype != base::DType::f32) return std::nullopt;
  return model_values(dataset, stored_values(dataset, world));
}

std::vector<std::string> value_warnings(const ImageValues& values, const diffusion::SchedulerConfig& scheduler,
                                        const std::string& path) {
  std::vector<std::string> warnings;
  const std::string far = channels_text(values, far_from_unit_scale);
  if (!far.empty()) {
    warnings.push_back(
        fmt::format("{}: values are far from unit scale, as {} show: {}; wanted: means within ±{:g} and deviations "
                    "from {:g} to {:g}, such as data.normalize = \"standardize\" gives for a bare .h5 file{}",
                    path, values.origin, far, kFarMean, kLeastDeviation, kGreatestDeviation,
                    std::ranges::any_of(values.channels, holds_one_value)
                        ? "; a channel of deviation 0 holds one value, from which nothing is learned: leave it out"
                        : ""));
  }
  const bool cuts =
      scheduler.formulation == diffusion::Formulation::ddpm && (scheduler.thresholding || scheduler.clips());
  const double range = scheduler.thresholding ? 1.0 : scheduler.clip_sample_range;
  const std::string cut = channels_text(
      values, [&](const data::ChannelStatistics& s) { return cuts && (s.min < -range || s.max > range); });
  if (!cut.empty()) {
    const std::string_view key = scheduler.thresholding ? "thresholding" : "clip_sample";
    warnings.push_back(
        fmt::format("{}: samples will be cut at ±{:g} (diffusion.{} = true), but values go beyond, as {} show: {}; "
                    "wanted: diffusion.{} = false",
                    path, range, key, values.origin, cut, key));
  }
  return warnings;
}

std::string sigma_data_warning(const ImageValues& values, const diffusion::SchedulerConfig& scheduler,
                               const std::string& path) {
  if (scheduler.formulation != diffusion::Formulation::edm || values.channels.empty()) return "";
  const double deviation = common_deviation(values.channels);
  const double off = std::max(deviation / scheduler.sigma_data, scheduler.sigma_data / deviation);
  if (deviation == 0.0 || off <= kMostOffSigmaData) return "";
  return fmt::format(
      "{}: the deviation of all values is {:.3g} as the model sees them, as {} show, but diffusion.sigma_data = {:g}; "
      "wanted: diffusion.sigma_data = {:.2g}",
      path, deviation, values.origin, scheduler.sigma_data, deviation);
}

void warn_of_values(const std::optional<ImageValues>& values, const diffusion::SchedulerConfig& scheduler,
                    const data::Dataset& dataset, const base::Logger& log) {
  if (!values) return;
  for (const std::string& warning : value_warnings(*values, scheduler, dataset.path().string())) {
    log.warn("{}", warning);
  }
}

bool settled_clip_sample(const diffusion::SchedulerConfig& scheduler, const data::Dataset& dataset,
                         const base::Path& run, const run::Runtime& runtime) {
  if (scheduler.clip_sample) return *scheduler.clip_sample;
  if (dataset.image().dtype == base::DType::u8) return true;
  const bool clips = comm::ask_root(runtime.session.world(), [&] { return clip_sample_of(runtime.files, run); });
  if (clips) {
    runtime.log.info("diffusion.clip_sample = true, as the run in {} has it: samples are cut at ±{:g}", run.string(),
                     scheduler.clip_sample_range);
  } else {
    runtime.log.info("diffusion.clip_sample = false, since {} holds float32 values: samples are not cut",
                     dataset.path().string());
  }
  return clips;
}

}  // namespace ddpm::denoise
