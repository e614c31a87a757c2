#include "support/stream_order.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace ddpm::test {
namespace {

/// How often an event is asked before it is known to be done.
constexpr int64_t kLate = 2;

}  // namespace

StreamOrder& StreamOrder::instance() {
  static auto* order = new StreamOrder;  // memory is given back until the process ends
  return *order;
}

/// An allocator gives memory of a stream to the next one of the same stream that asks.
void StreamOrder::take(const void* begin, std::size_t bytes, std::size_t stream) {
  const std::lock_guard lock(mutex_);
  join(clocks_[stream], host_);
  for (const Access& access : std::exchange(free_[stream], {})) {
    if (clocks_[stream][access.stream] >= access.tick) continue;
    fault(fmt::format("memory of stream {} is given out again while '{}' of stream {} may use it", stream, access.what,
                      access.stream));
  }
  const auto* first = static_cast<const std::byte*>(begin);
  Block& block = blocks_[first] = {.end = first + bytes, .owner = stream};
  bytes_ += static_cast<int64_t>(bytes);
  most_bytes_ = std::max(most_bytes_, bytes_);
  const uint64_t so_far = clocks_[stream][stream];
  if (so_far > 0)
    block.accesses.push_back({first, block.end, stream, so_far, true, "what the memory was used for before"});
}

void StreamOrder::give_back(const void* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(begin));
  if (found == blocks_.end()) return fault("memory is given back that was never taken");
  const Block& block = found->second;
  for (const Access& access : block.accesses) {
    if (!block.keepers.contains(access.stream)) free_[block.owner].push_back(access);
  }
  bytes_ -= block.end - found->first;
  blocks_.erase(found);
}

int64_t StreamOrder::take_most_bytes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(most_bytes_, bytes_);
}

void StreamOrder::keep(const void* address, std::size_t stream) {
  const std::lock_guard lock(mutex_);
  if (Block* block = block_of(address)) block->keepers.insert(stream);
}

void StreamOrder::work(std::size_t stream, const std::string& what, std::span<const Range> ranges) {
  const std::lock_guard lock(mutex_);
  ++counts_.works;
  const uint64_t tick = advance(stream);
  if (recording_ != 0 && !recorded_.contains(stream)) {
    fault(fmt::format("'{}' of stream {} is not in the recording", what, stream));
  }
  for (const Range& range : ranges) touch(stream, tick, what, range);
}

void StreamOrder::copy_home(std::size_t stream, void* host, const void* device, std::size_t bytes) {
  const Range from{.begin = device, .bytes = bytes, .writes = false};
  work(stream, "copy to the host", std::span(&from, 1));
  const std::lock_guard lock(mutex_);
  ++counts_.copies;
  Copy copy{.stream = stream, .tick = clocks_[stream][stream], .host = static_cast<std::byte*>(host), .home = true};
  const auto* values = static_cast<const std::byte*>(device);
  copy.values.assign(values, values + bytes);
  std::memset(host, kPoison, bytes);
  copies_.push_back(std::move(copy));
}

void StreamOrder::copy_from_host(std::size_t stream, void* device, const void* host, std::size_t bytes) {
  const Range to{.begin = device, .bytes = bytes, .writes = true};
  work(stream, "copy from the host", std::span(&to, 1));
  const std::lock_guard lock(mutex_);
  ++counts_.copies;
  auto* values = static_cast<std::byte*>(const_cast<void*>(host));
  for (const Copy& earlier : copies_) {
    if (!earlier.home || earlier.host >= values + bytes || values >= earlier.host + earlier.values.size()) continue;
    fault("host memory is copied to the device before the host has waited for what is copied there");
  }
  Copy copy{.stream = stream, .tick = clocks_[stream][stream], .host = values};
  copy.values.assign(values, values + bytes);
  std::memcpy(device, host, bytes);
  copies_.push_back(std::move(copy));
}

StreamOrder::Mark StreamOrder::mark(std::size_t stream) {
  const std::lock_guard lock(mutex_);
  join(clocks_[stream], host_);
  return {.clock = clocks_[stream], .recording = recorded_.contains(stream) ? recording_ : 0};
}

void StreamOrder::follow(std::size_t stream, const Mark& mark) {
  const std::lock_guard lock(mutex_);
  ++counts_.follows;
  if (mark.recording != 0 && mark.recording == recording_) {
    recorded_.insert(stream);
  } else if (recorded_.contains(stream) && mark.clock != Clock{}) {
    fault(fmt::format("stream {} waits, while it is recorded, for an event from before the recording", stream));
  }
  join(clocks_[stream], mark.clock);
}

