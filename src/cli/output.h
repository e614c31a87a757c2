// Results on stdout.
#pragma once

#include <string>

#include "base/json.h"
#include "cli/context.h"

namespace ddpm::cli {

/// To stdout, which is for results, from rank 0; the last line is ended if `text` does not end it.
void print(const Context& context, const std::string& text);

/// In one line; what is no UTF-8 in a path is replaced.
std::string dump(const base::OrderedJson& json);

}  // namespace ddpm::cli
