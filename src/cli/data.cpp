#include "cli/data.h"

#include "cli/data_adopt.h"
#include "cli/data_change.h"
#include "cli/data_create.h"
#include "cli/data_generate.h"
#include "cli/data_inspect.h"
#include "cli/data_stats.h"
#include "cli/data_verify.h"

namespace ddpm::cli {

void add_data_command(const Subcommand& program, Command& command) {
  const Subcommand data = program.add_subcommand("data", "Make image sets, and look at them");
  data.require_subcommand();
  declare_data_create(data, command);
  declare_data_generate(data, command);
  declare_data_append(data, command);
  declare_data_reshard(data, command);
  declare_data_adopt(data, command);
  declare_data_inspect(data, command);
  declare_data_verify(data, command);
  declare_data_stats(data, command);
}

}  // namespace ddpm::cli
