// A model over two bands of rows predicts what it predicts over the whole image. Two threads stand for two ranks.
#include "nn/partition.h"

#include <array>
#include <barrier>
#include <thread>

#include <gtest/gtest.h>

#include "nn/golden_case.h"
#include "nn/unet2d.h"

namespace ddpm::nn::test {
namespace {

constexpr std::size_t kBands = 2;

// Where two threads meet and see each other's tensor.
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

class TwoBands final : public Partition {
 public:
  TwoBands(Meeting& meeting, std::size_t band) : meeting_(meeting), band_(band) {}

  [[nodiscard]] int64_t bands() const override { return kBands; }

  [[nodiscard]] Halo halo(const at::Tensor& x, int64_t above, int64_t below) const override {
    const auto all = meeting_.exchange(band_, x);
    const auto zeros = [&](int64_t rows) { return at::zeros({x.size(0), x.size(1), rows, x.size(3)}, x.options()); };
    const at::Tensor top = band_ == 0 ? zeros(above) : all[0].narrow(2, all[0].size(2) - above, above);
    const at::Tensor bottom = band_ == 1 ? zeros(below) : all[1].narrow(2, 0, below);
    return {at::cat({top, x, bottom}, 2), true};
  }

  [[nodiscard]] at::Tensor sum(const at::Tensor& x) const override {
    const auto all = meeting_.exchange(band_, x);
    return all[0] + all[1];
  }

  [[nodiscard]] at::Tensor gather(const at::Tensor& x) const override {
    const auto all = meeting_.exchange(band_, x);
    return at::cat({all[0], all[1]}, 1);
  }

 private:
  Meeting& meeting_;
  std::size_t band_;
};

class Banded : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Banded, PredictsWhatTheWholeImagePredicts) {
  const GoldenCase g = read_golden(GetParam());
  const UNet2D unet(config_from_json(g.config));
  bind_weights(unet.parameters(), g, at::kFloat);
  // The larger band comes first: bands need not be equal.
  const int64_t multiple = size_multiple(unet.config());
  const int64_t first = (g.x.size(2) / multiple + 1) / 2 * multiple;
  const std::array<at::Tensor, kBands> x = {g.x.narrow(2, 0, first), g.x.narrow(2, first, g.x.size(2) - first)};

  Meeting meeting;
  std::array<at::Tensor, kBands> y;
  const auto run = [&](std::size_t band) {
    const at::NoGradGuard no_grad;
    y[band] = unet.forward(x[band], g.timesteps, g.class_labels, {}, TwoBands(meeting, band));
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_LT(relative_error(at::cat({y[0], y[1]}, 2), g.output), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Files, Banded, testing::ValuesIn(golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace ddpm::nn::test
