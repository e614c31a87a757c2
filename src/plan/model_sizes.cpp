#include "plan/model_sizes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <c10/util/accumulate.h>

#include "base/round_up.h"
#include "layout/shard_layout.h"
#include "nn/unet2d.h"
#include "parallel/activation_count.h"
#include "parallel/planned_tile.h"
#include "parallel/planned_traffic.h"
#include "parallel/unit_flow.h"

namespace ddpm::plan {
namespace {

void add_parameters(const nn::Unit& unit, ModelSizes& sizes) {
  int64_t elements = 0;
  for (const nn::Parameter* parameter : unit.parameters()) {
    if (parameter->role == base::ParameterRole::pretrained) sizes.pretrained += parameter->numel();
    if (parameter->role == base::ParameterRole::constant) sizes.constants += parameter->numel();
    if (parameter->role != base::ParameterRole::trained) continue;
    sizes.parameters += parameter->split.times() * parameter->numel();
    sizes.held_parameters += parameter->numel();
    sizes.largest_parameter = std::max(sizes.largest_parameter, parameter->numel());
    elements += base::round_up(parameter->numel(), layout::kFlatAlignment);
  }
  sizes.unit_elements.push_back(elements);
}

/// Takes what `tile` sends in the stage where that is most, if it is more than what is there.
void add_traffic(const nn::UNet2D& unet, const parallel::PlannedTile& tile, int64_t images,
                 const std::vector<layout::Range>& stages, ModelSizes& sizes) {
  const std::vector<parallel::RankTraffic> of_units = parallel::count_traffic(unet, tile, images, sizes.checkpointing);
  for (const layout::Range& stage : stages) {
    parallel::RankTraffic sum;
    for (int64_t u = stage.begin; u < stage.end; ++u) sum += of_units[static_cast<std::size_t>(u)];
    if (sum.tiles.bytes + sum.channels.bytes <= sizes.tile_bytes + sizes.channel_bytes) continue;
    sizes.tile_messages = sum.tiles.messages;
    sizes.tile_bytes = sum.tiles.bytes;
    sizes.border_messages = sum.tiles.traded_messages;
    sizes.border_bytes = sum.tiles.traded_bytes;
    sizes.channel_sums = sum.channels.sums;
    sizes.channel_bytes = sum.channels.bytes;
  }
}

struct StageSizes {
  layout::Range units;
  ModelSizes sizes{};
  int64_t passes = 1;          ///< forward passes whose activations it keeps at most
  int64_t arriving_bytes = 0;  ///< what it gets for the next passes, forward and backward, while it computes
};

/// What travels between a stage and others for a micro-batch.
struct FlowBytes {
  explicit FlowBytes(const parallel::StageFlow& flow) {
    for (const parallel::StageValue& value : flow.in) add(value, in, in_gradients);
    for (const parallel::StageValue& value : flow.out) add(value, out, out_gradients);
  }

  int64_t in = 0;
  int64_t in_gradients = 0;  ///< which it sends
  int64_t out = 0;
  int64_t out_gradients = 0;  ///< which it gets

