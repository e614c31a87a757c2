#include "cli/config.h"

#include <fmt/ranges.h>

#include "cli/config_arguments.h"
#include "cli/config_new.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "layout/parallelism.h"
#include "run/placement.h"
#include "train/config.h"

namespace ddpm::cli {
namespace {

struct VerbArguments : ConfigArguments {
  bool markdown = false;
};

void show(const VerbArguments& options, Context& context) {
  train::Configuration configuration;
  comm::agree(context.session.world(), [&] {
    if (!options.files.empty()) {
      configuration.load(context.files, options.files, options.overrides);
    } else {
      config::apply_overrides(configuration.schema(), options.overrides);
    }
  });
  print(context, options.markdown ? config::to_markdown(configuration.schema())
                                  : config::to_toml(configuration.schema(), /*documented=*/true));
}

void validate(const VerbArguments& options, Context& context) {
  train::Configuration configuration;
  comm::agree(context.session.world(), [&] {
    configuration.load(context.files, options.files, options.overrides);
    layout::refuse_on_any_ranks(run::parallelism_of(configuration.values()));
  });
  context.log.info("{} {} valid; identity {}", fmt::join(options.files, ", "), options.files.size() > 1 ? "are" : "is",
                   config::identity_hash(configuration.schema()));
}

Subcommand add_verb(const Subcommand& config, Command& command, const char* name, const char* doc,
                    const std::shared_ptr<VerbArguments>& options, void (*verb)(const VerbArguments&, Context&)) {
  const Subcommand one = config.add_subcommand(name, doc);
  one.on_chosen([one, options, verb, &command] {
    options->overrides = one.config_pairs();
    command.run = [options, verb](Context& context) { verb(*options, context); };
  });
  return one;
}

}  // namespace

void add_config_command(const Subcommand& program, Command& command) {
  const Subcommand config = program.add_subcommand("config", "Make, show or check a configuration");
  config.require_subcommand();
  add_config_new_command(config, command);
  auto options = std::make_shared<VerbArguments>();
  const Subcommand shown =
      add_verb(config, command, "show", "Print every key with its value and documentation", options, &show);
  add_config_arguments(shown, options, /*required=*/false,
                       "Configuration in TOML, of which later files win; without one, the defaults");
  shown.add_flag("--markdown", options->markdown, "Print the reference page instead");
  const Subcommand validated =
      add_verb(config, command, "validate", "Check a configuration without running it", options, &validate);
  add_config_arguments(validated, options, /*required=*/true);
}

}  // namespace ddpm::cli
