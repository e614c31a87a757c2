// How the subcommands of `ddpm data` say what they do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "cli/context.h"
#include "observe/progress_bar.h"

namespace ddpm::cli {

/// A line to stdout, which is for results, from rank 0.
void print(const Context& context, const std::string& text);

/// In one line; what is no UTF-8 in a path is replaced.
std::string dump(const base::OrderedJson& json);

/// A bar of images whose number is known with the first that is done; the work begins now.
class LazyBar {
 public:
  LazyBar(std::string label, bool speaks);
  void update(int64_t done, int64_t total);

 private:
  std::string label_;
  observe::ProgressStyle style_;
  double began_;
  std::optional<observe::ProgressBar> bar_;
};

}  // namespace ddpm::cli
