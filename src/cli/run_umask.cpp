#include "cli/run_umask.h"

#include <string>
#include <variant>

#include "base/error.h"
#include "comm/collectives.h"
#include "config/resolve.h"
#include "run/config.h"
#include "run/run_folder.h"

namespace ddpm::cli {
namespace {

/// The file's other keys are ignored, since keys of a user's own model are not known here.
std::string umask_of(const Context& context, const base::Path& file) {
  run::CommonConfig config;
  config::Schema schema;
  run::describe_run_and_batch(schema, config);
  if (!context.files.exists(file)) return config.run.umask;
  try {
    const config::Table stored = config::read_toml(file);
    if (const config::Value* umask = config::find_value(stored, "run", "umask")) {
      config::assign(*schema.find("run.umask"), *umask, file.string());
    }
  } catch (const base::ConfigError& error) {
    // The fault lies in the run's folder, not in what the user configured.
    throw base::OutputError("{}: cannot be read back: {}", file.string(), error.what());
  }
  return config.run.umask;
}

}  // namespace

void take_umask(Context& context, const base::Path& config_file) {
  run::set_file_mask(comm::agree_on_root(context.session.world(), [&] { return umask_of(context, config_file); }));
}

}  // namespace ddpm::cli
