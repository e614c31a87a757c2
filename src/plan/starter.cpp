#include "plan/starter.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/named.h"
#include "config/value.h"
#include "plan/report.h"

namespace ddpm::plan {
namespace {

constexpr int64_t kSmallestSide = 8;
constexpr int64_t kAttentionSide = 16;
constexpr int64_t kMostLevels = 6;

int64_t level_count(std::vector<int64_t> sides) {
  int64_t levels = 1;
  while (levels < kMostLevels && std::ranges::min(sides) > kSmallestSide &&
         std::ranges::all_of(sides, [](int64_t side) { return side % 2 == 0; })) {
    for (int64_t& side : sides) side /= 2;
    ++levels;
  }
  return levels;
}

/// Deep models widen late, as train_unconditional.py's does.
int64_t multiplier(int64_t level, int64_t levels) {
  constexpr std::array<int64_t, 4> kShallow{1, 2, 2, 2};
  constexpr std::array<int64_t, 6> kDeep{1, 1, 2, 2, 4, 4};
  return levels <= 4 ? kShallow.at(static_cast<std::size_t>(level)) : kDeep.at(static_cast<std::size_t>(level));
}

std::string list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(config::quoted(word));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string model_toml(const Starter& s) {
  const StarterImages& images = s.images;
  std::string text = "[model]\n";
  if (images.depth > 0) {
    text += fmt::format("dimensions = 3\nsample_size = [{}, {}, {}]\n", images.depth, images.height, images.width);
  } else {
    text += images.height == images.width ? fmt::format("sample_size = {}\n", images.height)
                                          : fmt::format("sample_size = [{}, {}]\n", images.height, images.width);
  }
  text += fmt::format("in_channels = {}\nout_channels = {}\n", images.channels, images.channels);
  text += fmt::format("block_out_channels = [{}]\n", fmt::join(s.model.block_out_channels, ", "));
  text += fmt::format("down_block_types = {}\n", list(s.model.down_block_types));
  text += fmt::format("up_block_types = {}\n", list(s.model.up_block_types));
  text +=
      fmt::format("layers_per_block = {}\nnorm_num_groups = {}\n", s.model.layers_per_block, s.model.norm_num_groups);
  if (images.classes > 0)
    text += fmt::format("num_class_embeds = {}  # one for each class of the data set\n", images.classes);
  return text + "\n";
}

std::string batch_toml(const Arrangement& a) {
  return fmt::format(
      "[batch]\n"
      "# Images per optimizer step: ranks × micro_size × accumulation steps, here {} × {} × {}. "
      "Other numbers of ranks\n"
      "# train the same way, as long as ranks × micro_size divides global_size.\n"
      "global_size = {}\nmicro_size = {}\n\n",
      a.ranks(), a.parallelism.micro_size, a.accumulation_steps(), a.parallelism.global_size, a.parallelism.micro_size);
}

std::string parallel_toml(const Starter& s) {
  const Arrangement& a = s.arrangement;
  const std::string recomputing =
      "# Blocks are computed again in the backward pass, so that their activations need not be kept.\n"
      "activation_checkpointing = \"blocks\"\n";
  if (a.parallelism.zero_stage == 0) {
    return s.recomputes ? "[parallel]\n" + recomputing + "\n"
                        : "# [parallel] has its defaults: every rank holds the whole model.\n\n";
  }
  return fmt::format(
      "[parallel]\n# A rank holds its share of what the ranks of a group have in common: 1 optimizer state, 2 also "
      "gradients,\n# 3 also weights.\nzero_stage = {}\ndp_shard_size = {}  # ranks that share one copy\n{}\n",
      a.parallelism.zero_stage, a.shard_size(), s.recomputes ? recomputing : "");
}

}  // namespace

StarterModel starter_model(StarterSize size, const std::vector<int64_t>& sides) {
  const bool small = size == StarterSize::small;
  const int64_t levels = level_count(sides);
  StarterModel model{.layers_per_block = small ? 1 : 2, .norm_num_groups = small ? 8 : 32};
  for (int64_t level = 0; level < levels; ++level) {
    const bool attention = (std::ranges::min(sides) >> level) <= kAttentionSide;
    model.block_out_channels.push_back((small ? 32 : 128) * multiplier(level, levels));
    model.down_block_types.emplace_back(attention ? "AttnDownBlock2D" : "DownBlock2D");
    model.up_block_types.emplace_back(attention ? "AttnUpBlock2D" : "UpBlock2D");
  }
  std::reverse(model.up_block_types.begin(), model.up_block_types.end());
  return model;
}

int64_t starter_global_size(int64_t ranks, int64_t images, int64_t aim) {
  int64_t share = 1;
  while (2 * share * ranks <= std::min(aim, images)) share *= 2;
  return share * ranks;
}

std::string toml_of(const Starter& s) {
  const Arrangement& a = s.arrangement;
  std::string text = fmt::format(
      "# Made by `ddpm config new` for {} of {}{} × {} × {}, {} and {} on each.\n"
      "# Keys that are not here have their defaults: `ddpm config show FILE` prints them all, with their meaning.\n\n",
      base::counted(s.images.count, "image"), s.images.depth > 0 ? fmt::format("{} × ", s.images.depth) : "",
      s.images.height, s.images.width, s.images.channels, base::counted(a.nodes, "node"),
      base::counted(a.ranks_per_node, "rank"));
  text += fmt::format(
      "[run]\n# Checkpoints, metrics and the finished model; the same command resumes the run.\n"
      "directory = {}\nseed = 0\n\n",
      config::quoted(s.run_directory));
  text += fmt::format("[data]\ntrain = {}\nhorizontal_flip = false  # true where a mirrored image is as good\n\n",
                      config::quoted(s.images.path));
  text += model_toml(s);
  if (s.images.float32) text += "[diffusion]\nclip_sample = false  # float32 values are not cut at ±1 in samples\n\n";
  text += batch_toml(a);
  text += fmt::format("[train]\nsteps = {}  # it may grow: a finished run then continues\n\n", s.steps);
  text += fmt::format("[lr_schedule]\nwarmup_steps = {}\n\n", std::min<int64_t>(500, s.steps / 10));
  if (s.precision != optim::MixedPrecision::no) {
    text += fmt::format("[precision]\nmixed_precision = \"{}\"\n\n", base::name_of(s.precision));
  }
  text += parallel_toml(s);
  return text + fmt::format("[checkpoint]\nevery_steps = {}\n", std::clamp<int64_t>(s.steps / 20, 1, 1000));
}

}  // namespace ddpm::plan
