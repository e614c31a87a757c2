// Counts the bytes that host tensors hold: LibTorch's own allocator, with every block on a list, whichever thread takes
// it and whichever gives it back. What libraries take without LibTorch (MPI, oneDNN's scratch) is not seen.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <c10/core/Allocator.h>

namespace ddpm::test {

class CountingAllocator final : public c10::Allocator {
 public:
  /// Takes the place of the host's allocator for the rest of the process. Blocks from before are not counted, and go
  /// back where they came from.
  static CountingAllocator& install() {
    // Never destroyed: tensors in static memory give their blocks back at exit.
    static CountingAllocator* const the_one = [] {
      auto* counting = new CountingAllocator(c10::GetAllocator(c10::kCPU));
      c10::SetAllocator(c10::kCPU, counting, /*priority=*/255);
      return counting;
    }();
    return *the_one;
  }

  /// Bytes that are held now.
  [[nodiscard]] int64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

  c10::DataPtr allocate(std::size_t size) override {
    void* data = inner_->raw_allocate(size);
    if (data != nullptr) {
      const std::lock_guard lock(mutex_);
      sizes_[data] = static_cast<int64_t>(size);
      bytes_ += static_cast<int64_t>(size);
    }
    return {data, data, &give_back, c10::Device(c10::kCPU)};
  }
  /// Callers that hold plain pointers give them back with this.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }

 private:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  static void give_back(void* data) {
    if (data == nullptr) return;
    CountingAllocator& counting = install();
    {
      const std::lock_guard lock(counting.mutex_);
      const auto found = counting.sizes_.find(data);
      counting.bytes_ -= found->second;
      counting.sizes_.erase(found);
    }
    counting.inner_->raw_deallocate(data);
  }

  c10::Allocator* inner_;
  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t bytes_ = 0;
};

}  // namespace ddpm::test
