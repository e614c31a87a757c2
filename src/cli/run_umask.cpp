#include "cli/run_umask.h"

#include "comm/collectives.h"
#include "run/run_folder.h"

namespace ddpm::cli {

void take_umask(Context& context, const base::Path& config_file) {
  run::set_file_mask(static_cast<run::Umask>(comm::number_on_root(
      context.session.world(), [&] { return static_cast<int64_t>(run::stored_umask(context.files, config_file)); })));
}

}  // namespace ddpm::cli
