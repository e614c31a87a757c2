#include "data/join_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "base/error.h"
#include "data/foreign_rows.h"

namespace ddpm::data {
namespace {

constexpr double kRounding = 1e-6;  // of a step

bool is_step(double gap, double step) { return std::abs(gap - step) <= kRounding * std::abs(step); }

/// The step that the times of all files have: the median one, of which a few missing files change nothing; 0: none.
double step_of(const std::vector<BareFile>& files) {
  std::vector<double> steps;
  std::optional<double> before;
  for (const BareFile& file : files) {
    for (const double place : file.times.places) {
      if (before) steps.push_back(place - *before);
      before = place;
    }
  }
  if (steps.empty()) return 0.0;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

/// Whether all times of both files are one step apart, and those of the second one follow those of the first.
bool goes_on(const BareFile::Times& before, const BareFile::Times& after, double step) {
  if (before.places.empty() || after.places.empty() || before.unit != after.unit || before.unit.empty()) return false;
  std::vector<double> places = before.places;
  places.insert(places.end(), after.places.begin(), after.places.end());
  const auto apart = [step](double a, double b) { return !is_step(b - a, step); };
  return step != 0.0 && std::ranges::adjacent_find(places, apart) == places.end();
}

}  // namespace

std::vector<std::size_t> join_pairs(std::vector<BareFile>& files, const DatasetOptions& options,
                                    const std::string& name) {
  const int64_t lead = options.lead;
  std::vector<std::size_t> last(files.size());
  const double step = step_of(files);
  int64_t images = 0;
  for (std::size_t f = files.size(); f-- > 0;) {
    BareFile& file = files[f];
    last[f] = f;
    const bool joined = lead > 0 && f + 1 < files.size() && goes_on(file.times, files[f + 1].times, step);
    if (joined) {
      for (std::size_t r = 0; r < file.foreign.size(); ++r) file.foreign[r]->go_on_with(*files[f + 1].foreign[r]);
      const int64_t own = std::ssize(file.times.places);
      file.info.count = std::clamp<int64_t>(file.foreign.front()->places() - lead, 0, own);
      for (ForeignRows* rows : file.foreign) rows->set_rows(file.info.count);
      file.info.shards.front().count = file.info.count;
      last[f] = last[f + 1];
    }
    images += file.info.count;
  }
  if (images > 0) return last;
  throw base::DatasetError("{}: no two places are {} apart; files with more are wanted", name,
                           key_text(options.said_by, "lead", lead));
}

}  // namespace ddpm::data
