#include "cli/lazy_bar.h"

#include <utility>

#include "base/terminal.h"

namespace ddpm::cli {

LazyBar::LazyBar(std::string label, bool speaks)
    : label_(std::move(label)),
      style_(observe::progress_style(observe::ProgressChoice::automatic, speaks, base::stderr_is_terminal())),
      began_(observe::steady_clock()()) {}

void LazyBar::update(int64_t done, int64_t total) {
  if (!bar_) {
    bar_.emplace(style_,
                 observe::ProgressBar::Options{.label = label_, .unit = "image", .total = total, .began = began_});
  }
  bar_->update(done);
}

}  // namespace ddpm::cli
