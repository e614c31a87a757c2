// A communicator without peers: completes at once, and counts calls and bytes. It walks through the
// steps of rank r of any number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "comm/communicator.h"

namespace ddpm::test {

enum class Operation : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  barrier,
  send,
  receive,
  split,
  duplicate
};

struct Traffic {
  int64_t calls = 0;
  /// Bytes of the larger buffer of each call: what all ranks together hand in (reduce_scatter), what each of them ends
  /// with (all_gather), the one buffer there is (the others).
  int64_t bytes = 0;
};

/// What a fake and all communicators split from it have been asked to do, by any thread.
class TrafficCounts {
 public:
  void add(Operation operation, int64_t bytes);
  Traffic operator[](Operation operation) const;

 private:
  mutable std::mutex mutex_;
  std::array<Traffic, 9> counts_{};
};

/// Behaves as if every other rank held the same values as this one, except that a sum leaves its input as it is (so a
/// pretended world of any size does not overflow), and receive gives zeros. Buffers are host memory, or null: then only
/// counted.
class FakeCommunicator final : public comm::Communicator {
 public:
  struct Place {
    int rank;
    int size;
  };
  /// This rank's place in the communicator that split(color, key) makes. A fake cannot know the other ranks' colors.
  using SplitRule = std::function<Place(int color, int key)>;

  /// `counts` outlives this communicator and those split from it. Without `rule`, all ranks are of one color.
  FakeCommunicator(int rank, int size, TrafficCounts& counts, SplitRule rule = {});

  comm::Work all_reduce(comm::Buffer in_out, comm::ReduceOp op) override;
  comm::Work reduce_scatter(comm::ConstBuffer in, comm::Buffer out, comm::ReduceOp op) override;
  comm::Work all_gather(comm::ConstBuffer in, comm::Buffer out) override;
  comm::Work broadcast(comm::Buffer in_out, int root) override;
  comm::Work barrier() override;
  comm::Work send(comm::ConstBuffer in, int to, int tag) override;
  comm::Work receive(comm::Buffer out, int from, int tag) override;

  [[nodiscard]] std::unique_ptr<comm::Communicator> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<comm::Communicator> duplicate() override;
  [[nodiscard]] std::unique_ptr<comm::Communicator> alone() override;

 private:
  comm::Work count(Operation operation, int64_t elements, base::DType dtype);

  TrafficCounts& counts_;
  SplitRule rule_;
};

}  // namespace ddpm::test
