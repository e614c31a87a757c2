#include "eval/samples.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "comm/collectives.h"
#include "eval/measure_samples.h"
#include "observe/png_encoder.h"

namespace ddpm::eval {
namespace {

/// The numbers of a model that all of its sets have, each over the sets.
std::vector<Measured> measure_all(SampleMeasurer& measurer, const std::vector<const SampleSet*>& sets) {
  std::vector<std::vector<Measured>> each;
  each.reserve(sets.size());
  for (const SampleSet* set : sets) each.push_back(measurer.measure(*set));
  std::vector<Measured> all;
  for (const std::vector<const Measured*>& of_sets : same_numbers(each)) {
    all.push_back(together(of_sets, measurer.same_units()));
  }
  return all;
}

/// How many samples are measured of sets, each number once.
std::set<int64_t> counts_of(const std::vector<const SampleSet*>& sets, int64_t most) {
  std::set<int64_t> counts;
  for (const SampleSet* set : sets) counts.insert(PictureSet(*set, most).size());
  return counts;
}

/// Numbers that depend on how many samples there are say nothing of sets of other sizes. Where an error is that over
/// the data, that of the samples is known by the scatter of several sets alone.
void compare_sets(const SampleSets& sets, int64_t most, const std::array<std::vector<Measured>, 2>& models,
                  bool same_units, Result& result) {
  std::set<int64_t> counts = counts_of(sets.samples, most);
  counts.merge(counts_of(sets.others, most));
  const bool several = sets.samples.size() > 1 && sets.others.size() > 1;
  for (const std::vector<const Measured*>& both : same_numbers(models)) {
    const Measured& of_a = *both.front();
    const bool comparable = (!of_a.by_count || counts.size() == 1) && (!of_a.over_data || several);
    if (of_a.best != Best::nobody && comparable) {
      result.comparisons.push_back(compare(of_a, *both.back(), same_units));
    }
  }
  decide(result.comparisons);
  if (counts.size() == 1) return;
  result.notes.push_back(
      fmt::format("The sets have {} samples: numbers that depend on how many there are, as the Fréchet distance does, "
                  "are not compared; wanted: sets of one size, or --most {}.",
                  fmt::join(counts, ", "), *counts.begin()));
}

/// Says that errors are over conditions, where a set has some.
void tell_conditions(const SampleSets& sets, const SampleMeasurer& measurer, Result& result) {
  std::vector<const SampleSet*> all = sets.samples;
  all.insert(all.end(), sets.others.begin(), sets.others.end());
  const auto conditions = [&](const SampleSet* set) { return std::ssize(measurer.units_of(*set).conditions); };
  if (const int64_t of_first = conditions(all.front()); of_first > 0) result.settings["conditions"] = of_first;
  const auto grouped = std::ranges::find_if(all, [&](const SampleSet* set) { return conditions(set) > 0; });
  if (grouped == all.end()) return;
  if (conditions(*grouped) == 1) {
    result.notes.push_back(fmt::format("All samples of {} are of one condition: there is no error over conditions.",
                                       (*grouped)->path().string()));
    return;
  }
  result.notes.push_back(fmt::format("The samples of {} are of {}; intervals are over conditions.",
                                     (*grouped)->path().string(), base::counted(conditions(*grouped), "condition")));
}

/// A mean over sets of unlike sizes is a mixture, where a number depends on the size.
void note_sizes(const SampleSets& sets, int64_t most, Result& result) {
  const std::set<int64_t> counts = counts_of(sets.samples, most);
  if (counts.size() == 1) return;
  result.notes.push_back(
      fmt::format("The sets of SAMPLES have {} samples: of numbers that depend on how many there are, as the Fréchet "
                  "distance does, the mean is of unlike ones; wanted: sets of one size, or --most {}.",
                  fmt::join(counts, ", "), *counts.begin()));
}

/// Pairs of a sample and its nearest training picture, the nearest pairs first.
void draw_nearest(comm::Communicator& world, const SampleSet& samples, const SampleMeasurer& measurer,
                  const SamplesOptions& options, base::FileSystem& files) {
  constexpr int64_t kPairs = 32;
  constexpr int64_t kColumns = 8;
  const PictureSet drawn(samples, options.most);
  std::vector<std::size_t> order(measurer.nearest().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return measurer.nearest()[i].distance; });
  const int64_t pairs = std::min(kPairs, std::ssize(order));
  comm::do_on_root(world, [&] {
    const std::vector<int64_t>& sides = samples.sides();
    at::Tensor grid = at::zeros({2 * pairs, samples.channels(), sides[0], sides[1]}, at::kFloat);
    for (int64_t i = 0; i < pairs; ++i) {
      const std::size_t sample = order[static_cast<std::size_t>(i)];
      grid[2 * i].copy_(drawn.read(static_cast<int64_t>(sample), 1)[0]);
      grid[2 * i + 1].copy_(measurer.data().read(measurer.nearest()[sample].index, 1)[0]);
    }
    observe::write_png(
        files, base::plain_path(options.drawing),
        observe::image_grid_nchw({grid.const_data_ptr<float>(), static_cast<std::size_t>(grid.numel())}, grid.size(1),
                                 grid.size(2), grid.size(3), {.columns = std::min(kColumns, 2 * pairs)}));
  });
}

std::vector<std::filesystem::path> paths_of(const std::vector<const SampleSet*>& sets) {
  std::vector<std::filesystem::path> paths;
  paths.reserve(sets.size());
  for (const SampleSet* set : sets) paths.push_back(set->path());
  return paths;
}

void note(const SampleSets& sets, const SamplesOptions& options, int64_t dimension, Result& result) {
  const int64_t of_data = PictureSet(*sets.data, options.most).size();
  if (dimension > 0 && !options.own_extractor) {
    result.notes.emplace_back(
        "The features are built-in random convolutions: these distances are not the FID or KID of other programs. "
        "--extractor takes a network of your own.");
  }
  const int64_t least = std::min(result.count, of_data);
  if (options.wants(SampleMetric::frechet) && least <= dimension) {
    result.notes.push_back(fmt::format(
        "The Fréchet distance is of {} and {}, fewer than the {} + 1 that a covariance needs: read "
        "the kernel distance.",
        base::counted(result.count, "sample"), base::counted(of_data, "picture"), base::counted(dimension, "feature")));
  }
  const auto pale = std::ranges::find_if(result.metrics, [](const Metric& metric) {
    constexpr double kPale = 0.9;
    return metric.name == "deviation" && metric.estimate.value < kPale * metric.reference.value_or(0.0);
  });
  if (pale != result.metrics.end() && options.wants(SampleMetric::neighbours)) {
    result.notes.push_back(fmt::format(
        "The samples' deviation is {:.2g} of the data's: pictures that are pale or blurred lie near to all others, so "
        "their distances say nothing of copies.",
        pale->estimate.value / *pale->reference));
  }
}

base::OrderedJson settings_of(const SampleSets& sets, const SamplesOptions& options, int64_t dimension) {
  base::OrderedJson metrics = base::OrderedJson::array();
  for (const SampleMetric metric : options.metrics) metrics.push_back(base::name_of(metric));
  base::OrderedJson settings = {{"metrics", metrics}, {"data_count", PictureSet(*sets.data, options.most).size()}};
  settings["samples_hold"] = base::name_of(sets.samples.front()->scale());
  if (sets.held_out != nullptr) settings["held_out"] = sets.held_out->path().string();
  if (dimension > 0) settings["features"] = options.features->name();
  if (dimension > 0) settings["dimension"] = dimension;
  if (options.wants(SampleMetric::manifold)) settings["neighbours"] = options.neighbours;
  return settings;
}

/// Pictures that a set needs for what is asked of it.
int64_t least_pictures(const SamplesOptions& options) {
  int64_t least = 2;
  if (options.wants(SampleMetric::frechet) || options.wants(SampleMetric::kernel)) least = 4;
  if (options.wants(SampleMetric::manifold)) least = std::max(least, options.neighbours + 1);
  return least;
}

}  // namespace