void StreamOrder::host_follows(const Mark& mark, const std::string& what) {
  const std::lock_guard lock(mutex_);
  host_learns(mark.clock, what);
}

void StreamOrder::host_follows(std::size_t stream, const std::string& what) {
  const std::lock_guard lock(mutex_);
  host_learns(clocks_[stream], what);
}

void StreamOrder::host_follows_all(const std::string& what) {
  const std::lock_guard lock(mutex_);
  Clock all{};
  for (const Clock& clock : clocks_) join(all, clock);
  host_learns(all, what);
}

bool StreamOrder::host_knows(const Mark& mark, int64_t asked) {
  const std::lock_guard lock(mutex_);
  Clock with = host_;
  join(with, mark.clock);
  if (with == host_) return true;
  if (asked < kLate) return false;
  host_learns(mark.clock, "event query");
  return true;
}

void StreamOrder::begin_recording(std::size_t stream) {
  const std::lock_guard lock(mutex_);
  recording_ = ++recordings_;
  recorded_ = {stream};
  origin_ = stream;
}

void StreamOrder::end_recording() {
  const std::lock_guard lock(mutex_);
  for (const std::size_t stream : recorded_) {
    if (clocks_[origin_][stream] >= clocks_[stream][stream]) continue;
    fault(fmt::format("stream {} is not joined when the recording of stream {} ends", stream, origin_));
  }
  recording_ = 0;
  recorded_.clear();
}

std::vector<std::string> StreamOrder::take_faults() {
  const std::lock_guard lock(mutex_);
  return std::exchange(faults_, {});
}

StreamOrder::Counts StreamOrder::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void StreamOrder::join(Clock& clock, const Clock& other) {
  std::ranges::transform(clock, other, clock.begin(), [](uint64_t a, uint64_t b) { return std::max(a, b); });
}

void StreamOrder::fault(const std::string& text) {
  if (std::ranges::find(faults_, text) == faults_.end()) faults_.push_back(text);
}

/// The number of the next piece of work, which follows all that the host knows.
uint64_t StreamOrder::advance(std::size_t stream) {
  join(clocks_[stream], host_);
  return ++clocks_[stream][stream];
}

void StreamOrder::touch(std::size_t stream, uint64_t tick, const std::string& what, const Range& range) {
  Block* block = range.bytes == 0 ? nullptr : block_of(range.begin);
  if (block == nullptr) {
    if (range.bytes > 0) fault(fmt::format("'{}' of stream {} touches memory that is not there", what, stream));
    return;
  }
  const auto* begin = static_cast<const std::byte*>(range.begin);
  const std::byte* end = begin + range.bytes;
  const Clock& known = clocks_[stream];
  std::erase_if(block->accesses, [&](const Access& earlier) {
    const bool meet = earlier.begin < end && begin < earlier.end;
    if (!meet || !(range.writes || earlier.writes)) return false;
    const bool ordered = known[earlier.stream] >= earlier.tick;
    if (!ordered) {
      fault(fmt::format("'{}' of stream {} {} what '{}' of stream {} {}, and nothing orders them", what, stream,
                        range.writes ? "writes" : "reads", earlier.what, earlier.stream,
                        earlier.writes ? "writes" : "reads"));
    }
    return ordered && range.writes && begin <= earlier.begin && earlier.end <= end;
  });
  for (Access& earlier : block->accesses) {  // the same stream, the same range: the later one stands for both
    if (earlier.begin != begin || earlier.end != end || earlier.stream != stream || earlier.writes != range.writes) {
      continue;
    }
    earlier.tick = tick;
    earlier.what = what;
    return;
  }
  block->accesses.push_back({begin, end, stream, tick, range.writes, what});
}

StreamOrder::Block* StreamOrder::block_of(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  auto next = blocks_.upper_bound(byte);
  if (next == blocks_.begin()) return nullptr;
  Block& block = std::prev(next)->second;
  return byte < block.end ? &block : nullptr;
}

/// Copies that are done by then arrive, and their host memory is free.
void StreamOrder::host_learns(const Clock& clock, const std::string& what) {
  ++counts_.host_waits;
  if (recording_ != 0) fault(fmt::format("the host waits ({}) during a recording", what));
  join(host_, clock);
  std::erase_if(copies_, [&](const Copy& copy) {
    if (host_[copy.stream] < copy.tick) return false;
    if (copy.home) {
      std::memcpy(copy.host, copy.values.data(), copy.values.size());
    } else if (std::memcmp(copy.host, copy.values.data(), copy.values.size()) != 0) {
      fault("host memory has changed while a copy from it could be under way");
    }
    return true;
  });
}

}  // namespace ddpm::test
