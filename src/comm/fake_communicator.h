// A communicator without peers: completes at once, and counts calls and bytes. Dry runs use it to walk through the
// steps of rank r of any number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace ddpm::comm {

enum class Operation : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier, send, receive };

struct Traffic {
  int64_t calls = 0;
  /// Bytes of the larger buffer of each call: what all ranks together hand in (reduce_scatter), what each of them ends
  /// with (all_gather), the one buffer there is (the others).
  int64_t bytes = 0;
};

/// What a fake and all communicators split from it have been asked to do.
class TrafficCounts {
 public:
  Traffic& operator[](Operation operation) { return counts_.at(static_cast<std::size_t>(operation)); }
  const Traffic& operator[](Operation operation) const { return counts_.at(static_cast<std::size_t>(operation)); }

 private:
  std::array<Traffic, 7> counts_{};
};

/// Behaves as if every other rank held the same values as this one, except that a sum leaves its input as it is (so a
/// pretended world of any size does not overflow), and receive gives zeros. Buffers are host memory, or null: then only
/// counted.
class FakeCommunicator final : public Communicator {
 public:
  struct Place {
    int rank;
    int size;
  };
  /// This rank's place in the communicator that split(color, key) makes. A fake cannot know the other ranks' colors.
  using SplitRule = std::function<Place(int color, int key)>;

  /// `counts` outlives this communicator and those split from it. Without `rule`, all ranks are of one color.
  FakeCommunicator(int rank, int size, TrafficCounts& counts, SplitRule rule = {});

  Work all_reduce(Buffer in_out, ReduceOp op) override;
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) override;
  Work all_gather(ConstBuffer in, Buffer out) override;
  Work broadcast(Buffer in_out, int root) override;
  Work barrier() override;
  Work send(ConstBuffer in, int to, int tag) override;
  Work receive(Buffer out, int from, int tag) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() override;

 private:
  Work count(Operation operation, int64_t elements, base::DType dtype);

  TrafficCounts& counts_;
  SplitRule rule_;
};

}  // namespace ddpm::comm
