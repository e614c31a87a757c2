// A model over two bands of rows predicts what it predicts over the whole image. Two threads stand for two ranks.
#include "nn/partition.h"

#include <array>
#include <barrier>
#include <cmath>
#include <thread>

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "nn/golden_case.h"
#include "nn/unet2d.h"

namespace ddpm::nn::test {
namespace {

constexpr std::size_t kBands = 2;

// A point where two threads meet and see each other's tensor.
class Meeting {
 public:
  std::array<at::Tensor, kBands> exchange(std::size_t band, const at::Tensor& mine) {
    tensors_[band] = mine;
    barrier_.arrive_and_wait();
    std::array<at::Tensor, kBands> all = tensors_;
    barrier_.arrive_and_wait();
    return all;
  }

 private:
  std::array<at::Tensor, kBands> tensors_;
  std::barrier<> barrier_{kBands};
};

// What the other band sends, when both ask for it.
class MeetingTrade final : public Trade {
 public:
  MeetingTrade(Meeting& meeting, std::size_t band, at::Tensor piece)
      : meeting_(meeting), band_(band), piece_(std::move(piece)) {}
  std::vector<at::Tensor> wait() override { return {meeting_.exchange(band_, piece_)[1 - band_]}; }

 private:
  Meeting& meeting_;
  std::size_t band_;
  at::Tensor piece_;
};

class TwoBands final : public Partition {
 public:
  /// `share` is the part of the image's rows that band 0 holds.
  TwoBands(Meeting& meeting, std::size_t band, double share)
      : meeting_(meeting), band_(band), share_(share), other_{0, band == 0 ? 1 : -1, 0} {}

  [[nodiscard]] int64_t tiles() const override { return kBands; }
  [[nodiscard]] int64_t tile() const override { return static_cast<int64_t>(band_); }

  [[nodiscard]] Halo halo(const at::Tensor& x, ImageAxis axis, int64_t above, int64_t below) const override {
    if (axis != ImageAxis::height) return {x, false};
    const auto all = meeting_.exchange(band_, x);
    const auto zeros = [&](int64_t rows) { return at::zeros({x.size(0), x.size(1), rows, x.size(3)}, x.options()); };
    const at::Tensor top = band_ == 0 ? zeros(above) : all[0].narrow(2, all[0].size(2) - above, above);
    const at::Tensor bottom = band_ == 1 ? zeros(below) : all[1].narrow(2, 0, below);
    return {at::cat({top, x, bottom}, 2), true};
  }

  [[nodiscard]] std::span<const Offset> neighbours() const override { return {&other_, 1}; }
  [[nodiscard]] std::unique_ptr<Trade> trade(std::span<const Offset> /*with*/,
                                             std::span<const at::Tensor> pieces) const override {
    return std::make_unique<MeetingTrade>(meeting_, band_, pieces[0]);
  }

  [[nodiscard]] at::Tensor sum(const at::Tensor& x) const override {
    const auto all = meeting_.exchange(band_, x);
    return all[0] + all[1];
  }

  [[nodiscard]] at::Tensor gather(const at::Tensor& x) const override {
    const auto all = meeting_.exchange(band_, x);
    return at::cat({all[0], all[1]}, 1);
  }

  [[nodiscard]] at::Tensor gather_numbers(const at::Tensor& x) const override {
    const auto all = meeting_.exchange(band_, x);
    return at::stack({all[0], all[1]});
  }

  [[nodiscard]] TilePlace place(ImageAxis axis, int64_t rows) const override {
    if (axis != ImageAxis::height) return {0, rows};
    const auto total = std::llround(static_cast<double>(rows) / (band_ == 0 ? share_ : 1.0 - share_));
    return {band_ == 0 ? 0 : total - rows, total};
  }

 private:
  Meeting& meeting_;
  std::size_t band_;
  double share_;
  Offset other_;  // where the other band lies
};

class Banded : public testing::TestWithParam<std::filesystem::path> {
 protected:
  Banded() : golden_(read_golden(GetParam())) {}

  // Each band in a thread of its own. The larger one comes first: bands need not be equal.
  [[nodiscard]] at::Tensor predict_in_bands(const UNet2D& unet, const RandomContext& random) const {
    const int64_t height = golden_.x.size(2);
    const int64_t multiple = size_multiple(unet.config());
    const int64_t first = (height / multiple + 1) / 2 * multiple;
    const std::array<at::Tensor, kBands> x = {golden_.x.narrow(2, 0, first),
                                              golden_.x.narrow(2, first, height - first)};
    Meeting meeting;
    std::array<at::Tensor, kBands> y;
    const auto run = [&](std::size_t band) {
      const at::NoGradGuard no_grad;
      const TwoBands partition(meeting, band, static_cast<double>(first) / static_cast<double>(height));
      y[band] = unet.forward(x[band], golden_.timesteps, golden_.class_labels, random, partition);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    return at::cat({y[0], y[1]}, 2);
  }

  GoldenCase golden_;
};

TEST_P(Banded, PredictsWhatTheWholeImagePredicts) {
  const UNet2D unet(config_from_json(golden_.config));
  bind_weights(unet.parameters(), golden_, at::kFloat);
  EXPECT_LT(relative_distance(predict_in_bands(unet, {}), golden_.output), 1e-5);
}

TEST_P(Banded, DropsWhatTheWholeImageDrops) {
  const at::NoGradGuard no_grad;
  UNet2DConfig c = config_from_json(golden_.config);
  c.dropout = 0.1;
  const UNet2D unet(c);
  bind_weights(unet.parameters(), golden_, at::kFloat);
  const RandomContext random{.seed = 3, .step = 1, .first_position = 8, .training = true};
  const at::Tensor whole = unet.forward(golden_.x, golden_.timesteps, golden_.class_labels, random);
  EXPECT_LT(relative_distance(predict_in_bands(unet, random), whole), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Files, Banded, testing::ValuesIn(golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace ddpm::nn::test
