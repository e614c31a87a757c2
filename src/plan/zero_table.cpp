#include "plan/zero_table.h"

#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/text_table.h"
#include "plan/report.h"

namespace ddpm::plan {
namespace {

using base::counted;

/// Bytes per parameter.
struct Kinds {
  double weights;
  double gradients;
  double state;  ///< master weights, moments and averages
};

/// Stage 1 shares the optimizer's state, stage 2 gradients too, stage 3 also weights.
double bytes_of(std::size_t stage, const Kinds& kinds, double parameters, double ranks) {
  const auto held = [&](std::size_t shared_from) { return stage >= shared_from ? 1.0 / ranks : 1.0; };
  return parameters * (kinds.weights * held(3) + kinds.gradients * held(2) + kinds.state * held(1));
}

std::string gigabytes(double bytes) { return fmt::format("{:.4g}", bytes / 1e9); }

}  // namespace

std::array<ZeroBytes, 4> zero_bytes(double parameters, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  std::array<ZeroBytes, 4> rows;
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    rows.at(stage) = {.quoted = bytes_of(stage, {2, 2, 8}, parameters, n),
                      .paper = bytes_of(stage, {2, 2, 12}, parameters, n),
                      .half = bytes_of(stage, {2, 4, 12 + 4}, parameters, n),
                      .float32 = bytes_of(stage, {4, 4, 8 + 4}, parameters, n)};
  }
  return rows;
}

std::string zero_text(double parameters, int64_t ranks) {
  base::TextTable table({}, 2, "  ");
  table.add({"stage", "as often quoted", "the paper", "ddpm, bf16 or fp16", "ddpm, float32"});
  table.add({"", "2 + 2 + 8", "2 + 2 + 12", "2 + 4 + 12 + 4", "4 + 4 + 8 + 4"});
  const auto rows = zero_bytes(parameters, ranks);
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    const ZeroBytes& row = rows.at(stage);
    table.add({std::to_string(stage), gigabytes(row.quoted), gigabytes(row.paper), gigabytes(row.half),
               gigabytes(row.float32)});
  }
  return fmt::format(
      "Weights, gradients, optimizer and average of {} on {}: "
      "GB (10^9 bytes) per rank, by ZeRO stage\n\n"
      "{}\nActivations, buffers and the process itself come on top: `ddpm plan CONFIG.toml` counts them.\n",
      counted(std::llround(parameters), "parameter"), counted(ranks, "rank"), table.text());
}

base::OrderedJson zero_json(double parameters, int64_t ranks) {
  base::OrderedJson json{
      {"parameters", std::llround(parameters)}, {"ranks", ranks}, {"stages", base::OrderedJson::array()}};
  const auto rows = zero_bytes(parameters, ranks);
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    const ZeroBytes& row = rows.at(stage);
    json["stages"].push_back({{"zero_stage", stage},
                              {"quoted_bytes", row.quoted},
                              {"paper_bytes", row.paper},
                              {"half_bytes", row.half},
                              {"float32_bytes", row.float32}});
  }
  return json;
}

}  // namespace ddpm::plan
