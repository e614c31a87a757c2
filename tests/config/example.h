// A small configuration with a key of every kind, and what its refusals say.
#pragma once

#include <string>

#include "base/error.h"
#include "config/resolve.h"

namespace ddpm::config {

enum class Shape : uint8_t { constant, cosine };
constexpr auto names_of(Shape /*type*/) { return std::to_array<std::string_view>({"constant", "cosine"}); }
enum class Colour : uint8_t { grey, rgb };
constexpr auto names_of(Colour /*type*/) { return std::to_array<std::string_view>({"grey", "rgb"}); }

struct Example {
  std::string directory = "runs/a";
  bool progress = true;
  int64_t seed = 0;
  double learning_rate = 1e-4;
  std::vector<double> betas = {0.95, 0.999};
  Shape name = Shape::cosine;
  std::optional<Colour> colour;
  std::optional<int64_t> steps;
  std::optional<double> epochs;
  std::optional<int64_t> warmup_steps = 500;
  std::optional<double> warmup_fraction;
  std::optional<double> max_minutes;
  std::optional<bool> flip;
  std::optional<std::string> pretrained;
  std::vector<bool> only_cross_attention;
  std::vector<int64_t> channels = {128, 256};
  std::vector<std::string> blocks = {"DownBlock2D"};
  std::vector<WeightedPath> train;
};

inline Schema describe(Example& e) {
  Schema schema;
  schema.section("run", "The run as a whole.", Identity::fixed)
      .key("directory", e.directory, "Where everything is written.", {.identity = Identity::may_change})
      .key("seed", e.seed, "Root of all random numbers.", {.min = 0})
      .key("max_minutes", e.max_minutes, "Stop after so long.", {.min = 0, .above_min = true});
  schema.section("data", "Data sets.", Identity::fixed)
      .key("train", e.train, "Training set.")
      .key("flip", e.flip, "Mirror images.")
      .key("colour", e.colour, "Colour.");
  schema.section("model", "The network.", Identity::fixed)
      .key("pretrained", e.pretrained, "A model to continue.")
      .key("channels", e.channels, "Channels | per level.", {.min = 1, .max = 4096})
      .key("blocks", e.blocks, "Blocks.", {.choices = {"DownBlock2D", "AttnDownBlock2D"}})
      .key("only_cross_attention", e.only_cross_attention, "Per level.");
  schema.section("train", "How long.", Identity::may_change)
      .key("steps", e.steps, "Optimizer steps.", {.min = 1, .instead_of = "epochs", .default_text = "from epochs"})
      .key("epochs", e.epochs, "Passes.", {.min = 0, .above_min = true, .instead_of = "steps"});
  schema.section("optimizer", "AdamW.", Identity::fixed)
      .key("learning_rate", e.learning_rate, "Peak learning rate.", {.min = 0})
      .key("betas", e.betas, "Decay of the moments.", {.min = 0, .max = 1, .below_max = true});
  schema.section("lr_schedule", "Learning rate over time.", Identity::fixed)
      .key("name", e.name, "Shape.")
      .key("warmup_steps", e.warmup_steps, "Rise.", {.min = 0, .instead_of = "warmup_fraction"})
      .key("warmup_fraction", e.warmup_fraction, "Rise.", {.min = 0, .max = 1, .instead_of = "warmup_steps"});
  schema.section("logging", "What is said.", Identity::may_change).key("progress", e.progress, "A bar.");
  return schema;
}

template <typename Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

/// What reading `text` as run.toml says.
inline std::string refusal_of(const std::string& text) {
  Example example;
  const Schema schema = describe(example);
  return refusal([&] { apply(schema, parse_toml(text, "run.toml"), "run.toml"); });
}

}  // namespace ddpm::config
