#include "h5/chunk_cache.h"

#include <utility>

namespace ddpm::h5 {

const std::vector<std::byte>* ChunkCache::find(uint64_t number) {
  const auto found = found_.find(number);
  if (found == found_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return &kept_.front().values;
}

void ChunkCache::put(uint64_t number, std::vector<std::byte> values) {
  while (kept_.size() >= most_) drop_last();
  kept_.push_front({.number = number, .values = std::move(values)});
  found_.emplace(number, kept_.begin());
}

std::vector<std::byte> ChunkCache::room(std::size_t bytes) {
  std::vector<std::byte> values;
  if (kept_.size() >= most_) values = drop_last();
  values.resize(bytes);
  return values;
}

std::vector<std::byte> ChunkCache::drop_last() {
  std::vector<std::byte> values = std::move(kept_.back().values);
  found_.erase(kept_.back().number);
  kept_.pop_back();
  return values;
}

}  // namespace ddpm::h5
