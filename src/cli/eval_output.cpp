#include "cli/eval_output.h"

#include "base/error.h"
#include "base/input_file.h"
#include "cli/output.h"
#include "comm/collectives.h"

namespace ddpm::cli {

void declare_result_arguments(const Subcommand& command, ResultArguments& arguments) {
  add_json_flag(command, arguments.json);
  command.add("--output", &arguments.output,
              "Write the same object to this .json file, too; ddpm report shows those of RUN/evaluation");
}

void expect_result_place(Context& context, const ResultArguments& arguments) {
  if (arguments.output.empty()) return;
  comm::do_on_root(context.session.world(), [&] {
    const base::Path path = base::plain_path(arguments.output);
    if (path.extension() != ".json") {
      throw base::ConfigError("--output {}: wanted a file name that ends with .json", path.string());
    }
    if (base::kind_of(path) == base::FileKind::folder) {
      throw base::OutputError("--output {}: it is a folder, wanted a file", path.string());
    }
    const base::Path above = base::nearest_existing(context.files, base::parent_of(path));
    if (base::kind_of(above) != base::FileKind::folder) {
      throw base::OutputError("--output {}: {} is not a folder", path.string(), above.string());
    }
  });
}

void deliver(Context& context, const eval::Result& result, const ResultArguments& arguments) {
  comm::do_on_root(context.session.world(), [&] {
    if (arguments.output.empty()) return;
    const base::Path path = base::plain_path(arguments.output);
    context.files.create_directories(base::parent_of(path));
    base::write_atomically(context.files, path, dump(eval::to_json(result)) + "\n");
  });
  print(context, arguments.json ? dump(eval::to_json(result)) : eval::to_text(result));
}

}  // namespace ddpm::cli
