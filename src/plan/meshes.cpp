#include "plan/meshes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/text_table.h"
#include "layout/batch_layout.h"
#include "nn/unet2d.h"
#include "parallel/unit_flow.h"
#include "plan/report.h"
#include "run/placement.h"

namespace ddpm::plan {
namespace {

/// `count` as cuts of an image's axes: the longest part is cut by each of its prime factors, the largest first.
std::vector<int64_t> square_cuts(const data::ImageFormat& image, int64_t count) {
  const std::vector<int64_t> sides = image.sides();
  std::vector<int64_t> cuts(sides.size(), 1);
  const auto cut_longest = [&](int64_t parts) {
    std::size_t longest = 0;
    for (std::size_t axis = 1; axis < sides.size(); ++axis) {
      if (sides[axis] * cuts[longest] > sides[longest] * cuts[axis]) longest = axis;
    }
    cuts[longest] *= parts;
  };
  std::vector<int64_t> factors;
  int64_t rest = count;
  for (int64_t factor = 2; rest > 1; ++factor) {
    for (; rest % factor == 0; rest /= factor) factors.push_back(factor);
  }
  std::for_each(factors.rbegin(), factors.rend(), cut_longest);
  return count == 1 ? std::vector<int64_t>{1} : cuts;
}

/// The cuts that are tried: parts as square as they can be, which have the shortest borders, and strips of rows, which
/// have the fewest neighbours.
std::vector<std::vector<int64_t>> ways_to_cut(const data::ImageFormat& image, int64_t count) {
  std::vector<std::vector<int64_t>> ways = {square_cuts(image, count)};
  std::vector<int64_t> strips(ways.front().size(), 1);
  strips.front() = count;
  if (strips != ways.front()) ways.push_back(std::move(strips));
  return ways;
}

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    divisors.push_back(small);
    if (small != number / small) divisors.push_back(number / small);
  }
  std::ranges::sort(divisors);
  return divisors;
}

bool allows(const nn::UNet2DConfig& model, int64_t stages, int64_t parts) {
  nn::UNet2D unet(model);
  try {
    static_cast<void>(parallel::cut_model(unet, stages, /*stage_units=*/{}, /*part=*/0, parts));
    return true;
  } catch (const base::ConfigError&) {
    return false;
  }
}

/// Numbers of stages, tiles and parts whose product divides `ranks`, with stages and parts that the model allows.
std::vector<std::array<int64_t, 3>> cuts_of(const nn::UNet2DConfig& model, int64_t ranks) {
  const std::vector<int64_t> divisors = divisors_of(ranks);
  std::vector<int64_t> stages;
  std::vector<int64_t> parts;
  std::ranges::copy_if(divisors, std::back_inserter(stages), [&](int64_t n) { return allows(model, n, 1); });
  std::ranges::copy_if(divisors, std::back_inserter(parts), [&](int64_t n) { return allows(model, 1, n); });
  std::vector<std::array<int64_t, 3>> cuts;
  for (const int64_t s : stages) {
    for (const int64_t t : divisors) {
      if (ranks / s % t != 0) continue;
      for (const int64_t p : parts) {
        if (ranks / s / t % p == 0) cuts.push_back({s, t, p});
      }
    }
  }
  return cuts;
}

/// The stage with the shortest step among those that fit, or a lower one that takes little longer.
std::optional<Candidate> best_stage(const Request& request) {
  std::vector<Candidate> stages = stages_of(request, request.given);
  if (const Candidate* best = fastest(stages, request.given.nodes)) return *best;
  std::erase_if(stages, [](const Candidate& c) { return !c.refusal.empty(); });
  if (stages.empty()) return std::nullopt;
  return *std::ranges::min_element(stages, {}, [](const Candidate& c) { return c.memory.total(); });
}

/// Whether the images of a batch are dealt evenly.
bool deals_batch(const train::Config& config, int64_t ranks) {
  const layout::Parallelism p = run::parallelism_of(config);
  return layout::BatchLayout::refusal(p.global_size, /*micro_size=*/1, p.data_parallel_size(ranks)).empty();
}

/// Nothing for channels or images that cannot be cut so.
std::optional<Request> request_for(const train::Config& config, const nn::UNet2DConfig& model,
                                   const data::ImageFormat& image, const StoredSizes& stored, const PlanPlace& place) {
  try {
    return plan_request(config, model, image, stored, place);
  } catch (const base::ConfigError&) {
    return std::nullopt;
  }
}

std::string tiles_text(const std::vector<int64_t>& cuts) { return fmt::format("{}", fmt::join(cuts, " × ")); }

std::vector<std::string> row_of(const PlannedMesh& mesh) {
  const Candidate& c = mesh.candidate;
  const layout::Parallelism& p = c.arrangement.parallelism;
  return {std::to_string(p.pipeline_size),
          tiles_text(mesh.spatial_size),
          std::to_string(p.tensor_size),
          p.zero_stage == 0 ? "0" : fmt::format("{}/{}", p.zero_stage, c.arrangement.shard_size()),
          std::to_string(c.arrangement.data_parallel_size()),
          std::to_string(p.micro_size),
          size_text(c.memory.total()),
          fmt::format("{:.4g} s", c.time.total()),
          fmt::format("{:.0f}%", 100.0 * c.time.efficiency()),
          c.fits ? "yes" : "no"};
}

