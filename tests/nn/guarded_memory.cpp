#include "nn/guarded_memory.h"

#include <cstring>
#include <system_error>

#include <sys/mman.h>

namespace ddpm::nn::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 64;  // what kernels may rely on
constexpr uint8_t kPriority = 255;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void check(bool done) {
  if (!done) throw std::system_error(errno, std::generic_category(), "guarded memory");
}

}  // namespace

std::mutex GuardedMemory::mutex_;
std::unordered_map<void*, GuardedMemory::Mapping> GuardedMemory::mappings_;

GuardedMemory::GuardedMemory() : before_(c10::GetAllocator(c10::kCPU)) {
  c10::SetAllocator(c10::kCPU, this, kPriority);
}

GuardedMemory::~GuardedMemory() { c10::SetAllocator(c10::kCPU, before_, kPriority); }

c10::DataPtr GuardedMemory::allocate(std::size_t bytes) {
  const std::size_t used = round_up(bytes, kAlignment);
  const std::size_t mapped = kPage + round_up(used, kPage) + kPage;
  void* begin = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(begin != MAP_FAILED);
  auto* first = static_cast<std::byte*>(begin);
  std::byte* last = first + mapped - kPage;
  check(mprotect(first, kPage, PROT_NONE) == 0 && mprotect(last, kPage, PROT_NONE) == 0);
  std::byte* data = last - used;
  const std::lock_guard lock(mutex_);
  mappings_[data] = {.begin = first, .bytes = mapped};
  return {data, data, &release, c10::kCPU};
}

void GuardedMemory::copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

void GuardedMemory::release(void* data) {
  if (data == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(data);
  munmap(mapping->second.begin, mapping->second.bytes);
  mappings_.erase(mapping);
}

}  // namespace ddpm::nn::test
