#include "parallel/activation_count.h"

#include <algorithm>
#include <memory>
#include <span>
#include <unordered_set>
#include <utility>

#include "nn/ops/volume_products.h"
#include "nn/saved_tensors.h"

namespace ddpm::parallel {
namespace {

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.storage().nbytes()); }

/// See UnitActivations::float_copies. `x`: images where the unit's resolution is highest.
int64_t float_copies(const nn::Unit& unit, const at::Tensor& x, const nn::Partition& partition) {
  int64_t most = 0;
  for (const nn::Parameter* p : unit.parameters()) {
    most = std::max(most, nn::volume_copy_bytes(p->value, x.numel() / x.size(1), partition.depth(x)));
  }
  return most;
}

/// The formula, with what `on_the_way` says of a unit.
template <typename OnTheWay>
int64_t peak_of(std::span<const UnitActivations> units, layout::Range some, int64_t passes, OnTheWay on_the_way) {
  int64_t saved = 0;
  int64_t highest = 0;
  for (int64_t u = some.begin; u < some.end; ++u) {
    const UnitActivations& unit = units[static_cast<std::size_t>(u)];
    saved += unit.saved;
    highest = std::max(highest, saved + unit.recomputed + unit.skips + on_the_way(unit));
  }
  return (passes - 1) * saved + highest;
}

/// A tensor that is only kept.
class Kept final : public nn::SavedTensor {
 public:
  explicit Kept(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  at::Tensor restore() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

/// Enters every saved tensor into the account of the unit that runs.
class Counter final : public nn::SavedTensorHandler {
 public:
  explicit Counter(const nn::UNet2D& unet) {
    for (const nn::Parameter* p : unet.parameters()) saved_.insert(storage_of(p->value));
  }

  void begin(UnitActivations& unit) { unit_ = &unit; }

  /// The unit that was begun has ended: what it dropped is gone.
  void end() {
    dropped_.clear();
    alive_.clear();
  }

  std::unique_ptr<nn::SavedTensor> save(const at::Tensor& tensor) override {
    if (saved_.insert(storage_of(tensor)).second) unit_->saved += bytes_of(tensor);
    return std::make_unique<Kept>(tensor.detach());
  }

  void dropped(const at::Tensor& tensor) override {
    alive_.push_back(tensor.detach());  // an address stands for one storage only while that lives
    if (!saved_.contains(storage_of(tensor)) && dropped_.insert(storage_of(tensor)).second) {
      unit_->recomputed += bytes_of(tensor);
    }
  }

 private:
  static const void* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

  UnitActivations* unit_ = nullptr;
  std::unordered_set<const void*> saved_;
  std::unordered_set<const void*> dropped_;
  std::vector<at::Tensor> alive_;
};

/// Tells the counter which unit runs.
class CountingExecutor final : public nn::UnitExecutor {
 public:
  CountingExecutor(std::vector<UnitActivations>& units, Counter& counter, nn::UnitExecutor& inner)
      : UnitExecutor(&inner), units_(units), counter_(counter) {}

  nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                    const nn::ForwardContext& context) override {
    UnitActivations& account = units_[index];
    account.name = unit.name();
    account.activation = bytes_of(state.x);
    const std::size_t skips_before = state.skips.size();
    const at::Tensor before = state.x;
    counter_.begin(account);
    state = run_inner(unit, index, std::move(state), context);
    counter_.end();
    account.activation = std::max(account.activation, bytes_of(state.x));
    const bool shrinks = before.size(2) > state.x.size(2);
    account.float_copies = float_copies(unit, shrinks ? before : state.x, context.partition);
    for (std::size_t i = 0; i < std::min(skips_before, state.skips.size()); ++i) {
      account.skips += bytes_of(state.skips[i]);
    }
    return state;
  }

 private:
  std::vector<UnitActivations>& units_;
  Counter& counter_;
};

}  // namespace

int64_t ActivationCount::saved() const {
  int64_t sum = 0;
  for (const UnitActivations& unit : units) sum += unit.saved;
  return sum;
}

int64_t ActivationCount::peak(layout::Range some, int64_t passes) const {
  return peak_of(units, some, passes, [](const UnitActivations& unit) { return 2 * unit.activation; });
}

int64_t ActivationCount::peak_on_cpus(layout::Range some, int64_t passes) const {
  return peak_of(units, some, passes, [](const UnitActivations& unit) {
    return unit.activation + std::max(unit.activation, unit.float_copies);
  });
}

ActivationCount count_activations(const nn::UNet2D& unet, const ActivationBatch& batch, ActivationCheckpointing kept) {
  ActivationCount count{.units = std::vector<UnitActivations>(unet.units().size())};
  Counter counter(unet);
  ActivationCheckpointer checkpointer(kept);
  CountingExecutor executor(count.units, counter, checkpointer);
  const nn::SavedTensorScope scope(counter);
  // Held until the end: an address stands for one storage only while that lives.
  const at::Tensor y = forward_on_meta(unet, batch, executor);
  return count;
}

ActivationCount count_activations(const nn::UNet2DConfig& model, at::ScalarType compute_dtype,
                                  const ActivationBatch& batch, ActivationCheckpointing kept) {
  nn::UNet2D unet(model);
  bind_on_meta(unet, compute_dtype);
  return count_activations(unet, batch, kept);
}

}  // namespace ddpm::parallel
