#include "cli/data_stats_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/named.h"
#include "base/text_table.h"
#include "cli/class_counts.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;
using data::FieldStatistics;
using data::VariableStatistics;

// ---- JSON

/// A number that is not one becomes null: JSON has no NaN.
OrderedJson number(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); }

OrderedJson json_of(const data::Histogram& histogram) {
  std::vector<double> edges;
  for (std::size_t i = 0; i <= histogram.counts.size(); ++i) edges.push_back(histogram.edge(i));
  return {{"edges", edges}, {"counts", histogram.counts}};
}

OrderedJson json_of(const data::Variable& variable, const VariableStatistics& s) {
  OrderedJson json = {{"name", variable.name},
                      {"unit", variable.unit},
                      {"count", s.count},
                      {"masked", s.masked},
                      {"non_finite", s.non_finite}};
  const bool any = s.count > 0;
  const std::pair<const char*, double> numbers[] = {
      {"mean", s.moments.mean},         {"std", s.moments.std}, {"skewness", s.moments.skewness},
      {"kurtosis", s.moments.kurtosis}, {"min", s.min},         {"max", s.max}};
  for (const auto& [name, value] : numbers) json[name] = any ? number(value) : OrderedJson();
  OrderedJson quantiles = OrderedJson::array();
  for (std::size_t i = 0; i < s.quantiles.size(); ++i) {
    quantiles.push_back({{"percent", data::kPercents.at(i)}, {"value", s.quantiles[i]}});
  }
  json["quantiles"] = quantiles;
  json["histogram"] = any ? json_of(s.histogram) : OrderedJson();
  json["spectrum"] = s.spectra == 0 ? OrderedJson() : OrderedJson{{"images", s.spectra}, {"power", s.power}};
  return json;
}

OrderedJson json_of(const data::Field& field, const FieldStatistics& s) {
  OrderedJson variables = OrderedJson::array();
  for (std::size_t v = 0; v < s.variables.size(); ++v) {
    variables.push_back(json_of(field.variables[v], s.variables[v]));
  }
  return {{"name", field.name},    {"role", base::name_of(field.role)},
          {"shape", field.shape},  {"dtype", data::numpy_name(field.dtype)},
          {"images", s.images},    {"unusable_images", s.unusable},
          {"faults", s.faults},    {"spectrum_modes", s.modes},
          {"variables", variables}};
}

// ---- Text

constexpr std::size_t kPictureColumns = 16;

/// Heights from 0 to 1 as blocks; nothing is blank, and what is not nothing is seen.
std::string picture(const std::vector<double>& heights) {
  constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const double height : heights) {
    const double eighths = height > 0.0 ? std::clamp(std::round(8.0 * height), 1.0, 8.0) : 0.0;
    text += kBlocks.at(static_cast<std::size_t>(eighths));
  }
  return text;
}

/// Neighbouring bins are drawn as one.
std::string picture_of(const data::Histogram& histogram) {
  const std::size_t bins = histogram.counts.size();
  std::vector<double> columns(std::min(bins, kPictureColumns));
  for (std::size_t i = 0; i < bins; ++i) {
    columns[i * columns.size() / bins] += static_cast<double>(histogram.counts[i]);
  }
  const double most = std::ranges::max(columns);
  for (double& column : columns) column /= most;
  return picture(columns);
}

/// A spectrum for people.
struct SpectrumPicture {
  std::string columns;
  std::string decades;  ///< that they span
};

/// The logarithm of the power over that of the wavenumber. The whole height is 1 decade at least.
SpectrumPicture picture_of(const std::vector<double>& power) {
  if (power.empty()) return {};
  std::vector<double> logarithms;
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  for (std::size_t c = 0; c < kPictureColumns; ++c) {
    const double along = static_cast<double>(c) / (kPictureColumns - 1);
    const auto ring = std::lround(std::pow(static_cast<double>(power.size()), along)) - 1;
    logarithms.push_back(std::log10(power[static_cast<std::size_t>(ring)]));
    if (!std::isfinite(logarithms.back())) continue;
    low = std::min(low, logarithms.back());
    high = std::max(high, logarithms.back());
  }
  if (low > high) return {.columns = "", .decades = "0"};
  std::vector<double> heights;
  heights.reserve(logarithms.size());
  for (const double l : logarithms) {
    // The lowest column has a height, too: blank is a power of 0.
    heights.push_back(std::isfinite(l) ? std::max(1.0 + (l - high) / std::max(high - low, 1.0), 1e-3) : 0.0);
  }
  return {.columns = picture(heights), .decades = fmt::format("{:.1f}", high - low)};
}

std::string cell(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : "-"; }

