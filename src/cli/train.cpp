#include "cli/train.h"

#include <CLI/CLI.hpp>

#include "comm/collectives.h"
#include "train/trainer.h"

namespace ddpm::cli {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
};

void run(const Options& options, Context& context) {
  comm::MpiSession& session = context.session;
  train::Configuration configuration;
  comm::agree(session.world(), [&] { configuration.load(options.config, options.overrides); });
  train::train(configuration, {session, context.files, context.log});
}

}  // namespace

void add_train_command(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  CLI::App* train = app.add_subcommand("train", "Train a model; the same command resumes the run it finds");
  train->add_option("CONFIG", options->config, "Configuration in TOML; `ddpm config show` documents every key")
      ->required();
  train->allow_extras();
  train->footer("Any key can be set here too: --section.key VALUE, for example --optimizer.learning_rate 2e-4.");
  train->callback([train, options, &command] {
    options->overrides = train->remaining();
    command = {.run = [options](Context& context) { run(*options, context); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
