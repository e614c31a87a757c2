#include "eval/measure_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/counted.h"
#include "eval/frechet.h"
#include "eval/kernel_distance.h"
#include "eval/manifold.h"

namespace ddpm::eval {
namespace {

constexpr const char* kPixels = "pixels";

std::span<const double> numbers_in(const at::Tensor& table) {
  return {table.const_data_ptr<double>(), static_cast<std::size_t>(table.numel())};
}

std::span<const double> numbers_in(const at::Tensor& column, std::vector<double>& room) {
  const at::Tensor whole = column.contiguous();
  room.assign(whole.const_data_ptr<double>(), whole.const_data_ptr<double>() + whole.numel());
  return room;
}

Metric metric_of(const std::string& name, const std::string& variable, const Estimate& estimate) {
  Metric metric;
  metric.name = name;
  metric.variable = variable;
  metric.estimate = estimate;
  return metric;
}

/// A number whose error is partly that of units which other sample sets share.
Measured of_shared(const std::string& name, const std::string& space, const LeftOut& number, int64_t units) {
  return {.metric = metric_of(name, space, estimate_of(number, units)), .sets = {number}};
}

/// What is of the samples beside what is of other pictures.
Metric beside(const std::string& name, const std::string& space, const Estimate& estimate, const Estimate& other) {
  Metric metric = metric_of(name, space, estimate);
  metric.against(other.value, std::isfinite(other.standard_error) ? other.standard_error : 0.0);
  return metric;
}

/// Were samples and V held-out pictures alike, the share of samples beyond the nearest of these would be distributed as
/// Beta(1, V).
Metric nearer_than_all(const Memorisation& found, const std::string& space) {
  const double nearest = std::ranges::min(found.of_reference);
  std::vector<double> nearer;
  for (const double distance : found.distances) nearer.push_back(distance < nearest ? 1.0 : 0.0);
  Metric metric = metric_of("nearer_than_all_held_out", space, share_of(nearer));
  const auto pictures = static_cast<double>(found.of_reference.size());
  metric.against(1.0 / (pictures + 1.0), std::sqrt(pictures / (pictures + 2.0)) / (pictures + 1.0));
  return metric;
}

void add_memorisation(const Memorisation& found, const std::string& space, std::vector<Measured>& all) {
  const auto add = [&all](Metric metric, bool share) {
    all.push_back({.metric = std::move(metric), .best = Best::nobody, .share = share});
  };
  add(beside("nearest_distance", space, mean_of(found.distances), mean_of(found.of_reference)),
      /*share=*/false);
  if (!found.nearer) return;
  Measured nearer = of_shared("nearer_than_held_out", space, *found.nearer, std::ssize(found.distances));
  nearer.metric.against(0.5);
  nearer.best = Best::nobody;
  all.push_back(std::move(nearer));
  add(nearer_than_all(found, space), /*share=*/true);
  add(beside("copies", space, share_of(found.copies), share_of(found.copies_of_reference)), /*share=*/true);
}

}  // namespace

SampleMeasurer::SampleMeasurer(comm::Communicator& world, const SampleSets& sets, const SamplesOptions& options,
                               const Reporting& reporting)
    : world_(world),
      options_(options),
      reporting_(reporting),
      data_(*sets.data, options.most),
      statistics_(sets.data->channels(), sets.data->sides()) {
  if (sets.held_out != nullptr) held_out_.emplace(*sets.held_out, options.most);
  const auto part = [&](const std::string& name) {
    reporting_.enter(name);
    return reporting_.progress(name);
  };
  if (options.wants(SampleMetric::moments) || options.wants(SampleMetric::spectrum)) {
    of_data_ = statistics_.estimates(numbers_in(statistic_rows(world, data_, statistics_, part("reading the data"))));
  }
  if (options.wants(SampleMetric::histogram)) {
    levels_ = pixel_levels(world, data_, part("the data's range"));
    histograms_ = pixel_histograms(world, data_, levels_, part("the data's histogram"));
  }
  if (options.wants_features()) features_ = features_of(world, data_, *options.features, part("the data's features"));
  if (!held_out_ || !options.wants(SampleMetric::neighbours)) return;
  held_out_pixels_ = pixels_of(world, *held_out_, part("reading held-out pictures"));
  if (options.own_extractor) {
    held_out_features_ = features_of(world, *held_out_, *options.features, part("features of held-out pictures"));
  }
}

std::vector<Measured> SampleMeasurer::measure(const SampleSet& set) {
  const PictureSet samples(set, options_.most);
  std::vector<Measured> all;
  add_values(samples, all);
  add_histograms(samples, all);
  at::Tensor features;
  if (options_.wants_features()) {
    reporting_.enter("features of the samples");
    features = features_of(world_, samples, *options_.features, reporting_.progress("features of the samples"));
  }
  add_neighbours(samples, features, all);
  add_distances(features, all);
  return all;
}

void SampleMeasurer::add_values(const PictureSet& samples, std::vector<Measured>& all) {
  if (of_data_.empty()) return;
  reporting_.enter("reading the samples");
  const at::Tensor rows = statistic_rows(world_, samples, statistics_, reporting_.progress("reading the samples"));
  const std::vector<Estimate> estimates = statistics_.estimates(numbers_in(rows));
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    const PictureStatistic& statistic = statistics_.list()[i];
    if (!options_.wants(statistic.band.empty() ? SampleMetric::moments : SampleMetric::spectrum)) continue;
    Metric metric = metric_of(statistic.name, channel(statistic.channel), estimates[i]);
    if (!statistic.band.empty()) metric.level = statistic.band;
    const double error = std::isfinite(of_data_[i].standard_error) ? of_data_[i].standard_error : 0.0;
    metric.against(of_data_[i].value, error);
    all.push_back({.metric = std::move(metric),
                   .best = Best::reference,
                   .reference = {.variance = error * error, .degrees = of_data_[i].degrees}});
  }
}

