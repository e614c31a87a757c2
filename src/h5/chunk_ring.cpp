#include "h5/chunk_ring.h"

#include <cstring>
#include <thread>

#include "base/check.h"

namespace ddpm::h5 {

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share the head, but no lock");

constexpr uint64_t kLineBytes = 64;  // entries begin on multiples of it

}  // namespace

ChunkRing::ChunkRing(std::span<std::byte> memory) : head_(reinterpret_cast<Head*>(memory.data())) {
  DDPM_CHECK(memory.size() > sizeof(Head), "{} bytes for a ring with a head of {}", memory.size(), sizeof(Head));
  ring_ = memory.subspan(sizeof(Head));
  ring_ = ring_.first(ring_.size() / kLineBytes * kLineBytes);
}

std::atomic<uint64_t>& ChunkRing::place_of(const ChunkKey& key) const {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15U;  // 2^64 divided by the golden ratio: Fibonacci hashing
  return head_->places[(key.offset + key.file * kMultiplier) * kMultiplier >> 48U];
}

void ChunkRing::put(const ChunkKey& key, std::span<const std::byte> values) {
  const uint64_t bytes = (sizeof(ChunkHeader) + values.size() + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (bytes > ring_.size() / 4) return;
  constexpr int kTries = 100;
  for (int tries = 0; head_->writing.exchange(1, std::memory_order_acquire) != 0; ++tries) {
    if (tries == kTries) return;
    std::this_thread::yield();
  }
  const uint64_t end = head_->end.load();
  const uint64_t left = ring_.size() - end % ring_.size();
  const uint64_t begin = bytes <= left ? end : end + left;  // no entry goes around
  head_->end.store(begin + bytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // who sees bytes of this entry also sees the new end
  std::byte* const to = &ring_[begin % ring_.size()];
  const ChunkHeader entry{.key = key, .bytes = values.size()};
  std::memcpy(to, &entry, sizeof(entry));
  std::memcpy(to + sizeof(entry), values.data(), values.size());
  place_of(key).store(begin + 1, std::memory_order_release);
  head_->writing.store(0, std::memory_order_release);
}

bool ChunkRing::read(const ChunkKey& key, std::span<const Line> lines, std::span<std::byte> out) const {
  const uint64_t place = place_of(key).load(std::memory_order_acquire);
  if (place == 0) return false;
  const uint64_t begin = place - 1;
  const auto is_there = [&] { return head_->end.load() <= begin + ring_.size(); };
  if (!is_there()) return false;
  const std::byte* const from = &ring_[begin % ring_.size()];
  ChunkHeader entry;
  std::memcpy(&entry, from, sizeof(entry));
  if (entry.key != key || entry.bytes > ring_.size() - begin % ring_.size() - sizeof(entry)) return false;
  for (const Line& line : lines) {
    if (line.from > entry.bytes || line.bytes > entry.bytes - line.from) return false;
    std::memcpy(&out[line.to], from + sizeof(entry) + line.from, line.bytes);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return is_there();
}

}  // namespace ddpm::h5
