#include "support/fake_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::test {
namespace {

using Range = StreamOrder::Range;
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
    return {memory, memory, &forget, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &forget; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool holds(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(blocks_, [&](const auto& b) { return b.first <= byte && byte < b.first + b.second; });
  }

 private:
  static void forget(void* /*memory*/) {}
  mutable std::mutex mutex_;
  std::vector<std::pair<std::byte*, std::size_t>> blocks_;
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

bool is_fake(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

/// The bytes between the first element and the last.
Range range_of(const at::Tensor& tensor, bool writes) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) last += (tensor.size(axis) - 1) * tensor.stride(axis);
  return {tensor.const_data_ptr(), static_cast<std::size_t>((last + 1)) * tensor.element_size(), writes};
}

/// The same memory as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& tensor) {
  const at::TensorOptions options(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  at::Tensor host = at::from_blob(const_cast<void*>(tensor.storage().data()), {elements}, options);
  host.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return host;
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                         std::optional<bool> /*pinned*/) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           &device_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> /*device*/, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_memory(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype.value_or(at::kFloat),
                                   format);
}

/// A tensor of the device with the memory of `storage`.
at::Tensor view_of(const at::Tensor& whole, const at::Tensor& seen) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(whole.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), seen.dtype());
  const auto distance =
      static_cast<const std::byte*>(seen.const_data_ptr()) - static_cast<const std::byte*>(whole.storage().data());
  view.unsafeGetTensorImpl()->set_storage_offset(
      seen.numel() == 0 ? 0 : distance / static_cast<int64_t>(seen.element_size()));
  view.unsafeGetTensorImpl()->set_sizes_and_strides(seen.sizes(), seen.strides());
  return view;
}

/// Copies in either direction and on the device; between types and layouts by way of a plain copy.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  if (is_fake(from) && is_fake(to)) {
    const at::Tensor seen = on_host(from);
    const at::Tensor target = on_host(to);
    const std::array ranges{range_of(from, false), range_of(to, true)};
    order().work(current, "copy", ranges);
    target.copy_(seen.expand(to.sizes()));
    return to;
  }
  const at::Tensor& far = is_fake(to) ? to : from;
  const at::Tensor& near = is_fake(to) ? from : to;
  const bool alike = near.scalar_type() == far.scalar_type() && near.sizes() == far.sizes() &&
                     near.is_non_overlapping_and_dense() && near.strides() == far.strides();
  if (!alike) {  // as CUDA does it: a plain copy, and the change of type or layout on the device
    const at::Tensor middle = at::empty_like(far, at::TensorOptions(near.scalar_type()).device(device()));
    if (is_fake(to)) {
      at::Tensor plain = at::empty_strided(middle.sizes(), middle.strides(), at::TensorOptions(near.scalar_type()));
      plain.copy_(near.expand(to.sizes()));
      copy_from(plain, middle, false);
      return copy_from(middle, to, false);
    }
    copy_from(from, middle, false);
    at::Tensor plain = at::empty_strided(middle.sizes(), middle.strides(), at::TensorOptions(near.scalar_type()));
    copy_from(middle, plain, false);
    to.copy_(plain);
    return to;
  }
  const std::size_t bytes = far.nbytes();
  void* const host = const_cast<void*>(near.const_data_ptr());
  void* const memory = const_cast<void*>(far.const_data_ptr());
  is_fake(to) ? order().copy_from_host(current, memory, host, bytes) : order().copy_home(current, host, memory, bytes);
  if (!non_blocking || !pinned_memory().holds(host)) order().host_follows(current, "copy");
  return to;
}

at::Tensor& set_source(at::Tensor& self, c10::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                       c10::SymIntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_storage_offset(offset.expect_int());
  self.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
  return self;
}

c10::Scalar local_scalar(const at::Tensor& tensor) {
  const Range range = range_of(tensor, false);
  order().work(current, "item", std::span(&range, 1));
  order().host_follows(current, "item");
  return on_host(tensor).item();
}

void record_stream(at::Tensor& tensor, c10::Stream stream) { order().keep(tensor.storage().data(), number_of(stream)); }

