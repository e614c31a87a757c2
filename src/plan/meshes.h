// Which mesh of given ranks trains a model fastest: every way to cut the model into stages, images into tiles and
// blocks into parts of their channels that the model allows, each with its best ZeRO stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "parallel/config.h"
#include "plan/plan_request.h"

namespace ddpm::plan {

/// One mesh with what is predicted of it.
struct PlannedMesh {
  std::vector<int64_t> spatial_size;  ///< as parallel.spatial_size; {1}: images stay whole
  parallel::ActivationCheckpointing checkpointing = parallel::ActivationCheckpointing::none;
  Candidate candidate;
};

/// The meshes that fit first, faster ones before slower ones, then the others by memory. Numbers of stages, tiles and
/// parts divide the ranks; tiles are about as high as wide, or strips. With parallel.sync_every all have as many
/// islands as `config` has. Where none fits, all are those with activation_checkpointing = "blocks". Throws ConfigError
/// as plan_request(), where `config` has no number of islands, and where no mesh can run it: there is one at least.
std::vector<PlannedMesh> search_meshes(const train::Config& config, const nn::UNet2DConfig& model,
                                       const data::ImageFormat& image, const StoredSizes& stored,
                                       const PlanPlace& place);

/// A table of the first of them, and what the best one changes of a configuration that has `set`: the keys to set, and
/// those to take out.
std::string text_of(const std::vector<PlannedMesh>& meshes, const layout::Parallelism& set);
/// All of them, each with what it changes.
base::OrderedJson json_of(const std::vector<PlannedMesh>& meshes, const layout::Parallelism& set);

}  // namespace ddpm::plan
