// Hands the tensors that autograd saves for backward to a handler, which drops and recomputes them, or counts them.
//
// Python knows this as torch.autograd.graph.saved_tensors_hooks. LibTorch asks the engine of the process for hooks each
// time that an operation saves a tensor; Python's engine has some, the library's own has none. So a process that holds
// this file puts an engine in its place, before main(), that is the library's own in everything else. A user's own
// operations are seen if they keep their tensors by AutogradContext::save_for_backward.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// A saved tensor in the keeping of a handler; destroyed when backward has used it, or with the graph.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;
  virtual ~SavedTensor() = default;
  /// The tensor that was saved, without history. Called in backward, perhaps on another thread.
  [[nodiscard]] virtual at::Tensor restore() = 0;
};

class SavedTensorHandler {
 public:
  SavedTensorHandler() = default;
  SavedTensorHandler(const SavedTensorHandler&) = delete;
  SavedTensorHandler& operator=(const SavedTensorHandler&) = delete;
  virtual ~SavedTensorHandler() = default;

  /// An operation saves `tensor`, parameters included. Who keeps it keeps tensor.detach(), since it may be a result
  /// whose history holds what is returned here.
  [[nodiscard]] virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
  /// An inner handler begins to release what operations save, and will run them again for it.
  virtual void recomputes() {}
  /// An inner handler has released a tensor that an operation saved.
  virtual void dropped(const at::Tensor& /*tensor*/) {}
};

/// While it lives, `handler` has the tensors that operations of this thread save. Scopes nest: the innermost counts.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorHandler& handler);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

  /// The handler of this thread's innermost scope, or null.
  [[nodiscard]] static SavedTensorHandler* current();

 private:
  SavedTensorHandler* outer_;
};

}  // namespace ddpm::nn
