// Inside src/h5 only: the values of the chunks that were used last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

namespace ddpm::h5 {

class ChunkCache {
 public:
  explicit ChunkCache(std::size_t most) : most_(most) {}

  /// The values of a chunk, which stay until the next put(); null where it is not kept.
  const std::vector<std::byte>* find(uint64_t number);
  /// Keeps a chunk, which find() has not found, in the place of the one that was not used for the longest time.
  void put(uint64_t number, std::vector<std::byte> values);
  /// Memory for another chunk's values: of one that put() would drop, or new.
  std::vector<std::byte> room(std::size_t bytes);

 private:
  struct Kept {
    uint64_t number = 0;
    std::vector<std::byte> values = {};
  };
  std::vector<std::byte> drop_last();

  std::size_t most_;
  std::list<Kept> kept_;                                 // the one used last comes first
  std::map<uint64_t, std::list<Kept>::iterator> found_;  // by number
};

}  // namespace ddpm::h5
