// Recomputing in backward: what is kept, when the body runs again, and that gradients are the same.
#include "nn/recompute.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/saved_tensors.h"

namespace ddpm::nn::test {
namespace {

using testing::ElementsAre;

/// x -> w * silu(w * x), counting how far its runs come.
struct Body {
  at::Tensor w;
  int* begun;
  int* ended;

  UnitState operator()(UnitState state) const {
    ++*begun;
    state.x = w * at::silu(w * state.x);
    ++*ended;
    return state;
  }
};

class Recompute : public testing::Test {
 protected:
  [[nodiscard]] at::Tensor recomputed() const { return recompute_in_backward({.x = x_}, body_).x; }
  [[nodiscard]] at::Tensor kept() const { return body_({.x = x_}).x; }

  int begun_ = 0;
  int ended_ = 0;
  at::Tensor x_ = at::linspace(-3, 3, 100).set_requires_grad(true);
  Body body_{at::linspace(1, 2, 100).set_requires_grad(true), &begun_, &ended_};
};

/// Writes down the number of elements of what is saved and dropped; keeps it.
class Witness : public SavedTensorHandler {
 public:
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override {
    saved.push_back(tensor.numel());
    return std::make_unique<Kept>(tensor.detach());
  }
  void dropped(const at::Tensor& tensor) override { lost.push_back(tensor.numel()); }

  std::vector<int64_t> saved;
  std::vector<int64_t> lost;

 private:
  struct Kept : SavedTensor {
    explicit Kept(at::Tensor t) : tensor(std::move(t)) {}
    at::Tensor restore() override { return tensor; }
    at::Tensor tensor;
  };
};

TEST_F(Recompute, GivesTheSameGradients) {
  const auto gradients = [&](const at::Tensor& y) {
    x_.mutable_grad().reset();
    body_.w.mutable_grad().reset();
    y.square().sum().backward();
    return std::pair(x_.grad(), body_.w.grad());
  };
  const auto wanted = gradients(kept());
  const auto seen = gradients(recomputed());
  EXPECT_TRUE(at::equal(seen.first, wanted.first));
  EXPECT_TRUE(at::equal(seen.second, wanted.second));
}

TEST_F(Recompute, RunsTheBodyOnceMoreAndOnlyAsFarAsNeeded) {
  const at::Tensor y = recomputed();
  EXPECT_EQ(begun_, 1);
  y.sum().backward();
  EXPECT_EQ(begun_, 2);
  EXPECT_EQ(ended_, 1);
}

TEST_F(Recompute, IsThePlainBodyWithoutGradients) {
  const at::NoGradGuard no_grad;
  Witness witness;
  const SavedTensorScope scope(witness);
  EXPECT_TRUE(at::equal(recomputed(), kept()));
  EXPECT_TRUE(witness.saved.empty());
}

TEST_F(Recompute, KeepsItsInputsOnly) {
  Witness witness;
  {
    const SavedTensorScope scope(witness);
    const at::Tensor y = recompute_in_backward({.x = x_, .skips = {at::ones({7})}}, body_).x;
    EXPECT_EQ(SavedTensorScope::current(), &witness);
  }
  EXPECT_EQ(SavedTensorScope::current(), nullptr);
  EXPECT_THAT(witness.saved, ElementsAre(100, 7));
  EXPECT_THAT(witness.lost, ElementsAre(100, 100, 100, 100, 100));
}

TEST_F(Recompute, HandlersMaySeeWhatIsSavedAndChangeNothing) {
  Witness witness;
  at::Tensor y;
  {
    const SavedTensorScope scope(witness);
    y = kept();
  }
  EXPECT_EQ(witness.saved.size(), 5U);
  y.sum().backward();
  EXPECT_TRUE(x_.grad().defined());
}

TEST_F(Recompute, LetsGoOfEverythingWithTheGraph) {
  c10::weak_intrusive_ptr<c10::StorageImpl> inner(c10::intrusive_ptr<c10::StorageImpl>{});
  at::Tensor y = recompute_in_backward({.x = x_}, [&](UnitState state) {
                   const at::Tensor middle = body_.w * state.x;
                   inner = c10::weak_intrusive_ptr<c10::StorageImpl>(middle.storage().getWeakStorageImpl());
                   state.x = middle * middle;
                   return state;
                 }).x;
  EXPECT_TRUE(inner.expired()) << "the forward pass keeps an activation";
  y.sum().backward();
  EXPECT_TRUE(inner.expired()) << "backward keeps what it computed again";
}

TEST_F(Recompute, ServesASecondBackwardOfAKeptGraph) {
  const at::Tensor y = recomputed().sum();
  y.backward({}, /*retain_graph=*/true);
  const at::Tensor once = x_.grad().clone();
  y.backward();
  EXPECT_TRUE(at::equal(x_.grad(), once + once));
  EXPECT_EQ(begun_, 2);
}

TEST_F(Recompute, RefusesABodyThatChanges) {
  const at::Tensor y = recompute_in_backward({.x = x_}, [&](UnitState state) {
                         if (begun_++ == 0) state.x = at::silu(state.x);
                         state.x = at::silu(state.x);
                         return state;
                       }).x;
  EXPECT_THROW(y.sum().backward(), base::InternalError);
}

TEST_F(Recompute, TensorsInAndOutMayBeAnyNumberAndUndefined) {
  const TensorsBody body = [this](const std::vector<at::Tensor>& in) {
    EXPECT_FALSE(in[1].defined());
    return std::vector<at::Tensor>{body_({.x = in[0]}).x, in[0] * in[2]};
  };
  const std::vector<at::Tensor> inputs = {x_, at::Tensor(), at::linspace(0, 1, 100)};
  const auto gradients_of = [&](const std::vector<at::Tensor>& out) {
    (out[0].sum() + out[1].square().sum()).backward();
    const at::Tensor gradients = at::stack({x_.grad(), body_.w.grad()});
    x_.mutable_grad().reset();
    body_.w.mutable_grad().reset();
    return gradients;
  };
  const at::Tensor wanted = gradients_of(body(inputs));
  EXPECT_TRUE(at::equal(gradients_of(recompute_in_backward(inputs, body)), wanted));
  EXPECT_EQ(begun_, 3) << "once without recomputing, and twice with it";
}

}  // namespace
}  // namespace ddpm::nn::test
