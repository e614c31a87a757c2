// --spatial-size: ranks that draw the same images together, a tile each, so that images may be larger than what one
// rank can hold.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "denoise/loaded_model.h"
#include "denoise/tile_pair.h"
#include "diffusion/config.h"
#include "layout/mesh.h"
#include "layout/tiling.h"
#include "train/model_tiles.h"

namespace ddpm::cli {

class SampleTiles {
 public:
  /// Cuts the images of `model` into the parts that `asked` counts: "2x2", or "4" along the height; unset: each rank
  /// draws whole images. `weak`: a model that guides it, or null. Both outlive the object. `beside`: the ranks of
  /// `world`, where what `device` computes is. Collective over `world`; throws ConfigError on all ranks.
  SampleTiles(const std::optional<std::string>& asked, const denoise::LoadedModel& model,
              const denoise::LoadedModel* weak, comm::Communicator& world, comm::Communicator& beside,
              at::Device device);

  /// The ranks of `world`: those that draw the same images follow each other.
  [[nodiscard]] const layout::Mesh& mesh() const { return mesh_; }
  /// This rank's part.
  [[nodiscard]] denoise::TilePair pair() const { return tiles_.pair(); }

 private:
  layout::Mesh mesh_;
  std::unique_ptr<comm::Communicator> group_;  // the ranks that draw the same images as this one
  train::ModelTiles tiles_;
};

/// Throws ConfigError for samplers that look at whole images.
void expect_drawable_in_tiles(const std::string& asked, const diffusion::SchedulerConfig& scheduler);

}  // namespace ddpm::cli
