#include "train/rank_log.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/utc_text.h"

namespace ddpm::train {

RankLog::RankLog(base::FileSystem& files, const base::Path& folder, const base::Logger& log, int rank, std::string host)
    : log_(log), host_(std::move(host)), file_(files, folder / fmt::format("rank-{:04}.log", rank)) {
  log_.listen(this);
}

RankLog::~RankLog() { log_.listen(nullptr); }

void RankLog::line(std::string_view level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string time = base::utc_text_ms(std::chrono::system_clock::now());
  file_.append_line(fmt::format("{} {} {} {}", time, level, host_, text));
}

void RankLog::take(std::string_view level, std::string_view text) noexcept {
  try {
    line(level, text);
  } catch (const std::exception& error) {
    if (failed_.exchange(true)) return;
    std::fprintf(stderr, "ddpm: warning: the log of a rank is not written: %s\n", error.what());
  }
}

}  // namespace ddpm::train