/// Those meshes that the configuration can be trained on with its own activation checkpointing.
std::vector<PlannedMesh> meshes_as_configured(const train::Config& config, const nn::UNet2DConfig& model,
                                              const data::ImageFormat& image, const StoredSizes& stored,
                                              const PlanPlace& place) {
  std::vector<PlannedMesh> meshes;
  const int64_t ranks = place.nodes * place.ranks_per_node;
  train::Config asked = config;
  asked.parallel.dp_shard_size.reset();
  asked.parallel.dp_replicate_size.reset();
  const int64_t islands = arrangement_of(config, place.nodes, place.ranks_per_node).islands();
  if (islands > 0) asked.parallel.dp_replicate_size = islands;  // another number would be another training
  asked.parallel.pipeline_size = 1;
  asked.parallel.stage_units.clear();
  asked.parallel.spatial_size = square_cuts(image, 1);
  asked.parallel.tensor_size = 1;
  (void)plan_request(asked, model, image, stored, place);  // throws what no cut mends
  for (const auto& [stages, tiles, parts] : cuts_of(model, ranks)) {
    asked.parallel.pipeline_size = stages;
    asked.parallel.tensor_size = parts;
    for (std::vector<int64_t>& way : ways_to_cut(image, tiles)) {
      asked.parallel.spatial_size = std::move(way);
      if (!deals_batch(asked, ranks)) continue;
      const auto request = request_for(asked, model, image, stored, place);
      if (!request) continue;
      if (auto best = best_stage(*request)) {
        meshes.push_back({asked.parallel.spatial_size, config.parallel.activation_checkpointing, std::move(*best)});
      }
    }
  }
  std::ranges::stable_sort(meshes, {}, [](const PlannedMesh& mesh) {
    const Candidate& c = mesh.candidate;
    return std::pair(!c.fits, c.fits ? c.time.total() : static_cast<double>(c.memory.total()));
  });
  return meshes;
}

}  // namespace

std::vector<PlannedMesh> search_meshes(const train::Config& config, const nn::UNet2DConfig& model,
                                       const data::ImageFormat& image, const StoredSizes& stored,
                                       const PlanPlace& place) {
  constexpr auto kLeastMemory = parallel::ActivationCheckpointing::blocks;
  std::vector<PlannedMesh> meshes = meshes_as_configured(config, model, image, stored, place);
  const bool any_fits = !meshes.empty() && meshes.front().candidate.fits;
  if (any_fits || config.parallel.activation_checkpointing == kLeastMemory) return meshes;
  train::Config recomputing = config;
  recomputing.parallel.activation_checkpointing = kLeastMemory;
  return meshes_as_configured(recomputing, model, image, stored, place);
}

std::string text_of(const std::vector<PlannedMesh>& meshes, const layout::Parallelism& set) {
  constexpr std::size_t kShown = 12;
  if (meshes.empty()) {
    return "No mesh of these ranks, with tiles that are square or strips of rows, can run the configuration.\n";
  }
  base::TextTable table;
  table.add({"stages", "tiles", "parts", "ZeRO/S", "data", "micro", "memory", "step", "eff.", "fits"});
  for (std::size_t i = 0; i < std::min(kShown, meshes.size()); ++i) table.add(row_of(meshes[i]));
  const std::string more =
      meshes.size() > kShown ? fmt::format("{} more are in --json.\n", meshes.size() - kShown) : "";
  const PlannedMesh& best = meshes.front();
  const layout::Parallelism& p = best.candidate.arrangement.parallelism;
  const bool recomputes = best.checkpointing != parallel::ActivationCheckpointing::none;
  const std::string keys =
      toml_of(best.candidate.arrangement) +
      (recomputes ? fmt::format("activation_checkpointing = \"{}\"\n", base::name_of(best.checkpointing))
                  : std::string()) +
      fmt::format("pipeline_size = {}\nspatial_size = [{}]\ntensor_size = {}\n", p.pipeline_size,
                  fmt::join(best.spatial_size, ", "), p.tensor_size);
  return fmt::format("{}Meshes of all ranks: stages × tiles of images × parts of blocks × data\n{}{}\n{}\n\n{}{}",
                     islands_text(best.candidate.arrangement), table.text(), more,
                     best.candidate.fits ? "For the fastest, set" : "None fits. For the one that needs least, set",
                     keys, keys_to_take_out(set, p));
}

base::OrderedJson json_of(const std::vector<PlannedMesh>& meshes, const layout::Parallelism& set) {
  base::OrderedJson list = base::OrderedJson::array();
  for (const PlannedMesh& mesh : meshes) {
    const Candidate& c = mesh.candidate;
    const layout::Parallelism& p = c.arrangement.parallelism;
    list.push_back({{"pipeline_size", p.pipeline_size},
                    {"spatial_size", mesh.spatial_size},
                    {"tensor_size", p.tensor_size},
                    {"zero_stage", p.zero_stage},
                    {"shard_size", c.arrangement.shard_size()},
                    {"islands", c.arrangement.islands()},
                    {"micro_size", p.micro_size},
                    {"offload", base::name_of(p.offload)},
                    {"activation_checkpointing", base::name_of(mesh.checkpointing)},
                    {"take_out", keys_in_the_way(set, p)},
                    {"peak_memory_bytes", c.memory.total()},
                    {"seconds_per_step", c.time.total()},
                    {"fits", c.fits}});
  }
  return list;
}

}  // namespace ddpm::plan
