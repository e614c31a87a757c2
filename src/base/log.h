// Lines for people, on stderr. Rank 0 speaks; other ranks only when they have an error.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ddpm::base {

class Logger {
 public:
  /// `rank` and `world_size` decide who speaks and whether an error line names its rank and host.
  Logger(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  /// "ddpm: message", from rank 0 only.
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0) write("", fmt::format(format, std::forward<Args>(args)...));
  }
  /// "ddpm: warning: message", from rank 0 only.
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0) write("warning: ", fmt::format(format, std::forward<Args>(args)...));
  }
  /// "ddpm: error: [rank R on HOST: ]message", from whichever rank calls it; always one line.
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write_error(fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool speaks() const { return rank_ == 0; }

 private:
  void write(std::string_view prefix, std::string_view message) const;
  void write_error(std::string_view message) const;

  int rank_;
  int world_size_;
};

}  // namespace ddpm::base
