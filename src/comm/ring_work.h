// Reductions and gathers of large buffers over a ring of ranks, made of messages.
//
// Each rank sends to the next one only. In n - 1 steps a part of the buffer travels once around and is reduced on its
// way (reduce-scatter); in another n - 1 the results travel (all-gather). A rank sends (n - 1)/n of the buffer per
// round, which no algorithm undercuts (Patarasuk, Yuan: "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009). MPI's own non-blocking reductions are trees, which send the whole buffer up to log2(n) times,
// and keep a copy of it; Open MPI's gather has all ranks send to one link at once, which then loses packets.
//
// Parts go in messages of limited size, one behind the other: a message is on its way to the next rank as soon as it
// has been reduced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi_handles.h"

namespace ddpm::comm {

/// What a library that is loaded before the program defines, if it wants to be told of each ring as it begins, like of
/// MPI's own collectives: tests/comm/collective_check.cpp. `collective`: "ring all_reduce".
extern "C" [[gnu::weak, gnu::visibility("default")]] void ddpm_ring_begins(MPI_Comm comm, const char* collective,
                                                                           int64_t count, MPI_Datatype type, MPI_Op op);

/// How elements are sent and reduced.
struct RingElements {
  MPI_Datatype type;
  std::size_t bytes;
  MPI_Op op;
};

class RingWork final : public Work::Impl {
 public:
  enum class Kind : uint8_t {
    all_reduce,
    reduce_scatter,  ///< rank r's part holds the result; the others are scratch memory
    all_gather       ///< rank r's part goes to all; nothing is reduced
  };
  /// `count` elements at `data` are cut into one part per rank: part p begins at element count · p / ranks. A `tag`
  /// serves one work at a time on `comm`. Messages have at most `message_elements`.
  RingWork(MPI_Comm comm, int tag, Kind kind, std::byte* data, int64_t count, const RingElements& elements,
           int64_t message_elements);

  bool test() override;
  void wait() override;

 private:
  struct RingMessage {
    std::byte* data;
    int count;
  };

  // Messages are numbered in the order in which a rank sends, or receives, them: pieces_ for each step.
  [[nodiscard]] int64_t reduced_messages() const { return kind_ == Kind::all_gather ? 0 : pieces_ * (ranks_ - 1); }
  [[nodiscard]] RingMessage outgoing(int64_t message) const { return piece(message, 1); }
  [[nodiscard]] RingMessage incoming(int64_t message) const { return piece(message, 2); }
  [[nodiscard]] RingMessage piece(int64_t message, int64_t behind) const;
  [[nodiscard]] std::byte* slot(int64_t message);
  void send(int64_t message);
  void find_sent();
  void receive_ahead();
  bool take_received();

  static constexpr int64_t kAhead = 4;  // receives that wait for their messages

  MPI_Comm comm_;
  int tag_;
  Kind kind_;
  std::byte* data_;
  int64_t count_;
  RingElements elements_;
  int rank_ = 0;
  int64_t ranks_ = 1;
  int64_t pieces_ = 0;    // pieces that a part is cut into
  int64_t messages_ = 0;  // how many this rank sends, and as many it receives
  int64_t slot_elements_ = 0;
  std::vector<std::byte> slots_;  // what is to be reduced arrives here
  std::vector<MPI_Request> sends_;
  std::vector<MPI_Request> receives_;
  int64_t sent_ = 0;      // sends before this one are complete
  int64_t expected_ = 0;  // receives before this one have been started
  int64_t taken_ = 0;     // messages before this one are received and reduced
};

}  // namespace ddpm::comm
