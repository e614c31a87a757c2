#include "cli/output.h"

#include "base/standard_streams.h"
#include "comm/collectives.h"

namespace ddpm::cli {

void print(const Context& context, const std::string& text) {
  comm::do_on_root(context.session.world(),
                   [&] { base::write_standard_output(text.ends_with('\n') ? text : text + '\n'); });
}

std::string dump(const base::OrderedJson& json) {
  return json.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
}

}  // namespace ddpm::cli