 private:
  static void add(const parallel::StageValue& value, int64_t& values, int64_t& gradients) {
    const int64_t bytes = c10::multiply_integers(value.sizes) * static_cast<int64_t>(c10::elementSize(value.dtype));
    values += bytes;
    if (value.has_gradient) gradients += bytes;
  }
};

std::vector<StageSizes> stage_sizes(const nn::UNet2D& unet, const std::vector<layout::Range>& stages) {
  std::vector<StageSizes> each;
  for (const layout::Range units : stages) {
    each.push_back({.units = units, .passes = std::ssize(stages) - std::ssize(each)});
    ModelSizes& sizes = each.back().sizes;
    for (int64_t u = 0; u < std::ssize(unet.units()); ++u) {
      if (u >= units.begin && u < units.end) {
        add_parameters(*unet.units()[static_cast<std::size_t>(u)], sizes);
      } else {
        sizes.unit_elements.push_back(0);
      }
    }
  }
  return each;
}

/// What travels between stages.
void add_flows(const nn::UNet2D& unet, const std::vector<layout::Range>& ranges, const parallel::ActivationBatch& batch,
               std::vector<StageSizes>& stages, ModelSizes& sizes) {
  const std::vector<parallel::StageFlow> flows = parallel::stage_flows(unet, ranges, batch);
  for (std::size_t stage = 0; stage < flows.size(); ++stage) {
    const FlowBytes bytes(flows[stage]);
    const auto back = std::ranges::count_if(flows[stage].in, &parallel::StageValue::has_gradient);
    stages[stage].arriving_bytes = bytes.in + bytes.out_gradients;
    sizes.stage_messages = std::max(sizes.stage_messages, std::ssize(flows[stage].out) + back);
    sizes.stage_bytes = std::max(sizes.stage_bytes, bytes.out + bytes.in_gradients);
    sizes.hop_bytes = std::max(sizes.hop_bytes, bytes.out + bytes.out_gradients);
  }
}

/// The parameters of the stage that has most of them; those of the whole model are counted as such.
void take_largest(const std::vector<StageSizes>& stages, ModelSizes& sizes) {
  for (const StageSizes& stage : stages) {
    const ModelSizes& own = stage.sizes;
    if (own.elements() > sizes.elements()) sizes.unit_elements = own.unit_elements;
    sizes.parameters += own.parameters;
    sizes.held_parameters = std::max(sizes.held_parameters, own.held_parameters);
    sizes.largest_parameter = std::max(sizes.largest_parameter, own.largest_parameter);
    sizes.constants = std::max(sizes.constants, own.constants);
    sizes.pretrained = std::max(sizes.pretrained, own.pretrained);
  }
}

/// The operations of the stage that has most of them.
void take_slowest(const nn::UNet2D& unet, nn::ImageSize image, const std::vector<StageSizes>& stages,
                  ModelSizes& sizes) {
  const std::vector<nn::Operations> operations = unet.unit_operations(image);
  for (const StageSizes& stage : stages) {
    nn::Operations own;
    for (int64_t u = stage.units.begin; u < stage.units.end; ++u) own += operations[static_cast<std::size_t>(u)];
    if (own.all + own.backward <= sizes.forward_flops + sizes.backward_flops) continue;
    sizes.forward_flops = own.all;
    sizes.attention_flops = own.attention;
    sizes.backward_flops = own.backward;
  }
}

}  // namespace

ModelSizes model_sizes(const nn::UNet2DConfig& model, const data::ImageFormat& image, int64_t micro_size,
                       bool mixed_precision, parallel::ActivationCheckpointing checkpointing, const Cuts& cuts) {
  nn::UNet2D unet(model);  // as its first rank holds it, on the meta device
  const std::vector<layout::Range> ranges =
      parallel::cut_model(unet, cuts.stages, cuts.stage_units, /*part=*/0, cuts.channel_parts);
  parallel::bind_on_meta(unet, mixed_precision ? at::kBFloat16 : at::kFloat);
  ModelSizes sizes;
  sizes.checkpointing = checkpointing;
  std::vector<StageSizes> stages = stage_sizes(unet, ranges);
  take_largest(stages, sizes);
  take_slowest(unet, {.height = image.height, .width = image.width, .depth = image.depth}, stages, sizes);
  parallel::ActivationBatch batch{.images = micro_size, .height = image.rows(), .width = image.width};
  std::optional<parallel::PlannedTile> largest;
  if (cuts.tiling.count() > 1 || cuts.channel_parts > 1) {
    // One has most neighbours, the other most pixels.
    for (const int64_t tile : std::set<int64_t>{0, cuts.tiling.inner()}) {
      const parallel::PlannedTile one(cuts.tiling, unet.image_shape(), tile, cuts.channel_parts, cuts.on_gpu);
      add_traffic(unet, one, micro_size, ranges, sizes);
    }
    batch = parallel::batch_of(largest.emplace(cuts.tiling, unet.image_shape(), 0, cuts.channel_parts, cuts.on_gpu),
                               micro_size);
    sizes.tile_share =
        static_cast<double>(batch.height * batch.width) / static_cast<double>(image.rows() * image.width);
  }
  if (cuts.stages > 1) add_flows(unet, ranges, batch, stages, sizes);
  using parallel::ActivationCount;
  using Peak = int64_t (ActivationCount::*)(layout::Range, int64_t) const;
  const auto most = [&](const ActivationCount& count, Peak peak, int64_t micro_batches) {
    int64_t bytes = 0;
    for (const StageSizes& stage : stages) {
      const int64_t passes = std::min(stage.passes, micro_batches);
      bytes = std::max(bytes, (count.*peak)(stage.units, passes) + stage.arriving_bytes);
    }
    return bytes;
  };
  using parallel::ActivationCheckpointing;
  const ActivationCount all = parallel::count_activations(unet, batch, ActivationCheckpointing::none);
  const ActivationCount kept =
      checkpointing == ActivationCheckpointing::none ? all : parallel::count_activations(unet, batch, checkpointing);
  sizes.activations.clear();
  for (int64_t micro_batches = 1; micro_batches <= cuts.stages; ++micro_batches) {
    ActivationBytes bytes{.kept = most(kept, &ActivationCount::peak, micro_batches),
                          .all = most(all, &ActivationCount::peak, micro_batches)};
    bytes.float_copies = most(kept, &ActivationCount::peak_on_cpus, micro_batches) - bytes.kept;
    sizes.activations.push_back(bytes);
  }
  sizes.image_elements = batch.height * batch.width * std::max(image.channels, model.in_channels);
  sizes.image_bytes = static_cast<int64_t>(image.bytes());
  sizes.activation_images = micro_size;
  return sizes;
}

void add_forward_traffic(const nn::UNet2DConfig& model, const layout::Tiling& tiling, int64_t micro_size, bool on_gpu,
                         ModelSizes& sizes) {
  if (tiling.count() == 1) return;
  nn::UNet2D unet(model);
  parallel::bind_on_meta(unet, at::kFloat);
  const parallel::PlannedTile tile(tiling, unet.image_shape(), 0, /*channel_parts=*/1, on_gpu);
  nn::UnitExecutor units;
  static_cast<void>(parallel::forward_on_meta(unet, parallel::batch_of(tile, micro_size), units));
  const parallel::TileTraffic& sent = tile.forward();
  sizes.tile_messages += sent.messages;
  sizes.tile_bytes += sent.bytes;
  sizes.border_messages += sent.traded_messages;
  sizes.border_bytes += sent.traded_bytes;
}

}  // namespace ddpm::plan
