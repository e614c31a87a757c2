// Which accesses to memory are ordered, and which only happened to come one after the other: vector clocks of the
// streams of a device and of the host, and the ranges of memory that each piece of work reads and writes.
//
// The device does each piece of work at once, on the host. What a real one might do later, or at the same time, is told
// by the clocks: a piece of work may touch what another one wrote only where a stream, an event or a wait of the host
// orders the two. Host memory that a copy runs to holds poison until the host has waited for the copy, and host memory
// that a copy runs from must stay as it is until then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddpm::test {

class StreamOrder {
 public:
  static constexpr std::size_t kStreams = 32;
  static constexpr int kPoison = 0xff;  ///< each byte of it: NaN in every type of floating point
  /// For each stream, how much of its work is known to be done.
  using Clock = std::array<uint64_t, kStreams>;

  struct Range {
    const void* begin = nullptr;
    std::size_t bytes = 0;
    bool writes = false;
  };
  /// What an event holds. One that was never recorded holds nothing, and is waited for at once.
  struct Mark {
    Clock clock{};
    int64_t recording = 0;  ///< the one during which it was recorded; 0: none
  };

  static StreamOrder& instance();

  /// Memory of the device, which belongs to the stream that is current when it is taken. What was given back is given
  /// out again by the next take() of its stream, which is a fault when another stream uses it that neither that stream
  /// follows nor keep() has named.
  void take(const void* begin, std::size_t bytes, std::size_t stream);
  void give_back(const void* begin);
  void keep(const void* address, std::size_t stream);
  /// The most bytes that were taken at a time since the last call.
  int64_t take_most_bytes();

  /// A piece of work of `stream`, which touches ranges of device memory.
  void work(std::size_t stream, const std::string& what, std::span<const Range> ranges);
  /// A copy between device and pinned host memory which the host does not wait for.
  void copy_home(std::size_t stream, void* host, const void* device, std::size_t bytes);
  void copy_from_host(std::size_t stream, void* device, const void* host, std::size_t bytes);

  Mark mark(std::size_t stream);
  void follow(std::size_t stream, const Mark& mark);
  void host_follows(const Mark& mark, const std::string& what);
  void host_follows(std::size_t stream, const std::string& what);
  void host_follows_all(const std::string& what);
  /// Whether the host knows it done. A device says so late: an event is asked twice before it is.
  bool host_knows(const Mark& mark, int64_t asked);

  /// From here to end_recording(), work of `stream` and of those that follow it is recorded: the host may wait for
  /// nothing, streams that joined must be joined again at the end, and events from outside are not for them.
  void begin_recording(std::size_t stream);
  void end_recording();

  /// All faults since the last call, each once.
  std::vector<std::string> take_faults();
  /// Pieces of work, waits of streams and waits of the host so far.
  struct Counts {
    int64_t works = 0;
    int64_t follows = 0;
    int64_t host_waits = 0;
    int64_t copies = 0;
  };
  [[nodiscard]] Counts counts();

 private:
  struct Access {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::size_t stream = 0;
    uint64_t tick = 0;
    bool writes = false;
    std::string what;
  };
  struct Block {
    const std::byte* end = nullptr;
    std::size_t owner = 0;
    std::set<std::size_t> keepers = {};
    std::vector<Access> accesses = {};
  };
  /// A copy that the host has not waited for.
  struct Copy {
    std::size_t stream = 0;
    uint64_t tick = 0;
    std::byte* host = nullptr;
    std::vector<std::byte> values = {};
    bool home = false;
  };
  static void join(Clock& clock, const Clock& other);
  void fault(const std::string& text);
  uint64_t advance(std::size_t stream);
  void touch(std::size_t stream, uint64_t tick, const std::string& what, const Range& range);
  Block* block_of(const void* address);
  void host_learns(const Clock& clock, const std::string& what);

  std::mutex mutex_;
  std::array<Clock, kStreams> clocks_{};
  Clock host_{};
  std::map<const std::byte*, Block> blocks_;
  std::array<std::vector<Access>, kStreams> free_{};  // what was done to memory that was given back, by its owner
  int64_t bytes_ = 0;                                 // in blocks_
  int64_t most_bytes_ = 0;                            // since take_most_bytes()
  std::vector<Copy> copies_;
  std::vector<std::string> faults_;
  Counts counts_;
  int64_t recording_ = 0;   // its number; 0: none
  int64_t recordings_ = 0;  // so far
  std::set<std::size_t> recorded_;
  std::size_t origin_ = 0;
};

}  // namespace ddpm::test
