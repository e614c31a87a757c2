// Counts the bytes that host tensors hold: LibTorch's own allocator, with every block on the list, whichever thread
// takes it and whichever gives it back. What libraries take without LibTorch (MPI, oneDNN's scratch) is not seen.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <c10/core/Allocator.h>

namespace ddpm::test {

class CountingAllocator final : public c10::Allocator {
 public:
  /// Takes the place of the host's allocator for the rest of the process. Blocks from before are not counted, and go
  /// back where they came from.
  static const CountingAllocator& install() {
    // Never destroyed: tensors in static memory give their blocks back at exit.
    static const CountingAllocator* const the_one = [] {
      auto* counting = new CountingAllocator(c10::GetAllocator(c10::kCPU));
      c10::SetAllocator(c10::kCPU, counting, /*priority=*/255);
      return counting;
    }();
    return *the_one;
  }

  /// Held now.
  [[nodiscard]] int64_t bytes() const { return bytes_; }

  c10::DataPtr allocate(std::size_t size) override {
    c10::DataPtr memory = inner_->allocate(size);
    void* data = memory.get();
    bytes_ += static_cast<int64_t>(size);
    return {data, new Block{*this, std::move(memory), size}, &give_back, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }

 private:
  struct Block {
    CountingAllocator& owner;
    c10::DataPtr memory;
    std::size_t size;
  };

  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  static void give_back(void* context) {
    auto* block = static_cast<Block*>(context);
    block->owner.bytes_ -= static_cast<int64_t>(block->size);
    delete block;
  }

  c10::Allocator* inner_;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace ddpm::test
