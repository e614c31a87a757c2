// Tensors whose memory ends at a page that nobody may touch: a kernel that writes or reads beyond it ends the program.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include <c10/core/Allocator.h>

namespace ddpm::nn::test {

/// As long as it lives, tensors on the CPU and what oneDNN's kernels ask LibTorch for are made so.
class GuardedMemory final : public c10::Allocator {
 public:
  GuardedMemory();
  ~GuardedMemory() override;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  c10::DataPtr allocate(std::size_t bytes) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

 private:
  struct Mapping {
    std::byte* begin;
    std::size_t bytes;
  };
  static void release(void* data);

  static std::mutex mutex_;
  static std::unordered_map<void*, Mapping> mappings_;  // by what tensors are given
  c10::Allocator* before_;
};

}  // namespace ddpm::nn::test
