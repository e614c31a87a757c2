#include "cli/output.h"

#include "base/standard_streams.h"
#include "comm/collectives.h"

namespace ddpm::cli {

void print(const Context& context, const std::string& text) {
  comm::do_on_root(context.session.world(),
                   [&] { base::write_standard_output(text.ends_with('\n') ? text : text + '\n'); });
}

void add_json_flag(const Subcommand& command, bool& json) {
  command.add_flag("--json", json, "Print the result as one JSON object");
}

std::string dump(const base::OrderedJson& json) {
  return json.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
}

}  // namespace ddpm::cli
