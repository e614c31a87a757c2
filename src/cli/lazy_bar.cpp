#include "cli/lazy_bar.h"

#include <utility>

#include "base/clock.h"
#include "base/terminal.h"

namespace ddpm::cli {

LazyBar::LazyBar(std::string label, bool speaks, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      style_(observe::progress_style(observe::ProgressChoice::automatic, speaks, base::stderr_is_terminal())),
      began_(base::steady_seconds()) {}

void LazyBar::update(int64_t done, int64_t total) {
  if (!bar_) {
    bar_.emplace(style_, observe::ProgressBarOptions{.label = label_,
                                                     .unit = unit_,
                                                     .total = total,
                                                     .images_per_unit = unit_ == "image" ? 1 : 0,
                                                     .began = began_});
  }
  bar_->update(done);
}

}  // namespace ddpm::cli
