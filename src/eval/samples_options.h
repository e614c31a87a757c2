// What `ddpm eval samples` is asked for, and of which sets.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/progress_report.h"
#include "eval/feature_map.h"
#include "eval/picture_set.h"
#include "eval/sample_set.h"

namespace ddpm::eval {

/// What is measured.
enum class SampleMetric : uint8_t { moments, spectrum, histogram, neighbours, frechet, kernel, manifold };
constexpr auto names_of(SampleMetric /*type*/) {
  return std::to_array<std::string_view>(
      {"moments", "spectrum", "histogram", "neighbours", "frechet", "kernel", "manifold"});
}

struct SamplesOptions {
  std::vector<SampleMetric> metrics;  ///< what to measure, each at most once
  int64_t most = 0;                   ///< pictures of the data, of samples and of held-out ones; 0: all
  int64_t neighbours = 3;             ///< k of the manifolds
  const FeatureMap* features = nullptr;
  bool own_extractor = false;  ///< the features are the user's: neighbours are looked for by them, too
  base::Path drawing = {};     ///< a .png of the samples that are nearest to training pictures; empty: none

  [[nodiscard]] bool wants(SampleMetric metric) const;
  [[nodiscard]] bool wants_features() const;
};

/// Sets that are open. The samples have the data's channels and sides, and are on its scale.
struct SampleSets {
  const SampleSet* data = nullptr;
  const SampleSet* held_out = nullptr;  ///< null: none
  std::vector<const SampleSet*> samples = {};
  std::vector<const SampleSet*> others = {};  ///< samples of another model, which the first ones are compared with
  std::string of_scale = {};                  ///< what scale_note() says of samples; empty: nothing
};

/// What the measuring tells of itself. `enter`: a part of the work begins.
struct Reporting {
  std::function<void(const std::string& part)> enter;
  std::function<base::ProgressReport(const std::string& part)> progress;  ///< for a part that reads pictures
};

}  // namespace ddpm::eval
