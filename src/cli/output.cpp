#include "cli/output.h"

#include <cstdio>

namespace ddpm::cli {

void print(const Context& context, const std::string& text) {
  if (context.session.rank() != 0) return;
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
  std::fflush(stdout);
}

std::string dump(const base::OrderedJson& json) {
  return json.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
}

}  // namespace ddpm::cli
