#include "cli/bench_stages.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/text_table.h"

namespace ddpm::cli {

using base::OrderedJson;

std::string stages_text(const bench::StageBench& bench) {
  base::TextTable table({base::Align::left}, 2);
  table.add({"unit", "GFLOP", "ms", "GFLOP/s", "stage"});
  for (std::size_t u = 0; u < bench.units.size(); ++u) {
    const bench::UnitBench& unit = bench.units[u];
    const auto place = static_cast<int64_t>(u);
    const auto stage = std::ranges::find_if(bench.by_seconds, [&](const auto& range) { return place < range.end; });
    const double operations = unit.operations * static_cast<double>(bench.micro_size);
    table.add({unit.name, fmt::format("{:.3f}", operations / 1e9), fmt::format("{:.2f}", 1e3 * unit.seconds),
               fmt::format("{:.1f}", operations / unit.seconds / 1e9),
               std::to_string(stage - bench.by_seconds.begin())});
  }
  const double slowest = bench.slowest(bench.by_seconds);
  return fmt::format(
      "Micro-batches of {}, forward and backward, {}, {}\n{}\nThe slowest stage takes {:.2f} ms; cut by counted "
      "operations ({}) it takes {:.2f} ms.\n\n[parallel]\npipeline_size = {}\nstage_units = [{}]\n",
      base::counted(bench.micro_size, "image"), base::counted(bench.threads, "thread"), bench.precision, table.text(),
      1e3 * slowest, fmt::join(bench::StageBench::unit_counts(bench.by_operations), ", "),
      1e3 * bench.slowest(bench.by_operations), bench.by_seconds.size(),
      fmt::join(bench::StageBench::unit_counts(bench.by_seconds), ", "));
}

OrderedJson stages_json(const bench::StageBench& bench) {
  OrderedJson units = OrderedJson::array();
  for (const bench::UnitBench& unit : bench.units) {
    units.push_back({{"name", unit.name}, {"flops_per_image", unit.operations}, {"seconds", unit.seconds}});
  }
  return {{"threads_per_rank", bench.threads},
          {"precision", bench.precision},
          {"micro_size", bench.micro_size},
          {"units", units},
          {"stage_units", bench::StageBench::unit_counts(bench.by_seconds)},
          {"slowest_stage_seconds", bench.slowest(bench.by_seconds)},
          {"stage_units_by_operations", bench::StageBench::unit_counts(bench.by_operations)},
          {"slowest_stage_seconds_by_operations", bench.slowest(bench.by_operations)}};
}

}  // namespace ddpm::cli
