#include "support/fake_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "base/check.h"
#include "device/pinned_memory.h"

namespace ddpm::test {
namespace {

constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;
constexpr std::size_t kAlignment = 64;

StreamOrder& order() { return StreamOrder::instance(); }
c10::Device device() { return {kFake, 0}; }

thread_local std::size_t current = 0;
std::atomic<std::size_t> streams = 0;  // given out beside the default one

std::size_t number_of(const c10::Stream& stream) { return static_cast<std::size_t>(stream.id()); }
c10::Stream stream_of(std::size_t number) {
  return c10::Stream(c10::Stream::UNSAFE, device(), static_cast<c10::StreamId>(number));
}
std::size_t new_stream() {
  const std::size_t number = ++streams;
  DDPM_CHECK(number < StreamOrder::kStreams, "{} streams", number + 1);
  return number;
}

struct Event {
  StreamOrder::Mark mark;
  mutable int64_t asked = 0;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kFake; }
  c10::Device exchangeDevice(c10::Device /*to*/) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device /*to*/) const override {}
  void uncheckedSetDevice(c10::Device /*to*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device /*of*/) const override { return stream_of(current); }
  c10::Stream getDefaultStream(c10::Device /*of*/) const override { return stream_of(0); }
  c10::Stream getNewStream(c10::Device /*of*/, int /*priority*/) const override { return stream_of(new_stream()); }
  c10::Stream getStreamFromGlobalPool(c10::Device /*of*/, bool /*urgent*/) const override {
    return stream_of(new_stream());
  }
  c10::Stream exchangeStream(c10::Stream to) const override { return stream_of(std::exchange(current, number_of(to))); }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = {.mark = order().mark(number_of(stream))};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) order().follow(number_of(stream), static_cast<Event*>(event)->mark);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr ||
           order().host_knows(static_cast<Event*>(event)->mark, static_cast<Event*>(event)->asked++);
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) order().host_follows(static_cast<Event*>(event)->mark, "event");
  }
  bool queryStream(const c10::Stream& stream) const override {
    return order().host_knows(order().mark(number_of(stream)), 0);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    order().host_follows(number_of(stream), "stream");
  }
  void synchronizeDevice(const c10::DeviceIndex /*device*/) const override { order().host_follows_all("device"); }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    order().keep(memory.get(), number_of(stream));
  }
};

void* poisoned(std::size_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  DDPM_CHECK(memory != nullptr, "no {} bytes", bytes);
  return std::memset(memory, StreamOrder::kPoison, bytes);
}

class DeviceMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, device()};
    void* memory = poisoned(bytes);
    order().take(memory, bytes, current);
    return {memory, memory, &release, device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void release(void* memory) {
    if (memory == nullptr) return;
    order().give_back(memory);
    std::free(memory);
  }
};

/// Never given back: a copy may still be under way, and there is little of it.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = poisoned(bytes + 1);
    const std::lock_guard lock(mutex_);
    blocks_.emplace_back(static_cast<std::byte*>(memory), bytes + 1);
    taken_ += ddpm::device::pinned_bytes(static_cast<int64_t>(bytes));
    return {memory, memory, &forget, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &forget; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  int64_t taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  bool holds(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(blocks_, [&](const auto& b) { return b.first <= byte && byte < b.first + b.second; });
  }

 private:
  static void forget(void* /*memory*/) {}
  mutable std::mutex mutex_;
  std::vector<std::pair<std::byte*, std::size_t>> blocks_;
  int64_t taken_ = 0;
};

DeviceMemory& device_memory() {
  static auto* memory = new DeviceMemory;
  return *memory;
}
PinnedMemory& pinned_memory() {
  static auto* memory = new PinnedMemory;
  return *memory;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  bool isPinnedPtr(const void* data) const override { return pinned_memory().holds(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
};

/// Before main(): LibTorch counts devices when it first computes gradients.
const bool registered = [] {
  c10::register_privateuse1_backend("fake");
  c10::impl::registerDeviceGuard(kFake, new Guard);
  c10::SetAllocator(kFake, &device_memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

c10::Device fake_device() { return device(); }

std::size_t current_stream() { return current; }

std::size_t make_stream() { return new_stream(); }

int64_t pinned_bytes() { return pinned_memory().taken(); }

void finish() {
  order().host_follows_all("end");
  streams = 0;
}

void FakeGraph::replay() {
  order().begin_recording(current);
  work_();
  order().end_recording();
}

}  // namespace ddpm::test
