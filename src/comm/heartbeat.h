// Inside src/comm: how the watchdogs of two ranks hear of each other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "comm/lateness.h"
#include "comm/mpi_handles.h"

namespace ddpm::comm {

/// A message, sent as it lies in memory: what a rank says of itself. Texts are cut to their fields.
struct Beat {
  std::array<char, 64> name{};
  std::array<char, 64> key{};
  double deadline_s = 0.0;
  double age_s = 0.0;
  double job_age_s = 0.0;
  int64_t step = -1;
  int64_t sequence = 0;
  int speaker = -1;
  bool by_progress = false;
  bool gone = false;
  bool waiting = false;
  bool failed = false;
  bool last = false;

  static Beat of(const RankState& state, bool last);
  [[nodiscard]] RankState state() const;
};

/// What one other rank says: a receive that is always open.
class Listener {
 public:
  /// `start`: what the other rank does until it says something else.
  Listener(MPI_Comm comm, int from, Phase start);
  /// Local: a receive that nothing came for is cancelled.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Neither its silence nor its time in its phase counts what this rank has not seen.
  RankState state(const SeenTime& seen);
  bool heard_last();

 private:
  void hear();
  void listen();

  MPI_Comm comm_;
  int from_;
  Beat beat_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
  RankState state_;
  bool said_last_ = false;
  base::Clock::time_point heard_ = base::Clock::now();
};

/// Where this rank's beats go. One is on its way at a time, until it is received: a listener that has stopped gets no
/// more.
class Sender {
 public:
  Sender(MPI_Comm comm, int to) : comm_(comm), to_(to) {}
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// False when the one before has not been received yet; then it has to be said again.
  bool say(const RankState& state, bool last = false);
  /// Says that this is the last word, once the one before has been received. Whether it has been received itself.
  bool said_last();

 private:
  bool done();

  MPI_Comm comm_;
  int to_;
  std::unique_ptr<Beat> beat_ = std::make_unique<Beat>();
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool said_last_ = false;
};

}  // namespace ddpm::comm
