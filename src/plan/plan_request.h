// Turns a configuration into what a plan is asked: the one place where keys become an arrangement.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/format.h"
#include "denoise/patch.h"
#include "layout/tiling.h"
#include "plan/candidates.h"
#include "train/config.h"

namespace ddpm::plan {

/// The arrangement that the configuration gives on nodes × ranks. Throws ConfigError, a line per refusal, when it can
/// run on no number of ranks. Whether it runs on this number is for layout::refusals() to say.
Arrangement arrangement_of(const train::Config& config, int64_t nodes, int64_t ranks_per_node);

struct PlanPlace {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  std::string machine;                              ///< a name that plan::find_machine() knows
  std::vector<std::string> overrides = {};          ///< "--machine.KEY VALUE"
  std::optional<double> memory_gib = std::nullopt;  ///< memory of one rank; if unset, the machine's, if known
  std::optional<double> gpu_gib = std::nullopt;     ///< what the GPU here has, in place of its data sheet's memory
  bool on_host = true;                              ///< ranks compute on the CPU
};

/// What training holds of a set.
struct StoredSizes {
  /// Size of what is read of one image and with it, where images are cut into such tiles.
  std::function<int64_t(const layout::Tiling&)> bytes = {};
  int64_t grid_points = 0;  ///< points of all variables whose transform is a grid
  int64_t held_bytes = 0;   ///< size of the whole set, where data.hold has a node keep it; 0 otherwise

  /// Needs the set no more.
  static StoredSizes of(const train::Config& config, const denoise::Patch& patch, const data::Dataset& dataset);
  /// Without a set: whole images of so many bytes.
  static StoredSizes whole(int64_t bytes);
};

/// `model` fits images of `image`: its sample_size is theirs; with data.patch they are windows. Throws ConfigError for
/// cuts that training would refuse, too.
Request plan_request(const train::Config& config, const nn::UNet2DConfig& model, const data::ImageFormat& image,
                     const StoredSizes& stored, const PlanPlace& place);

/// What a rank holds beside its model: on the host, this process now and the workspaces that training adds; on a GPU,
/// the CUDA context and its libraries' workspaces.
int64_t process_bytes(bool on_host);

}  // namespace ddpm::plan
