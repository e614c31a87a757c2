#include "train/trainer_config.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/named.h"
#include "base/standard_streams.h"
#include "comm/collectives.h"
#include "config/resolve.h"
#include "run/run_program.h"

namespace ddpm::train {

TrainerConfiguration::TrainerConfiguration() {
  run::describe_run_and_batch(schema_, values_);
  config::Section train = schema_.section("train", "How long to train.", config::Identity::may_change);
  run::describe_steps(train, values_.steps);
  run::describe_training(schema_, values_);
  observe::declare_logging(schema_, values_.logging);
}

void TrainerConfiguration::load(std::span<const std::string> arguments, comm::Communicator& world) {
  if (std::ranges::find(arguments, "--help") != arguments.end()) {
    comm::do_on_root(world, [&] {
      base::write_standard_output("Arguments: [FILE.toml ...] [--section.key VALUE ...]\n\n" +
                                  config::to_toml(schema_, /*documented=*/true));
    });
    throw run::HelpGiven();
  }
  comm::agree(world, [&] { apply(arguments); });
}

void TrainerConfiguration::apply(std::span<const std::string> arguments) {
  while (!arguments.empty() && !arguments.front().starts_with("--")) {
    config::apply(schema_, config::read_toml(arguments.front()), arguments.front());
    arguments = arguments.subspan(1);
  }
  config::apply_overrides(schema_, arguments);
  validate();
}

void TrainerConfiguration::validate() const {
  run::validate(values_);
  const parallel::ActivationCheckpointing recomputed = values_.parallel.activation_checkpointing;
  if (recomputed != parallel::ActivationCheckpointing::attention) return;
  throw base::ConfigError(
      "parallel.activation_checkpointing = \"{}\": which parts of this model are attention is not known here; wanted: "
      "\"none\", or \"blocks\", which are the model's units",
      base::name_of(recomputed));
}

}  // namespace ddpm::train
