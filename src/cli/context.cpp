#include "cli/context.h"

#include <fmt/format.h>

namespace ddpm::cli {

void Context::enter(const std::string& part) const {
  if (session.size() == 1) return watchdog->rest();
  watchdog->enter({.name = part.empty() ? command : fmt::format("{} ({})", part, command),
                   .deadline_s = progress_timeout_s,
                   .key = kProgressVariable,
                   .by_progress = true});
}

}  // namespace ddpm::cli
