// Lines for people, on stderr. Rank 0 speaks; other ranks only when they have an error.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/host_name.h"

namespace ddpm::base {

/// Receives the messages of a rank.
class LogListener {
 public:
  virtual ~LogListener() = default;
  /// A message as it would be printed, without what stands before it. `level`: "info", "warning" or "error". It may be
  /// called by any thread.
  virtual void take(std::string_view level, std::string_view message) noexcept = 0;
};

class Logger {
 public:
  /// `rank` and `world_size` decide who speaks and whether an error line names its rank and `node`.
  Logger(int rank, int world_size, std::string node = host_name())
      : rank_(rank), world_size_(world_size), node_(std::move(node)), shared_(std::make_shared<Shared>()) {}

  /// "ddpm: message", from rank 0 only.
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0 || heard()) write("info", fmt::format(format, std::forward<Args>(args)...));
  }
  /// "ddpm: warning: message", from rank 0 only.
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0 || heard()) write("warning", fmt::format(format, std::forward<Args>(args)...));
  }
  /// "ddpm: error: [rank R on NODE: ]message", from whichever rank calls it; always one line.
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write_error(fmt::format(format, std::forward<Args>(args)...));
  }

  /// From now on `listener` gets all messages of this rank, those included that it does not print; null: nobody does.
  void listen(LogListener* listener) const;

  /// From now on nothing but errors is printed: the job ends by that of another rank, which is to be the last line.
  void hush() const { shared_->hushed = true; }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool speaks() const { return rank_ == 0; }

 private:
  /// Copies of a logger have it in common.
  struct Shared {
    std::mutex mutex;
    std::atomic<LogListener*> listener = nullptr;
    std::atomic<bool> hushed = false;
  };
  [[nodiscard]] bool heard() const { return shared_->listener != nullptr; }
  void tell(std::string_view level, std::string_view message) const;
  void write(std::string_view level, std::string_view message) const;
  void write_error(std::string_view message) const;

  int rank_;
  int world_size_;
  std::string node_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ddpm::base
