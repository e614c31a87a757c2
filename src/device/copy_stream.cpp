#include "device/copy_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddpm::device {
namespace {

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

/// Makes `later` wait for what `earlier` was given so far.
void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

void CopyStream::Mark::wait() {
  if (event_) event_->synchronize();
}

void CopyStream::Mark::before_caller() {
  if (event_) event_->block(current_stream(event_->device()));
}

CopyStream::CopyStream(at::Device device) {
  if (!device.is_cpu()) {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false);
  }
}

void CopyStream::after_caller() {
  if (stream_) order(current_stream(stream_->device()), *stream_);
}

void CopyStream::after(const Mark& mark) {
  if (stream_ && mark.event_) mark.event_->block(*stream_);
}

void CopyStream::before_caller() {
  if (stream_) order(*stream_, current_stream(stream_->device()));
}

void CopyStream::copy(const at::Tensor& to, const at::Tensor& from) {
  c10::OptionalStreamGuard guard;
  enter(guard);
  to.copy_(from, /*non_blocking=*/true);
}

CopyStream::Mark CopyStream::mark() {
  Mark mark;
  if (stream_) mark.event_.emplace(stream_->device_type()).record(*stream_);
  return mark;
}

CopyStream::Mark CopyStream::mark_caller() {
  Mark mark;
  if (stream_) mark.event_.emplace(stream_->device_type()).record(current_stream(stream_->device()));
  return mark;
}

void CopyStream::keep(const at::Tensor& tensor) {
  if (stream_) tensor.record_stream(*stream_);
}

void CopyStream::enter(c10::OptionalStreamGuard& guard) const {
  if (stream_) guard.reset_stream(*stream_);
}

}  // namespace ddpm::device
