#include "nn/recompute.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/check.h"
#include "nn/saved_tensors.h"

namespace ddpm::nn {
namespace {

using torch::autograd::SavedVariable;

/// Ends a second run: backward has all that it needs.
struct Complete {};

/// Takes, in the second run, the first `wanted` tensors that are saved.
class Capture final : public SavedTensorHandler {
 public:
  Capture(std::vector<at::Tensor>& tensors, std::size_t wanted) : tensors_(tensors), wanted_(wanted) {}

  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override {
    tensors_.push_back(tensor.detach());
    if (tensors_.size() == wanted_) throw Complete();
    return nullptr;  // nothing goes backward through the second run
  }

 private:
  std::vector<at::Tensor>& tensors_;
  std::size_t wanted_;
};

/// The state that a body starts from, kept by autograd's means, so that an enclosing scope sees it.
class KeptState {
 public:
  explicit KeptState(const State& state) : x_(keep(state.x)), temb_(keep(state.temb)) {
    timesteps_ = keep(state.timesteps);
    class_labels_ = keep(state.given.class_labels);
    parameters_ = keep(state.given.parameters);
    parameters_kept_ = keep(state.given.parameters_kept);
    embedding_ = keep(state.embedding);
    picture_ = keep(state.picture);
    // Each skip is the input of the unit after the one that made it, which keeps it for longer than this one does.
    for (const at::Tensor& skip : state.skips) skips_.push_back(keep(skip));
  }

  /// Returns the kept values without history. They require gradients where the original values did.
  [[nodiscard]] State restore() const {
    State state{.x = leaf(x_), .temb = leaf(temb_)};
    state.timesteps = leaf(timesteps_);
    state.given = {leaf(class_labels_), leaf(parameters_), leaf(parameters_kept_)};
    state.embedding = leaf(embedding_);
    state.picture = leaf(picture_);
    for (const SavedVariable& skip : skips_) state.skips.push_back(leaf(skip));
    return state;
  }

 private:
  static SavedVariable keep(const at::Tensor& tensor) { return {tensor, /*is_output=*/false}; }

  static at::Tensor leaf(const SavedVariable& kept) {
    const at::Tensor tensor = kept.unpack();
    return tensor.defined() ? tensor.detach().set_requires_grad(tensor.requires_grad()) : tensor;
  }

  SavedVariable x_;
  SavedVariable temb_;
  SavedVariable timesteps_;
  SavedVariable class_labels_;
  SavedVariable parameters_;
  SavedVariable parameters_kept_;
  SavedVariable embedding_;
  SavedVariable picture_;
  std::vector<SavedVariable> skips_;
};

/// Stands in for what the body saves. The graph owns it, by way of those tensors.
class Recomputation final : public SavedTensorHandler, public std::enable_shared_from_this<Recomputation> {
 public:
  Recomputation(const State& state, std::function<State(State)> body)
      : kept_(std::make_unique<KeptState>(state)), body_(std::move(body)), outer_(SavedTensorScope::current()) {}

  [[nodiscard]] State run_first(State state) {
    const SavedTensorScope scope(*this);
    return body_(std::move(state));
  }

  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override {
    if (outer_ != nullptr) outer_->dropped(tensor);
    return std::make_unique<Dropped>(shared_from_this(), count_++);
  }

 private:
  class Dropped final : public SavedTensor {
   public:
    Dropped(std::shared_ptr<Recomputation> from, std::size_t index) : from_(std::move(from)), index_(index) {}
    Dropped(const Dropped&) = delete;
    Dropped& operator=(const Dropped&) = delete;
    ~Dropped() override { from_->release(index_); }
    at::Tensor restore() override { return from_->tensor(index_); }

   private:
    std::shared_ptr<Recomputation> from_;
    std::size_t index_;
  };

  const at::Tensor& tensor(std::size_t index) {
    if (kept_) run_again();
    return tensors_[index];
  }

  void release(std::size_t index) {
    if (index < tensors_.size()) tensors_[index].reset();
  }

  void run_again() {
    State state = kept_->restore();
    kept_.reset();
    Capture capture(tensors_, count_);
    const at::AutoGradMode with_gradients(true);
    const SavedTensorScope scope(capture);
    try {
      body_(std::move(state));
    } catch (const Complete&) {
      return;
    }
    DDPM_CHECK(false, "recomputing saved {} tensors, the forward pass {}", tensors_.size(), count_);
  }

  std::unique_ptr<KeptState> kept_;  // until the body has run again
  std::function<State(State)> body_;
  SavedTensorHandler* outer_;  // there while the body runs first
  std::size_t count_ = 0;
  std::vector<at::Tensor> tensors_;
};

}  // namespace

State recompute_in_backward(State state, std::function<State(State)> body) {
  if (!at::GradMode::is_enabled()) return body(std::move(state));
  const auto recomputation = std::make_shared<Recomputation>(state, std::move(body));
  return recomputation->run_first(std::move(state));
}

}  // namespace ddpm::nn
