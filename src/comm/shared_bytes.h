// Memory that the ranks of a host hold once between them, for what each would otherwise have a copy of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "comm/communicator.h"

namespace ddpm::comm {

/// Bytes [begin, end), which rank `writer` has written.
struct WrittenBytes {
  int64_t begin = 0;
  int64_t end = 0;
  int writer = 0;
};

class SharedBytes {
 public:
  /// Less than this is not worth sharing: each rank then has a copy.
  static constexpr int64_t kWorthSharing = int64_t{1} << 20;

  /// Collective over `comm`, which outlives this object. `bytes`: the same on all ranks. Ranks of a host share them
  /// (MPI_Win_allocate_shared) where there are `worth_sharing` of them and /dev/shm of every host has room; otherwise
  /// each rank has a copy, or `own_bytes` that it does with as it likes.
  SharedBytes(Communicator& comm, int64_t bytes, int64_t worth_sharing = kWorthSharing,
              std::optional<int64_t> own_bytes = {});
  /// Not collective: what was not closed is left to MPI_Finalize.
  ~SharedBytes();
  SharedBytes(SharedBytes&&) noexcept;
  SharedBytes& operator=(SharedBytes&&) noexcept;

  /// Whether the ranks of a host share them.
  [[nodiscard]] bool is_shared() const { return window_ != nullptr; }
  /// Empty after close().
  [[nodiscard]] std::span<std::byte> bytes() const;

  /// Collective: each of `parts`, the same on all ranks, reaches all of them. Parts do not overlap, and nobody writes
  /// afterwards.
  void spread(std::span<const WrittenBytes> parts);

  /// Collective: gives the memory back.
  void close();

 private:
  struct Window;
  void spread_copies(std::span<const WrittenBytes> parts);

  Communicator* comm_;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> copy_;  ///< where nothing is shared: no memory until it is written
  std::unique_ptr<Window> window_;           ///< where ranks share
  std::span<std::byte> bytes_;
};

}  // namespace ddpm::comm
