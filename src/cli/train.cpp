#include "cli/train.h"

#include <memory>
#include <optional>

#include "cli/config_arguments.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "plan/dry_run.h"
#include "run/placement.h"
#include "train/trainer.h"

namespace ddpm::cli {
namespace {

struct TrainArguments : ConfigArguments {
  bool dry_run = false;
  bool force_unlock = false;
  bool profile = false;
  std::optional<int64_t> world;
};

void run_dry(const TrainArguments& options, train::Configuration& configuration, Context& context) {
  run::expect_same_program(configuration.schema(), context.session.world());
  const std::string report = plan::dry_run(configuration, context, options.world.value_or(context.session.size()));
  print(context, report);
}

void run_train(const TrainArguments& options, Context& context) {
  comm::MpiSession& session = context.session;
  train::Configuration configuration;
  comm::agree(session.world(), [&] { configuration.load(context.files, options.files, options.overrides); });
  if (options.dry_run) return run_dry(options, configuration, context);
  run::Runtime runtime = context;
  runtime.force_unlock = options.force_unlock;
  runtime.profile = options.profile;
  train::train(configuration, runtime);
}

}  // namespace

void add_train_command(const Subcommand& program, Command& command) {
  auto options = std::make_shared<TrainArguments>();
  const Subcommand train = program.add_subcommand("train", "Train a model; the same command resumes the run it finds");
  add_config_arguments(train, options, /*required=*/true,
                       "Configuration in TOML, of which later files win; `ddpm config show` documents every key");
  const Option dry = train.add_flag(
      "--dry-run", options->dry_run,
      "Check everything and print who owns what, memory and communication; train nothing and write nothing");
  train.add("--world", &options->world, "Number of ranks of the dry run; one process stands for all of them")
      .needs(dry)
      .accept(IntegerRange{1, int64_t{1} << 24});
  train
      .add_flag("--force-unlock", options->force_unlock,
                "Take the run folder from a run that holds it and is surely dead; its owner is named")
      .excludes(dry);
  train
      .add_flag("--profile", options->profile,
                "Write a timeline of one warm step of all ranks, for ui.perfetto.dev: RUN/profile/step-N.json")
      .excludes(dry);
  train.footer("Any key can be set here too: --section.key VALUE, for example --optimizer.learning_rate 2e-4.");
  train.on_chosen([train, options, &command] {
    options->overrides = train.config_pairs();
    command = {.run = [options](Context& context) { run_train(*options, context); },
               .shares_work = !options->dry_run,
               .trains = !options->dry_run};
  });
}

}  // namespace ddpm::cli
