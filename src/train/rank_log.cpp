#include "train/rank_log.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include <fmt/chrono.h>

namespace ddpm::train {
namespace {

/// "2026-11-25T01:50:02.123Z"
std::string time_text() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (now - seconds).count());
}

}  // namespace

RankLog::RankLog(base::FileSystem& files, const base::Path& folder, const base::Logger& log, int rank, std::string host)
    : log_(log), host_(std::move(host)), file_(files, folder / fmt::format("rank-{:04}.log", rank)) {
  log_.listen(this);
}

RankLog::~RankLog() { log_.listen(nullptr); }

void RankLog::line(std::string_view level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  file_.append_line(fmt::format("{} {} {} {}", time_text(), level, host_, text));
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
