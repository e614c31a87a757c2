// Copies between host and device memory that run beside computation. On host memory alone, copies are done at once and
// there is nothing to wait for.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace ddpm::device {

/// Its copies run one after the other. "The caller's stream" is the device's current stream of the calling thread.
class CopyStream {
 public:
  /// A point between copies, or in the caller's stream.
  class Mark {
   public:
    /// Blocks the calling thread until what is before the mark is done. A mark that was never set blocks nothing.
    void wait();
    /// What the caller's stream is given later begins when what is before the mark is done.
    void before_caller();

   private:
    friend CopyStream;
    std::optional<c10::Event> event_;
  };

  explicit CopyStream(at::Device device);

  /// Later copies begin when what the caller's stream was given so far is done.
  void after_caller();
  /// Later copies begin when what is before the mark is done.
  void after(const Mark& mark);
  /// What the caller's stream is given later begins when the copies so far are done.
  void before_caller();

  /// Copies values; host memory should be pinned, and stay as it is until a mark after the copy was waited for.
  void copy(const at::Tensor& to, const at::Tensor& from);
  [[nodiscard]] Mark mark();
  /// Marks what the caller's stream was given so far.
  [[nodiscard]] Mark mark_caller();
  /// Once freed, the memory of a tensor on the device is not used again before copies so far are done.
  void keep(const at::Tensor& tensor);

  /// Makes this the caller's stream for as long as `guard` lives.
  void enter(c10::OptionalStreamGuard& guard) const;

 private:
  std::optional<c10::Stream> stream_;  // none on host memory
};

}  // namespace ddpm::device
