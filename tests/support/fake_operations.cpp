// The operations of support/fake_device.h: those of the CPU, on the same memory, told to the order of streams.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include "base/check.h"
#include "support/fake_device.h"

namespace ddpm::test {
namespace {

using Range = StreamOrder::Range;
constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;

StreamOrder& order() { return StreamOrder::instance(); }

bool is_fake(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

/// The bytes between the first element and the last.
Range range_of(const at::Tensor& tensor, bool writes) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) last += (tensor.size(axis) - 1) * tensor.stride(axis);
  return {tensor.const_data_ptr(), static_cast<std::size_t>((last + 1)) * tensor.element_size(), writes};
}

/// The memory of a device's tensor as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& tensor) {
  const at::TensorOptions options(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  at::Tensor host = at::from_blob(const_cast<void*>(tensor.storage().data()), {elements}, options);
  host.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return host;
}

/// A tensor of the device with elements that nobody has written.
at::Tensor empty_on_device(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kFake),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                         std::optional<bool> /*pinned*/) {
  return empty_on_device(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), dtype.value_or(at::kFloat));
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> /*device*/, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), c10::GetAllocator(kFake),
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
    order().work(current_stream(), "copy", ranges);
    target.copy_(seen.expand(to.sizes()));
    return to;
  }
  const at::Tensor& far = is_fake(to) ? to : from;
  const at::Tensor& near = is_fake(to) ? from : to;
  const bool alike = near.scalar_type() == far.scalar_type() && near.sizes() == far.sizes() &&
                     near.is_non_overlapping_and_dense() && near.strides() == far.strides();
  if (!alike) {  // as CUDA does it: a plain copy, and the change of type or layout on the device
    const at::TensorOptions type(near.scalar_type());
    if (is_fake(from) && near.is_non_overlapping_and_dense()) {
      const at::Tensor ordered = at::empty_strided(near.sizes(), near.strides(), type.device(fake_device()));
      copy_from(from, ordered, false);
      return copy_from(ordered, to, non_blocking);
    }
    const at::Tensor middle = at::empty_like(far, type.device(fake_device()));
    const at::Tensor plain = at::empty_strided(middle.sizes(), middle.strides(), type);
    if (is_fake(to)) {
      plain.copy_(near.expand(to.sizes()));
      copy_from(plain, middle, false);
      return copy_from(middle, to, false);
    }
    copy_from(from, middle, false);
    copy_from(middle, plain, false);
    to.copy_(plain);
    return to;
  }
  const std::size_t bytes = far.nbytes();
  void* const host = const_cast<void*>(near.const_data_ptr());
  void* const memory = const_cast<void*>(far.const_data_ptr());
  is_fake(to) ? order().copy_from_host(current_stream(), memory, host, bytes)
              : order().copy_home(current_stream(), host, memory, bytes);
  if (!non_blocking || !at::detail::getPrivateUse1Hooks().isPinnedPtr(host))
    order().host_follows(current_stream(), "copy");
  return to;
}

c10::Scalar local_scalar(const at::Tensor& tensor) {
  const Range range = range_of(tensor, false);
  order().work(current_stream(), "item", std::span(&range, 1));
  order().host_follows(current_stream(), "item");
  return on_host(tensor).item();
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  order().keep(tensor.storage().data(), static_cast<std::size_t>(stream.id()));
}

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
    if (!gives_views()) order().work(current_stream(), schema_.name(), ranges_);
    call();
    const std::size_t results = stack_.size() - schema_.returns().size();
    for (std::size_t i = results; i < stack_.size(); ++i) {
      // All results of our norm but the mean and deviation of groups are of the type of its input.
      const bool half = widened_ && (schema_.returns().size() > kNormResults || i - results < kNormOutputs);
      stack_[i] = result(half ? c10::IValue(narrowed(stack_[i].toTensor())) : stack_[i]);
    }
    if (!made_.empty()) order().work(current_stream(), schema_.name(), made_);
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
    const at::Tensor made = empty_on_device(tensor.sizes(), tensor.strides(), tensor.scalar_type());
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
  // LibTorch composes these of other operations, or leaves them to the device.
  for (const char* name : {"convolution_overrideable", "convolution_backward_overrideable", "native_group_norm",
                           "native_group_norm_backward"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  }
}

}  // namespace
}  // namespace ddpm::test
