#include "eval/measure_samples.h"

#include <algorithm>
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

/// A metric without its estimate.
Metric named(const std::string& name, const std::string& variable) {
  Metric metric;
  metric.name = name;
  metric.variable = variable;
  return metric;
}

/// What is of the samples beside what is of other pictures.
void hold_beside(Metric& metric, const Estimate& other) {
  metric.against(other.value, std::isfinite(other.standard_error) ? other.standard_error : 0.0);
}

/// The conditions of the samples of a set that are measured.
std::vector<int64_t> conditions_of(comm::Communicator& world, const SampleSet& set, int64_t most) {
  const std::vector<int64_t> all = set.conditions(world);
  std::vector<int64_t> measured;
  if (all.empty()) return measured;
  const PictureSet samples(set, most);
  measured.reserve(static_cast<std::size_t>(samples.size()));
  for (int64_t i = 0; i < samples.size(); ++i) measured.push_back(all[static_cast<std::size_t>(samples.place(i))]);
  return measured;
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
  find_units(sets);
  const auto part = [&](const std::string& name) {
    reporting_.enter(name);
    return reporting_.progress(name);
  };
  if (options.wants(SampleMetric::moments) || options.wants(SampleMetric::spectrum)) {
    const at::Tensor rows = statistic_rows(world, data_, statistics_, part("reading the data"));
    for (const LeftOut& number : statistics_.left_out(numbers_in(rows))) {
      of_data_.push_back(estimate_of(number, data_.size()));
    }
  }
  if (options.wants(SampleMetric::histogram)) {
    levels_ = pixel_levels(world, data_, part("the data's range"));
    histograms_ = pixel_histograms(world, data_, {}, levels_, part("the data's histogram"));
  }
  if (options.wants_features()) features_ = features_of(world, data_, *options.features, part("the data's features"));
  if (!held_out_ || !options.wants(SampleMetric::neighbours)) return;
  held_out_pixels_ = pixels_of(world, *held_out_, part("reading held-out pictures"));
  if (options.own_extractor) {
    held_out_features_ =
        features_of(world, *held_out_, *options.features, part("features of held-out pictures"), features_.size(1));
  }
}

void SampleMeasurer::find_units(const SampleSets& sets) {
  std::vector<const SampleSet*> all = sets.samples;
  all.insert(all.end(), sets.others.begin(), sets.others.end());
  for (const SampleSet* set : all) {
    units_.emplace(set, SampleUnits::of(conditions_of(world_, *set, options_.most)));
    grouped_ = grouped_ || units_of(*set).grouped();
  }
  same_units_ = grouped_ && std::ranges::all_of(all, [&](const SampleSet* set) {
                  return units_of(*set).conditions == units_of(*all.front()).conditions;
                });
}

Measured SampleMeasurer::of_units(Metric metric, const LeftOut& number, int64_t units) const {
  metric.estimate = estimate_of(number, units);
  Measured measured{.metric = std::move(metric)};
  if (grouped_) measured.sets = {number};
  return measured;
}

Measured SampleMeasurer::mean_of_samples(Metric metric, std::span<const double> numbers, bool share,
                                         const SampleUnits& units) const {
  Measured measured;
  if (grouped_) {
    measured = of_units(std::move(metric), mean_over(numbers, units), units.count(std::ssize(numbers)));
  } else {
    metric.estimate = mean_of(numbers);
    measured.metric = std::move(metric);
  }
  measured.share = share;
  if (share) measured.metric.estimate = wilson(measured.metric.estimate);
  return measured;
}

std::vector<Measured> SampleMeasurer::measure(const SampleSet& set) {
  const PictureSet samples(set, options_.most);
  std::vector<Measured> all;
  add_values(samples, all);
  add_histograms(samples, all);
  at::Tensor features;
  if (options_.wants_features()) {
    reporting_.enter("features of the samples");
    features = features_of(world_, samples, *options_.features, reporting_.progress("features of the samples"),
                           features_.size(1));
  }
  add_neighbours(samples, features, all);
  add_distances(features, units_of(set), all);
  return all;
}

void SampleMeasurer::add_values(const PictureSet& samples, std::vector<Measured>& all) {
  if (of_data_.empty()) return;
  reporting_.enter("reading the samples");
  const at::Tensor rows = statistic_rows(world_, samples, statistics_, reporting_.progress("reading the samples"));
  const SampleUnits& units = units_of(samples.set());
  const std::vector<LeftOut> numbers = statistics_.left_out(numbers_in(rows), units);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const PictureStatistic& statistic = statistics_.list()[i];
    if (!options_.wants(statistic.band.empty() ? SampleMetric::moments : SampleMetric::spectrum)) continue;
    Measured measured =
        of_units(named(statistic.name, channel(statistic.channel)), numbers[i], units.count(samples.size()));
    if (!statistic.band.empty()) measured.metric.level = statistic.band;
    hold_beside(measured.metric, of_data_[i]);
    const double error = measured.metric.reference_error.value_or(0.0);
    measured.best = Best::reference;
    measured.reference = {.variance = error * error, .degrees = of_data_[i].degrees};
    all.push_back(std::move(measured));
  }
}

