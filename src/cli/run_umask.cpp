#include "cli/run_umask.h"

#include "comm/collectives.h"
#include "run/run_folder.h"

namespace ddpm::cli {

void take_umask(Context& context, const base::Path& config_file) {
  run::set_file_mask(
      comm::agree_on_root(context.session.world(), [&] { return run::stored_umask(context.files, config_file); }));
}

}  // namespace ddpm::cli