bool SamplesOptions::wants(SampleMetric metric) const { return std::ranges::find(metrics, metric) != metrics.end(); }

bool SamplesOptions::wants_features() const {
  return wants(SampleMetric::frechet) || wants(SampleMetric::kernel) || wants(SampleMetric::manifold) ||
         (own_extractor && wants(SampleMetric::neighbours));
}

void expect_measurable(const SampleSets& sets, const SamplesOptions& options) {
  if (sets.data->sides().size() != 2) {
    throw base::DatasetError("{}: holds volumes of {}; wanted: flat pictures (ddpm eval fields takes volumes)",
                             sets.data->path().string(), fmt::join(sets.data->sides(), " × "));
  }
  if (const int64_t channels = sets.data->channels(); !options.drawing.empty() && channels != 1 && channels != 3) {
    throw base::ConfigError("--neighbours {}: pictures of {} cannot be drawn; wanted: 1 (grey) or 3 (RGB)",
                            options.drawing.string(), base::counted(channels, "channel"));
  }
  std::vector<const SampleSet*> all = {sets.data};
  if (sets.held_out != nullptr) all.push_back(sets.held_out);
  all.insert(all.end(), sets.samples.begin(), sets.samples.end());
  all.insert(all.end(), sets.others.begin(), sets.others.end());
  for (const SampleSet* set : all) {
    const int64_t count = PictureSet(*set, options.most).size();
    if (set->has_mask()) {
      throw base::DatasetError(
          "{}: has a mask, so that its pixels are not all valid; wanted: pictures without one "
          "(ddpm eval fields takes masks)",
          set->path().string());
    }
    if (count >= least_pictures(options)) continue;
    throw base::DatasetError("{}: {} can be measured; wanted: {} at least, for {}", set->path().string(),
                             base::counted(count, "picture"), least_pictures(options),
                             options.wants(SampleMetric::manifold)
                                 ? fmt::format("--manifold-neighbours {}", options.neighbours)
                                 : std::string("an error"));
  }
}

Result evaluate_samples(comm::Communicator& world, const SampleSets& sets, const SamplesOptions& options,
                        base::FileSystem& files, const Reporting& reporting) {
  SampleMeasurer measurer(world, sets, options, reporting);
  Result result{.kind = ResultKind::samples,
                .data = sets.data->path(),
                .samples = paths_of(sets.samples),
                .others = paths_of(sets.others),
                .count = PictureSet(*sets.samples.front(), options.most).size()};
  result.settings = settings_of(sets, options, measurer.dimension());
  std::vector<Measured> measured = measure_all(measurer, sets.samples);
  if (!options.drawing.empty()) draw_nearest(world, *sets.samples.back(), measurer, options, files);
  for (const Measured& each : measured) result.metrics.push_back(each.metric);
  if (!sets.others.empty()) {
    compare_sets(sets, options.most, {std::move(measured), measure_all(measurer, sets.others)}, measurer.same_units(),
                 result);
  }
  if (!sets.of_scale.empty()) result.notes.push_back(sets.of_scale);
  tell_conditions(sets, measurer, result);
  note_sizes(sets, options.most, result);
  note(sets, options, measurer.dimension(), result);
  return result;
}

}  // namespace ddpm::eval