void SampleMeasurer::add_histograms(const PictureSet& samples, std::vector<Measured>& all) const {
  if (!options_.wants(SampleMetric::histogram)) return;
  reporting_.enter("the samples' histogram");
  const PixelHistograms seen =
      pixel_histograms(world_, samples, levels_, reporting_.progress("the samples' histogram"));
  const std::vector<Estimate> distances = histogram_distances(seen, histograms_, levels_, samples.size());
  for (std::size_t c = 0; c < distances.size(); ++c) {
    all.push_back({.metric = metric_of("histogram_distance", channel(c), distances[c]), .by_count = true});
  }
}

void SampleMeasurer::add_neighbours(const PictureSet& samples, const at::Tensor& features, std::vector<Measured>& all) {
  if (!options_.wants(SampleMetric::neighbours)) return;
  reporting_.enter("reading the samples' pixels");
  const at::Tensor pixels = pixels_of(world_, samples, reporting_.progress("reading the samples' pixels"));
  reporting_.enter("the nearest pictures");
  const Rows train{.count = data_.size(),
                   .read = [&](int64_t first, int64_t n) { return data_.read(first, n).flatten(1); }};
  const Memorisation found =
      find_memorised(world_, pixels, train, held_out_pixels_, reporting_.progress("the nearest pictures"));
  nearest_ = found.nearest;
  add_memorisation(found, kPixels, all);
  if (!options_.own_extractor) return;
  reporting_.enter("the nearest pictures by features");
  const at::Tensor held_out = held_out_features_.defined() ? held_out_features_.to(at::kFloat) : at::Tensor();
  add_memorisation(find_memorised(world_, features.to(at::kFloat), rows_of(features_), held_out,
                                  reporting_.progress("the nearest pictures by features")),
                   options_.features->name(), all);
}

void SampleMeasurer::add_distances(const at::Tensor& features, std::vector<Measured>& all) const {
  const auto add = [&](const std::string& name, const Estimate& estimate, Best best) {
    return &all.emplace_back(Measured{.metric = metric_of(name, options_.features->name(), estimate), .best = best});
  };
  if (options_.wants(SampleMetric::frechet)) {
    reporting_.enter("the Fréchet distance");
    const FrechetDistance frechet = frechet_distance(world_, features, features_);
    add("frechet_distance", frechet.measured, Best::least)->by_count = true;
    add("frechet_distance_unbiased", frechet.unbiased, Best::least);
  }
  if (options_.wants(SampleMetric::kernel)) {
    reporting_.enter("the kernel distance");
    const KernelDistance kernel = kernel_distance(world_, features, features_);
    all.push_back(of_shared("kernel_distance", options_.features->name(), kernel.whole, features.size(0)));
    all.back().metric.against(0.0);
    if (kernel.subsets) {
      add("kernel_distance_subsets", *kernel.subsets, Best::nobody)->metric.level =
          fmt::format("{} of {}", kKernelSubsets, base::counted(kKernelSubset, "picture"));
    }
  }
  if (!options_.wants(SampleMetric::manifold)) return;
  reporting_.enter("precision and recall");
  const ManifoldScores scores = manifold_scores(world_, features, features_, options_.neighbours);
  std::vector<double> room;
  const auto add_of_data = [&](const std::string& name, const at::Tensor& column) {
    const std::span<const double> numbers = numbers_in(column, room);
    const Estimate share = share_of(numbers);
    Measured* const added = add(name, share, Best::one);
    added->by_count = added->over_data = added->share = true;
    added->sets = {{.whole = share.value, .without_shared = means_without(numbers)}};
  };
  add("precision", share_of(numbers_in(scores.precision, room)), Best::one)->share = true;
  add_of_data("recall", scores.recall);
  add("density", mean_of(numbers_in(scores.density, room)), Best::one);
  add_of_data("coverage", scores.coverage);
}

}  // namespace ddpm::eval
