// A file for each rank, RUN/logs/rank-0003.log: what this rank has to say, whoever speaks on stderr.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"
#include "observe/line_file.h"

namespace ddpm::train {

/// While it lives, every message of the rank's logger is also a line of the file, also those that only rank 0 prints:
/// time (UTC), level, host, text. Later starts append. A file that can no longer be written ends no run: that is warned
/// of once.
class RankLog final : public base::LogListener {
 public:
  /// `log` outlives this object.
  RankLog(base::FileSystem& files, const base::Path& folder, const base::Logger& log, int rank, std::string host);
  ~RankLog() override;
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

  /// Writes a line of this rank's own; throws base::OutputError.
  void line(std::string_view level, std::string_view text);
  void take(std::string_view level, std::string_view text) noexcept override;

 private:
  const base::Logger& log_;
  std::string host_;
  observe::LineFile file_;
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
};

}  // namespace ddpm::train
