#include "cli/data_output.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace ddpm::cli {

void print(const Context& context, const std::string& text) {
  if (context.session.rank() != 0) return;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

std::string dump(const base::OrderedJson& json) {
  return json.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
}

LazyBar::LazyBar(std::string label, bool speaks)
    : label_(std::move(label)),
      style_(observe::progress_style("auto", speaks, observe::stderr_is_terminal())),
      began_(observe::steady_clock()()) {}

void LazyBar::update(int64_t done, int64_t total) {
  if (!bar_) {
    bar_.emplace(style_,
                 observe::ProgressBar::Options{.label = label_, .unit = "image", .total = total, .began = began_});
  }
  bar_->update(done);
}

}  // namespace ddpm::cli
