#include "data/join_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "data/foreign_rows.h"

namespace ddpm::data {
namespace {

/// What a gap may differ from the step, as a share of it: months have 28 to 31 days, and where a time is missing the
/// gap is two steps.
constexpr double kNear = 0.5;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool is_step(double gap, double step) { return std::abs(gap - step) < kNear * std::abs(step); }

/// Whether times that follow each other lie in several files: of one sample axis.
bool may_go_on(const BareFile& file) { return file.foreign.front()->is_along_one_axis(); }

/// The step that the times of all files of this unit have: the median one, of which a few missing times change nothing.
/// 0: there is none, because half of the gaps are others.
double step_of(const std::vector<BareFile>& files, const std::string& unit) {
  std::vector<double> gaps;
  double before = kUnknown;
  for (const BareFile& file : files) {
    if (file.times.unit != unit) {
      before = kUnknown;
      continue;
    }
    if (!may_go_on(file)) before = kUnknown;
    for (const double place : file.times.places) {
      if (std::isfinite(place - before)) gaps.push_back(place - before);
      before = place;
    }
  }
  if (gaps.empty()) return 0.0;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>((gaps.size() - 1) / 2);
  std::ranges::nth_element(gaps, middle);
  const double step = *middle;
  const auto near = std::ranges::count_if(gaps, [step](double gap) { return is_step(gap, step); });
  return 2 * near > std::ssize(gaps) ? step : 0.0;
}

/// The steps of the files, in their order. Years may be counted in days here and in hours there.
std::vector<double> steps_of(const std::vector<BareFile>& files) {
  std::map<std::string, double> known;
  std::vector<double> steps;
  for (const BareFile& file : files) {
    const auto [place, is_new] = known.try_emplace(file.times.unit);
    if (is_new) place->second = step_of(files, file.times.unit);
    steps.push_back(place->second);
  }
  return steps;
}

/// Whether the times of the second file follow those of the first.
bool goes_on(const BareFile& before, const BareFile& after, double step) {
  const BareFile::Times& a = before.times;
  const BareFile::Times& b = after.times;
  if (a.places.empty() || b.places.empty() || a.unit != b.unit || a.unit.empty() || !may_go_on(before)) return false;
  return is_step(b.places.front() - a.places.back(), step);
}

/// Whether place p + 1 is one step after place p. Where nothing is known of times, places count.
bool goes_on(const BareFile::Times& times, std::size_t p, double step) {
  return step == 0.0 || times.places.empty() || is_step(times.places[p + 1] - times.places[p], step);
}

}  // namespace

JoinedPairs join_pairs(std::vector<BareFile>& files, const DatasetOptions& options, const std::string& name) {
  const int64_t lead = options.lead;
  JoinedPairs joined{.last = std::vector<std::size_t>(files.size())};
  const std::vector<double> steps = lead > 0 ? steps_of(files) : std::vector<double>(files.size());
  int64_t images = 0;
  int64_t after = 0;  // places that follow the one at hand, step by step
  for (std::size_t f = files.size(); f-- > 0;) {
    BareFile& file = files[f];
    const double step = steps[f];
    joined.last[f] = f;
    if (lead > 0) {
      const bool reaches_on = f + 1 < files.size() && goes_on(file, files[f + 1], step);
      for (std::size_t r = 0; reaches_on && r < file.foreign.size(); ++r) {
        file.foreign[r]->go_on_with(*files[f + 1].foreign[r]);
      }
      if (reaches_on) joined.last[f] = joined.last[f + 1];
      const int64_t own = file.foreign.front()->places();
      std::vector<int64_t> starts;
      for (int64_t p = own; p-- > 0;) {
        const bool follows = p + 1 < own ? goes_on(file.times, static_cast<std::size_t>(p), step) : reaches_on;
        after = follows ? after + 1 : 0;
        if (after >= lead) starts.push_back(p);
        if (after < lead && p + lead < own) ++joined.left_out;
      }
      std::ranges::reverse(starts);
      for (ForeignRows* rows : file.foreign) rows->set_starts(starts);
      file.info.count = file.foreign.front()->rows();
      file.info.shards.front().count = file.info.count;
    }
    images += file.info.count;
  }
  if (images > 0) return joined;
  throw base::DatasetError("{}: no two places are {} apart; files with more are wanted", name,
                           key_text(options.said_by, "lead", lead));
}

}  // namespace ddpm::data
