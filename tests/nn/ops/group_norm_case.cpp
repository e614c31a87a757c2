#include "nn/ops/group_norm_case.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace ddpm::nn::test {
namespace {

bool has_shift_before(const NormCase& c) { return c.modulated == Modulated::before || c.modulated == Modulated::both; }
bool has_scale(const NormCase& c) { return c.modulated == Modulated::scale_shift || c.modulated == Modulated::both; }

at::Tensor over_pixels(const at::Tensor& x) { return x.unsqueeze(-1).unsqueeze(-1); }

NormalisedSum by_aten(const NormCase& c, const std::vector<at::Tensor>& t) {
  const Modulation m = modulation_of(c, t);
  const at::Tensor x = c.connection == Connection::sum ? t[0] + t.back() : t[0];
  const at::Tensor shifted = m.shift_before.defined() ? x + over_pixels(m.shift_before) : x;
  at::Tensor y = at::group_norm(shifted, c.groups, t[1], t[2], 1e-5, false);
  if (m.scale.defined()) y = y * (1 + over_pixels(m.scale)) + over_pixels(m.shift_after);
  return {.y = activate(y, c.activation), .x = x};
}

template <typename Operation>
std::vector<at::Tensor> run(const Operation& operation, const NormCase& c, const NormInputs& in) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& t : in.tensors) leaves.push_back(t.detach().requires_grad_());
  const auto [y, x] = operation(c, leaves);
  if (c.connection == Connection::none) {
    y.backward(in.dy);
  } else {
    torch::autograd::backward({y, x}, {in.dy, in.residual_gradient});
  }
  std::vector<at::Tensor> results = {y.detach()};
  for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
  if (c.connection == Connection::sum) results.push_back(x.detach());
  return results;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const NormCase& c) {
  return out << c.images << " x " << c.channels << " channels in " << c.groups << " groups x " << c.height << " x "
             << c.width << ", modulation " << static_cast<int>(c.modulated) << ", activation "
             << static_cast<int>(c.activation) << ", connection " << static_cast<int>(c.connection);
}

at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

NormInputs NormInputs::to(const at::TensorOptions& options) const {
  NormInputs other{.tensors = {}, .dy = dy.to(options), .residual_gradient = residual_gradient.to(options)};
  for (const at::Tensor& t : tensors) other.tensors.push_back(t.to(options));
  return other;
}

NormInputs norm_inputs(const NormCase& c, at::ScalarType dtype) {
  at::manual_seed(c.images * 1000 + c.channels);
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(dtype); };
  const std::vector<int64_t> image = {c.images, c.channels, c.height, c.width};
  NormInputs in{.tensors = {channels_last(random(image) * 2 + 0.5), random({c.channels}), random({c.channels})},
                .dy = channels_last(random(image)),
                .residual_gradient = channels_last(random(image))};
  if (has_shift_before(c)) in.tensors.push_back(random({c.images, c.channels}));
  if (has_scale(c)) {  // two halves of one tensor, as a residual block has them
    for (const at::Tensor& half : random({c.images, 2 * c.channels}).chunk(2, 1)) in.tensors.push_back(half);
  }
  if (c.connection == Connection::sum) {  // of addends whose sum no dtype has to round
    const auto sixteenths = [](const at::Tensor& t) { return (t * 16).round().clamp(-127, 127) / 16; };
    in.tensors[0] = sixteenths(in.tensors[0]);
    in.tensors.push_back(channels_last(sixteenths(random(image))));
  }
  return in;
}

Modulation modulation_of(const NormCase& c, const std::vector<at::Tensor>& t) {
  Modulation m;
  std::size_t next = 3;
  if (has_shift_before(c)) m.shift_before = t[next++];
  if (has_scale(c)) {
    m.scale = t[next++];
    m.shift_after = t[next++];
  }
  return m;
}

Branches branches_of(const NormCase& c, const std::vector<at::Tensor>& t) {
  return {.addend = t[0], .residual = c.connection == Connection::sum ? t.back() : at::Tensor()};
}

NormalisedSum normalise_sum(const NormCase& c, const std::vector<at::Tensor>& t) {
  return residual_group_norm_silu(branches_of(c, t), t[1], t[2], {.groups = c.groups, .activation = c.activation},
                                  modulation_of(c, t), Partition());
}

at::Tensor normalise(const NormCase& c, const std::vector<at::Tensor>& t) { return normalise_sum(c, t).y; }

std::vector<at::Tensor> norm_by_ddpm(const NormCase& c, const NormInputs& in) { return run(normalise_sum, c, in); }
std::vector<at::Tensor> norm_by_aten(const NormCase& c, const NormInputs& in) { return run(by_aten, c, in); }

double norm_tolerance(const NormCase& c, at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return 0x1p-7;
  const double elements = std::sqrt(static_cast<double>(c.images * c.height * c.width));
  return 2e-6 * (1 + elements / 16) + (dtype == at::kHalf ? 0x1p-10 : 0.0);
}

void expect_norm_near(const NormCase& c, const std::vector<at::Tensor>& seen, const std::vector<at::Tensor>& wanted,
                      at::ScalarType dtype, double tolerance) {
  SCOPED_TRACE(testing::Message() << c << ", " << dtype);
  ASSERT_EQ(seen.size(), wanted.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const char* const name = kNormResults.at(i);
    EXPECT_EQ(seen[i].scalar_type(), dtype) << name;
    EXPECT_EQ(seen[i].sizes(), wanted[i].sizes()) << name;
    // A gradient that is zero in truth is as small as the rounding of its terms, which are about 1.
    const double scale = std::max(1.0, wanted[i].abs().max().item<double>());
    const double error = (seen[i].to(at::kCPU, at::kDouble) - wanted[i]).abs().max().item<double>() / scale;
    EXPECT_LT(error, tolerance) << name;
  }
}

}  // namespace ddpm::nn::test
