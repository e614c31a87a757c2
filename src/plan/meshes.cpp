#include "plan/meshes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/text_table.h"
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

/// What all meshes have in common.
struct Searched {
  const nn::UNet2DConfig& model;
  const data::ImageFormat& image;
  const StoredSizes& stored;
  const PlanPlace& place;
  int64_t process_bytes = 0;  ///< as a plan of one mesh has it: what the search itself takes is not a rank's

  [[nodiscard]] int64_t ranks() const { return place.nodes * place.ranks_per_node; }
  [[nodiscard]] Request request(const train::Config& config) const {
    return plan_request(config, model, image, stored, place);
  }
};

/// The stage with the shortest step among those that fit, or a lower one that takes little longer; the configuration's
/// own where all are refused.
Candidate best_stage(const Request& request) {
  const std::vector<Candidate> stages = stages_of(request, request.given);
  if (const Candidate* best = fastest(stages, request.given.nodes)) return *best;
  const auto by_memory = [](const Candidate& c) { return std::pair(!c.refusal.empty(), c.memory.total()); };
  const Candidate& least = *std::ranges::min_element(stages, {}, by_memory);
  return least.refusal.empty() ? least : in_own_stage(request, stages, request.given.nodes);
}

/// The plan of one mesh; with a refusal where a batch cannot be dealt, or channels or images not be cut so.
Candidate plan_mesh(const train::Config& config, const Searched& searched) {
  Candidate refused;
  refused.refusal = layout::uneven_batch(run::parallelism_of(config), searched.ranks());
  if (!refused.refusal.empty()) return refused;
  Request request;
  try {
    request = searched.request(config);
  } catch (const base::ConfigError& error) {
    refused.refusal = error.what();
    return refused;
  }
  request.process_bytes = searched.process_bytes;
  return best_stage(request);
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

/// The configuration with nothing cut, and with as many islands: another number would be another training. Throws
/// ConfigError where it has no number of them.
train::Config uncut(const train::Config& config, const data::ImageFormat& image, const PlanPlace& place) {
  const Arrangement given = arrangement_of(config, place.nodes, place.ranks_per_node);
  const std::string none = layout::islands_refusal(given.parallelism, given.ranks());
  if (!none.empty()) throw base::ConfigError("{}", none);
  train::Config asked = config;
  asked.parallel.dp_shard_size.reset();
  asked.parallel.dp_replicate_size.reset();
  const int64_t islands = given.islands();
  if (islands > 0) asked.parallel.dp_replicate_size = islands;
  asked.parallel.pipeline_size = 1;
  asked.parallel.stage_units.clear();
  asked.parallel.spatial_size = square_cuts(image, 1);
  asked.parallel.tensor_size = 1;
  return asked;
}

/// The meshes that `asked`, which is uncut, can be trained on with its own activation checkpointing. Throws
/// ConfigError where there is none, for the reason that the first one has, which cuts nothing.
std::vector<PlannedMesh> meshes_of(train::Config asked, const Searched& searched) {
  std::vector<PlannedMesh> meshes;
  std::string reason;
  for (const auto& [stages, tiles, parts] : cuts_of(searched.model, searched.ranks())) {
    asked.parallel.pipeline_size = stages;
    asked.parallel.tensor_size = parts;
    for (std::vector<int64_t>& way : ways_to_cut(searched.image, tiles)) {
      asked.parallel.spatial_size = std::move(way);
      Candidate best = plan_mesh(asked, searched);
      if (best.refusal.empty()) {
        meshes.push_back({asked.parallel.spatial_size, asked.parallel.activation_checkpointing, std::move(best)});
      } else if (reason.empty()) {
        reason = best.refusal;
      }
    }
  }
  if (meshes.empty()) {
    throw base::ConfigError(
        "--nodes {} --gpus-per-node {}: no mesh of these ranks, with tiles that are square or strips of rows, can run "
        "this configuration: {}",
        searched.place.nodes, searched.place.ranks_per_node, reason);
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
  train::Config asked = uncut(config, image, place);
  Searched searched{.model = model, .image = image, .stored = stored, .place = place};
  searched.process_bytes = searched.request(asked).process_bytes;  // throws what no cut mends
  std::vector<PlannedMesh> meshes = meshes_of(asked, searched);
  if (meshes.front().candidate.fits || asked.parallel.activation_checkpointing == kLeastMemory) return meshes;
  asked.parallel.activation_checkpointing = kLeastMemory;
  return meshes_of(asked, searched);
}

std::string text_of(const std::vector<PlannedMesh>& meshes, const layout::Parallelism& set) {
  constexpr std::size_t kShown = 12;
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