/// One call of an operation on the CPU, in place of the device.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& operation, torch::jit::Stack& stack)
      : operation_(operation), schema_(operation.schema()), stack_(stack) {}

  void run() {
    const at::AutoDispatchBelowADInplaceOrView below;
    const std::size_t first = stack_.size() - schema_.arguments().size();
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      const auto* alias = schema_.arguments()[i].alias_info();
      stack_[first + i] = argument(stack_[first + i], alias != nullptr && alias->isWrite());
    }
    if (!gives_views()) order().work(current, schema_.name(), ranges_);
    call();
    const std::size_t results = stack_.size() - schema_.returns().size();
    for (std::size_t i = results; i < stack_.size(); ++i) {
      // All results of our norm but the mean and deviation of groups are of the type of its input.
      const bool half = widened_ && (schema_.returns().size() > kNormResults || i - results < kNormOutputs);
      stack_[i] = result(half ? c10::IValue(narrowed(stack_[i].toTensor())) : stack_[i]);
    }
    if (!made_.empty()) order().work(current, schema_.name(), made_);
  }

 private:
  /// Whether it only looks at memory in another way, and touches none.
  bool gives_views() const {
    return std::ranges::any_of(schema_.returns(), [](const c10::Argument& result) {
      return result.alias_info() != nullptr && !result.alias_info()->isWrite();
    });
  }

  c10::IValue argument(const c10::IValue& value, bool writes) {
    if (value.isTensor()) return taken(value.toTensor(), writes);
    if (value.isDevice()) return c10::Device(c10::kCPU);
    if (value.isTensorList()) {
      c10::List<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(taken(tensor, writes));
      return tensors;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        tensors.push_back(tensor ? std::optional(taken(*tensor, writes)) : std::nullopt);
      }
      return tensors;
    }
    return value;
  }

  at::Tensor taken(const at::Tensor& tensor, bool writes) {
    if (!is_fake(tensor)) return tensor;
    at::Tensor host = on_host(tensor);
    if (is_norm_ && host.scalar_type() == at::kHalf) {  // which our kernels for CPUs do not know
      host = host.to(at::kFloat);
      widened_ = true;
    }
    if (tensor.numel() > 0) ranges_.push_back(range_of(tensor, writes));
    origins_.emplace_back(tensor, host);
    return host;
  }

  /// Where LibTorch leaves an operation to such devices, the CPU's stands for it.
  void call() {
    const std::string& name = schema_.name();
    if (name == "aten::convolution_overrideable") return call_other("aten::convolution");
    if (name == "aten::convolution_backward_overrideable") {
      const at::Tensor gradient = stack_[stack_.size() - 10].toTensor();
      stack_.insert(stack_.end() - 7, c10::IValue(std::vector<int64_t>{gradient.size(1)}));
      return call_other("aten::convolution_backward");
    }
    if (name == "aten::_fused_sdp_choice") {
      torch::jit::drop(stack_, schema_.arguments().size());
      return torch::jit::push(stack_, int64_t{0});  // by plain operations
    }
    operation_.callBoxed(&stack_);
  }
  void call_other(const char* name) { c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack_); }

  c10::IValue result(const c10::IValue& value) {
    if (value.isTensor()) return given(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(given(tensor));
    return tensors;
  }

  at::Tensor given(const at::Tensor& tensor) {
    if (!tensor.defined() || is_fake(tensor)) return tensor;
    for (const auto& [fake, host] : origins_) {
      if (host.is_same(tensor)) {
        if (fake.sizes() != tensor.sizes()) resize(fake, tensor);
        return fake;
      }
      const auto* seen = static_cast<const std::byte*>(tensor.const_data_ptr());
      const auto* begin = static_cast<const std::byte*>(fake.storage().data());
      if (seen != nullptr && begin <= seen && seen < begin + fake.storage().nbytes()) return view_of(fake, tensor);
    }
    return copied(tensor);
  }

  at::Tensor copied(const at::Tensor& tensor) {
    const at::Tensor made =
        at::detail::empty_strided_generic(tensor.sizes(), tensor.strides(), &device_memory(),
                                          c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), tensor.scalar_type());
    if (made.numel() > 0) {
      on_host(made).copy_(tensor);
      made_.push_back(range_of(made, true));
    }
    return made;
  }

  /// A result that was handed in without elements, to be given its size.
  void resize(const at::Tensor& fake, const at::Tensor& tensor) {
    DDPM_CHECK(fake.numel() == 0, "{} changes the size of a result", schema_.name());
    const at::Tensor made = copied(tensor);
    fake.unsafeGetTensorImpl()->set_storage_keep_dtype(made.storage());
    fake.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides());
  }

  static at::Tensor narrowed(const at::Tensor& tensor) { return tensor.defined() ? tensor.to(at::kHalf) : tensor; }

  static constexpr std::size_t kNormResults = 4;  // of forward: the output, the sum, mean and deviation
  static constexpr std::size_t kNormOutputs = 2;
  const c10::OperatorHandle& operation_;
  const c10::FunctionSchema& schema_;
  const bool is_norm_ = schema_.name().starts_with("ddpm::group_norm_silu");
  bool widened_ = false;
  torch::jit::Stack& stack_;
  std::vector<Range> ranges_;
  std::vector<Range> made_;
  std::vector<std::pair<at::Tensor, at::Tensor>> origins_;
};

void on_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) { HostCall(operation, *stack).run(); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record_stream);
  m.impl("set_.source_Storage_storage_offset", set_source);
  // LibTorch composes these of other operations, or leaves them to the device.
  for (const char* name : {"convolution_overrideable", "convolution_backward_overrideable", "native_group_norm",
                           "native_group_norm_backward"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  }
}

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
