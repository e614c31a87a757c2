#include "cli/config_arguments.h"

namespace ddpm::cli {

Option add_config_arguments(const Subcommand& command, const std::shared_ptr<ConfigArguments>& arguments, bool required,
                            const std::string& help) {
  command.take_config_pairs();
  return command.add("CONFIG", &arguments->files, help).required(required);
}

}  // namespace ddpm::cli
