#include "observe/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/status_line.h"

namespace ddpm::observe {

namespace {

constexpr int kBarWidth = 24;
/// Writes the text in one piece. A reader that has left must not end the work.
void put(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

std::string bar_text(int64_t done, int64_t total) {
  const double fraction =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1.0;
  const auto filled = static_cast<std::size_t>(fraction * kBarWidth);
  return std::string(filled, '#') + std::string(kBarWidth - filled, '.');
}

}  // namespace

ProgressStyle progress_style(ProgressChoice setting, bool speaks, bool terminal) {
  if (!speaks) return ProgressStyle::off;
  switch (setting) {
    case ProgressChoice::automatic:
      return terminal ? ProgressStyle::bar : ProgressStyle::lines;
    case ProgressChoice::bar:
      return ProgressStyle::bar;
    case ProgressChoice::lines:
      return ProgressStyle::lines;
    case ProgressChoice::off:
      return ProgressStyle::off;
  }
  throw base::InternalError("progress {}", static_cast<int>(setting));
}

std::string format_duration(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  if (s == 0) return "under 1s";
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
}

ProgressBar::ProgressBar(ProgressStyle style, ProgressBarOptions options, base::TimeSource now, std::FILE* out)
    : style_(style),
      options_(std::move(options)),
      now_(std::move(now)),
      out_(out),
      began_(options_.began.value_or(now_())),
      last_drawn_(began_) {}

ProgressBar::~ProgressBar() {
  if (base::take_status_line(out_)) put(out_, "\n");
}

void ProgressBar::update(int64_t done, std::optional<double> loss) {
  if (style_ == ProgressStyle::off) return;
  const double now = now_();
  const double pause = style_ == ProgressStyle::bar ? options_.draw_every_s : options_.line_every_s;
  if (done < options_.total && now - last_drawn_ < pause) return;
  last_drawn_ = now;
  draw(done, status(done, loss, now));
}

std::string ProgressBar::status(int64_t done, std::optional<double> loss, double now) const {
  const double elapsed = std::max(now - began_, 1e-9);
  const double rate = static_cast<double>(done - options_.first) / elapsed;
  std::string text = fmt::format("{} {}/{}", options_.unit, done, options_.total);
  if (loss) text += fmt::format(", loss {:.4f}", *loss);
  const bool images = options_.images_per_unit > 0;
  text += fmt::format(", {:.1f} {}/s", images ? rate * static_cast<double>(options_.images_per_unit) : rate,
                      images ? "images" : options_.unit);
  text += fmt::format(", {} passed", format_duration(elapsed));
  if (done < options_.total && rate > 0) {
    text += fmt::format(", {} left", format_duration(static_cast<double>(options_.total - done) / rate));
  }
  return text;
}

void ProgressBar::draw(int64_t done, const std::string& status) {
  if (style_ == ProgressStyle::lines) {
    put(out_, fmt::format("ddpm: {}: {}\n", options_.label, status));
  } else {
    put(out_, fmt::format("{}{} [{}] {}", base::kClearLine, options_.label, bar_text(done, options_.total), status));
    base::note_status_line(out_);
  }
}

}  // namespace ddpm::observe