void SampleMeasurer::add_histograms(const PictureSet& samples, std::vector<Measured>& all) const {
  if (!options_.wants(SampleMetric::histogram)) return;
  reporting_.enter("the samples' histogram");
  const SampleUnits& units = units_of(samples.set());
  const PixelHistograms seen =
      pixel_histograms(world_, samples, units, levels_, reporting_.progress("the samples' histogram"));
  const std::vector<LeftOut> distances = histogram_distances(seen, histograms_, levels_);
  for (std::size_t c = 0; c < distances.size(); ++c) {
    all.push_back(of_units(named("histogram_distance", channel(c)), distances[c], units.count(samples.size())));
    all.back().by_count = true;
  }
}

void SampleMeasurer::add_memorisation(const Memorisation& found, const std::string& space, const SampleUnits& units,
                                      std::vector<Measured>& all) const {
  const auto add = [&](const std::string& name, std::span<const double> numbers, bool share) {
    Measured& added = all.emplace_back(mean_of_samples(named(name, space), numbers, share, units));
    added.best = Best::nobody;
    return &added.metric;
  };
  hold_beside(*add("nearest_distance", found.distances, /*share=*/false), mean_of(found.of_reference));
  if (!found.nearer) return;
  const LeftOut nearer = units.grouped() ? share_below(found.distances, found.of_reference, units) : *found.nearer;
  Measured& often = all.emplace_back(
      of_units(named("nearer_than_held_out", space), nearer, units.count(std::ssize(found.distances))));
  often.sets = {nearer};
  often.metric.against(0.5);
  often.best = Best::nobody;
  // Were samples and V held-out pictures alike, the share of samples beyond the nearest of these would be distributed
  // as Beta(1, V).
  const double nearest = std::ranges::min(found.of_reference);
  std::vector<double> nearer_than_all;
  for (const double distance : found.distances) nearer_than_all.push_back(distance < nearest ? 1.0 : 0.0);
  const auto pictures = static_cast<double>(found.of_reference.size());
  add("nearer_than_all_held_out", nearer_than_all, /*share=*/true)
      ->against(1.0 / (pictures + 1.0), std::sqrt(pictures / (pictures + 2.0)) / (pictures + 1.0));
  hold_beside(*add("copies", found.copies, /*share=*/true), share_of(found.copies_of_reference));
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
  const SampleUnits& units = units_of(samples.set());
  add_memorisation(found, kPixels, units, all);
  if (!options_.own_extractor) return;
  reporting_.enter("the nearest pictures by features");
  const at::Tensor held_out = held_out_features_.defined() ? held_out_features_.to(at::kFloat) : at::Tensor();
  add_memorisation(find_memorised(world_, features.to(at::kFloat), rows_of(features_), held_out,
                                  reporting_.progress("the nearest pictures by features")),
                   options_.features->name(), units, all);
}

void SampleMeasurer::add_distances(const at::Tensor& features, const SampleUnits& units,
                                   std::vector<Measured>& all) const {
  const auto name_of = [&](const std::string& name) { return named(name, options_.features->name()); };
  const auto add = [&all](Measured measured, Best best) {
    measured.best = best;
    return &all.emplace_back(std::move(measured));
  };
  const int64_t independent = options_.wants_features() ? units.count(features.size(0)) : 0;
  if (options_.wants(SampleMetric::frechet)) {
    reporting_.enter("the Fréchet distance");
    const FrechetDistance frechet = frechet_distance(world_, features, features_, units);
    const auto of = [&](const std::string& name, const Estimate& estimate) {
      return of_units(name_of(name), {.whole = estimate.value, .without = frechet.left_out}, independent);
    };
    add(of("frechet_distance", frechet.measured), Best::least)->by_count = true;
    add(of("frechet_distance_unbiased", frechet.unbiased), Best::least);
  }
  if (options_.wants(SampleMetric::kernel)) {
    reporting_.enter("the kernel distance");
    const KernelDistance kernel = kernel_distance(world_, features, features_, units);
    Measured* const whole = add(of_units(name_of("kernel_distance"), kernel.whole, independent), Best::least);
    whole->sets = {kernel.whole};
    whole->metric.against(0.0);
    if (kernel.subsets) {
      Metric subsets = name_of("kernel_distance_subsets");
      subsets.level = fmt::format("{} of {}", kKernelSubsets, base::counted(kKernelSubset, "picture"));
      subsets.estimate = *kernel.subsets;
      add({.metric = std::move(subsets)}, Best::nobody);
    }
  }
  if (!options_.wants(SampleMetric::manifold)) return;
  reporting_.enter("precision and recall");
  const ManifoldScores scores = manifold_scores(world_, features, features_, options_.neighbours);
  std::vector<double> room;
  const auto add_mean = [&](const std::string& name, const at::Tensor& column, bool share) {
    add(mean_of_samples(name_of(name), numbers_in(column, room), share, units), Best::one);
  };
  const auto add_of_data = [&](const std::string& name, const at::Tensor& column) {
    const std::span<const double> numbers = numbers_in(column, room);
    Metric metric = name_of(name);
    metric.estimate = share_of(numbers);
    const LeftOut left_out{.whole = metric.estimate.value, .without_shared = means_without(numbers)};
    Measured* const added = add({.metric = std::move(metric), .sets = {left_out}}, Best::one);
    added->by_count = added->over_data = added->share = true;
  };
  add_mean("precision", scores.precision, /*share=*/true);
  add_of_data("recall", scores.recall);
  add_mean("density", scores.density, /*share=*/false);
  add_of_data("coverage", scores.coverage);
}

}  // namespace ddpm::eval