std::string share(int64_t part, int64_t all) {
  return fmt::format("{:.3g} %", 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

/// Which columns a table has beside those that all have.
struct Columns {
  bool masked = false;
  bool non_finite = false;
  bool spectrum = false;
};

std::vector<std::string> heading(const Columns& columns) {
  std::vector<std::string> cells = {"variable", "mean", "std", "skewness", "kurtosis", "min", "median", "max"};
  if (columns.masked) cells.emplace_back("valid");
  if (columns.non_finite) cells.emplace_back("not finite");
  cells.emplace_back("histogram");
  if (columns.spectrum) cells.insert(cells.end(), {"spectrum", "decades"});
  return cells;
}

std::vector<std::string> row(const data::Variable& variable, const VariableStatistics& s, const Columns& columns) {
  constexpr std::size_t kMedian = 3;
  static_assert(data::kPercents.at(kMedian) == 50);
  std::vector<std::string> cells = {variable.unit.empty() ? variable.name
                                                          : fmt::format("{} [{}]", variable.name, variable.unit)};
  if (s.count > 0) {
    const data::Moments& m = s.moments;
    for (const double value : {m.mean, m.std, m.skewness, m.kurtosis, s.min, s.quantiles.at(kMedian), s.max}) {
      cells.push_back(cell(value));
    }
  } else {
    cells.insert(cells.end(), 7, "-");
  }
  const int64_t valid = s.count + s.non_finite;
  if (columns.masked) cells.push_back(share(valid, valid + s.masked));
  if (columns.non_finite) cells.push_back(base::grouped(s.non_finite));
  cells.push_back(s.count > 0 ? picture_of(s.histogram) : "");
  if (!columns.spectrum) return cells;
  const SpectrumPicture spectrum = picture_of(s.power);
  cells.insert(cells.end(), {spectrum.columns, spectrum.decades});
  return cells;
}

std::string text_of(const data::Dataset& dataset, const FieldStatistics& s) {
  const data::Field& field = dataset.info().fields[s.field];
  std::string images = "once per set";
  if (!field.per_set) {
    images = s.images == dataset.size() ? base::counted(s.images, "image")
                                        : fmt::format("{} of {}, evenly spread", base::grouped(s.images),
                                                      base::counted(dataset.size(), "image"));
  }
  if (s.unusable > 0) images += fmt::format(", {} of them damaged", base::grouped(s.unusable));
  std::string text = fmt::format("\n{} ({}) [{}] {}, {}\n", field.name, base::name_of(field.role),
                                 fmt::join(field.shape, ", "), data::numpy_name(field.dtype), images);
  Columns columns;
  for (const VariableStatistics& v : s.variables) {
    columns.masked = columns.masked || v.masked > 0;
    columns.non_finite = columns.non_finite || v.non_finite > 0;
    columns.spectrum = columns.spectrum || !v.power.empty();
  }
  std::vector<base::Align> alignment(heading(columns).size(), base::Align::right);
  alignment.front() = base::Align::left;
  for (std::size_t i = 8; i < alignment.size(); ++i) alignment[i] = base::Align::left;
  base::TextTable table(alignment, 2, "  ");
  table.add(heading(columns));
  for (std::size_t v = 0; v < s.variables.size(); ++v) table.add(row(field.variables[v], s.variables[v], columns));
  return text + table.text();
}

}  // namespace

OrderedJson stats_json(const data::Dataset& dataset, const std::vector<FieldStatistics>& fields, bool transformed) {
  OrderedJson described = OrderedJson::array();
  for (const FieldStatistics& field : fields) {
    described.push_back(json_of(dataset.info().fields[field.field], field));
  }
  OrderedJson classes = OrderedJson::array();
  for (const auto& [id, count] : class_counts(dataset)) {
    classes.push_back({{"id", id}, {"name", class_name(dataset.info(), id)}, {"count", count}});
  }
  return {{"dataset", dataset.path().string()},
          {"count", dataset.size()},
          {"values", transformed ? "transformed" : "stored"},
          {"fields", described},
          {"classes", classes}};
}

std::string stats_text(const data::Dataset& dataset, const std::vector<FieldStatistics>& fields, bool transformed) {
  std::string text =
      fmt::format("{}: {}\n", dataset.path().string(),
                  transformed ? "values as the model sees them, after the transforms" : "values as they are stored");
  bool spectra = false;
  for (const FieldStatistics& field : fields) {
    text += text_of(dataset, field);
    spectra = spectra || !field.modes.empty();
  }
  const auto classes = class_counts(dataset);
  if (!classes.empty()) {
    base::TextTable table({base::Align::left, base::Align::right, base::Align::right}, 2, "  ");
    for (const auto& [id, count] : classes) {
      table.add({class_name(dataset.info(), id), base::counted(count, "image"), share(count, dataset.size())});
    }
    text += "\nclasses\n" + table.text();
  }
  text += "\nHistograms reach from the least value to the greatest, of uint8 from 0 to 255.\n";
  if (spectra) {
    text +=
        "Spectra reach from 1 wave per longest side to waves of 2 pixels, both axes logarithmic; decades of power lie\n"
        "between the highest and the lowest column.\n";
  }
  return text;
}

}  // namespace ddpm::cli
