#include "train/trainer_config.h"

#include "base/error.h"
#include "comm/collectives.h"
#include "config/resolve.h"

namespace ddpm::train {

TrainerConfiguration::TrainerConfiguration() {
  using config::Identity;
  TrainerConfig& c = values_;
  const auto declare = [this](const char* name, const char* doc, Identity identity, auto& part) {
    config::Section section = schema_.section(name, doc, identity);
    describe(section, part);
  };
  declare("run", "The run as a whole.", Identity::fixed, c.run);
  declare("batch", "How many samples make a step.", Identity::fixed, c.batch);
  schema_.section("train", "How long to train.", Identity::may_change)
      .key("steps", c.steps, "Optimizer steps of the whole run; it may grow on resume.", {.min = 1, .max = kMaxSteps});
  declare("optimizer", "AdamW.", Identity::fixed, c.optimizer);
  declare("lr_schedule", "The learning rate over optimizer updates.", Identity::fixed, c.lr_schedule);
  declare("ema", "Exponential moving averages of the weights.", Identity::fixed, c.ema);
  declare("precision", "Compute dtype and loss scale.", Identity::fixed, c.precision);
  declare("parallel", "How ranks share the work.", Identity::may_change, c.parallel);
  declare("checkpoint", "When to save, and what to keep.", Identity::may_change, c.checkpoint);
  declare("fault", "When a run stops on request, and when it counts as hanging.", Identity::may_change, c.fault);
}

void TrainerConfiguration::load(std::span<const std::string> arguments, comm::Communicator& world) {
  comm::agree(world, [&] { apply(arguments); });
}

void TrainerConfiguration::apply(std::span<const std::string> arguments) {
  if (!arguments.empty() && !arguments.front().starts_with("--")) {
    config::apply(schema_, config::read_toml(arguments.front()), arguments.front());
    arguments = arguments.subspan(1);
  }
  config::apply_overrides(schema_, arguments);
  validate();
}

void TrainerConfiguration::validate() const {
  const TrainerConfig& c = values_;
  if (c.run.directory.empty()) throw base::ConfigError("run.directory is not set: name the folder of the run");
  if (c.parallel.activation_checkpointing != "none") {
    throw base::ConfigError(
        "parallel.activation_checkpointing = \"{}\": which parts of this model can be computed again is not known "
        "here; "
        "set it to \"none\"",
        c.parallel.activation_checkpointing);
  }
  optim::validate(c.optimizer);
  optim::validate(c.lr_schedule, c.optimizer.learning_rate);
  optim::validate(c.ema);
  optim::validate(c.precision);
  train::validate(c.fault);
}

}  // namespace ddpm::train
