// Spans of time of one rank, of which a timeline of all ranks is made. While nothing is recorded, it costs a look at a
// flag.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace ddpm::base {

class Trace {
 public:
  /// Spans of one track lie one after the other or within each other; transfers may overlap as they like.
  enum class Track : uint8_t { step, phases, transfers };
  struct Span {
    std::string name;
    Track track = Track::step;
    double begin = 0.0;  ///< by base::steady_seconds()
    double end = 0.0;
  };

  void start() {
    const std::lock_guard lock(mutex_);
    spans_.clear();
    began_ = steady_seconds();
    recording_ = true;
  }
  void stop() { recording_ = false; }
  [[nodiscard]] bool recording() const { return recording_; }
  /// When start() was called.
  [[nodiscard]] double began() const { return began_; }

  /// Keeps a span that began while this records. Any thread may call it.
  void add(Span span) {
    if (!recording_ || span.begin < began_) return;
    const std::lock_guard lock(mutex_);
    spans_.push_back(std::move(span));
  }
  [[nodiscard]] std::vector<Span> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

 private:
  std::atomic<bool> recording_ = false;
  double began_ = 0.0;
  std::mutex mutex_;
  std::vector<Span> spans_;
};

/// Whether there is one that records.
inline bool records(const Trace* trace) { return trace != nullptr && trace->recording(); }

}  // namespace ddpm::base
