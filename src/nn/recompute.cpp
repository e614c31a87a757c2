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

/// The tensors that a body starts from, kept by autograd's means, so that an enclosing scope sees it.
class KeptTensors {
 public:
  explicit KeptTensors(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) kept_.emplace_back(tensor, /*is_output=*/false);
  }

  /// Returns the kept values without history. They require gradients where the original values did.
  [[nodiscard]] std::vector<at::Tensor> restore() const {
    std::vector<at::Tensor> leaves;
    for (const SavedVariable& kept : kept_) {
      const at::Tensor tensor = kept.unpack();
      leaves.push_back(tensor.defined() ? tensor.detach().set_requires_grad(tensor.requires_grad()) : tensor);
    }
    return leaves;
  }

 private:
  std::vector<SavedVariable> kept_;
};

/// The tensors of a state, of which there are kWithoutSkips before the skips. Each skip is the input of the unit after
/// the one that made it, which keeps it for longer than this one does.
constexpr std::size_t kWithoutSkips = 8;

std::vector<at::Tensor> tensors_of(const UnitState& state) {
  std::vector<at::Tensor> tensors = {state.x,
                                     state.temb,
                                     state.timesteps,
                                     state.given.class_labels,
                                     state.given.parameters,
                                     state.given.parameters_kept,
                                     state.embedding,
                                     state.picture};
  tensors.insert(tensors.end(), state.skips.begin(), state.skips.end());
  return tensors;
}

UnitState state_of(const std::vector<at::Tensor>& tensors) {
  UnitState state{.x = tensors[0], .temb = tensors[1]};
  state.timesteps = tensors[2];
  state.given = {tensors[3], tensors[4], tensors[5]};
  state.embedding = tensors[6];
  state.picture = tensors[7];
  state.skips.assign(tensors.begin() + kWithoutSkips, tensors.end());
  return state;
}

/// Stands in for what the body saves. The graph owns it, by way of those tensors.
class Recomputation final : public SavedTensorHandler, public std::enable_shared_from_this<Recomputation> {
 public:
  /// `again` is the second run, of which nothing but what it saves is of use.
  using Again = std::function<void(const std::vector<at::Tensor>&)>;
  Recomputation(const std::vector<at::Tensor>& inputs, Again again)
      : kept_(std::make_unique<KeptTensors>(inputs)), again_(std::move(again)), outer_(SavedTensorScope::current()) {}

  template <typename Run>
  [[nodiscard]] auto run_first(const Run& run) {
    if (outer_ != nullptr) outer_->recomputes();
    const SavedTensorScope scope(*this);
    return run();
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
    const std::vector<at::Tensor> inputs = kept_->restore();
    kept_.reset();
    Capture capture(tensors_, count_);
    const at::AutoGradMode with_gradients(true);
    const SavedTensorScope scope(capture);
    try {
      again_(inputs);
    } catch (const Complete&) {
      return;
    }
    DDPM_CHECK(false, "recomputing saved {} tensors, the forward pass {}", tensors_.size(), count_);
  }

  std::unique_ptr<KeptTensors> kept_;  // until the body has run again
  Again again_;
  SavedTensorHandler* outer_;  // there while the body runs first
  std::size_t count_ = 0;
  std::vector<at::Tensor> tensors_;
};

}  // namespace

UnitState recompute_in_backward(UnitState state, const std::function<UnitState(UnitState)>& body) {
  if (!at::GradMode::is_enabled()) return body(std::move(state));
  const auto recomputation = std::make_shared<Recomputation>(
      tensors_of(state), [body](const std::vector<at::Tensor>& inputs) { (void)body(state_of(inputs)); });
  return recomputation->run_first([&] { return body(std::move(state)); });
}

std::vector<at::Tensor> recompute_in_backward(const std::vector<at::Tensor>& inputs, const TensorsBody& body) {
  if (!at::GradMode::is_enabled()) return body(inputs);
  const auto recomputation =
      std::make_shared<Recomputation>(inputs, [body](const std::vector<at::Tensor>& kept) { (void)body(kept); });
  return recomputation->run_first([&] { return body(inputs); });
}

}  // namespace ddpm::nn
