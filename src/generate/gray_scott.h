// Patterns of the Gray-Scott reaction (Pearson, Science 261, 189 (1993)) on a periodic grid of spacing 1:
//   du/dt = Du laplacian(u) - u v² + feed (1 - u)
//   dv/dt = Dv laplacian(v) + u v² - (feed + kill) v
// by Euler's steps of time 1, with the Laplacian of the nearest neighbours. Each sample starts from u = 1 and v = 0
// with randomly placed blocks of u = 1/2 and v = 1/4, and one percent of noise.
#pragma once

#include "generate/generator.h"
#include "generate/limits.h"
#include "generate/periodic_lattice.h"

namespace ddpm::generate {

struct GrayScottOptions {
  std::vector<int64_t> sides;  ///< height and width, of volumes the depth before, each at least 3
  double feed = kGrayScottFeed.default_value;
  double kill = kGrayScottKill.default_value;
  double diffusion_u = kGrayScottDiffusionU.default_value;
  double diffusion_v = kGrayScottDiffusionV.default_value;
  int64_t steps = kGrayScottSteps.default_value;
};

class GrayScott final : public Generator {
 public:
  static constexpr GridLimits kGrid = {.least = 3, .most = 4096, .most_axes = 3, .channels = 2};

  /// Throws ConfigError for a grid outside kGrid, for what generate/couplings.h does not allow, and when the steps are
  /// not stable: Du and Dv are at most 1 / (2 axes).
  GrayScott(GrayScottOptions options, uint64_t seed);

  [[nodiscard]] data::Field image_field() const override;
  [[nodiscard]] base::OrderedJson description() const override;
  void make(int64_t sample, std::span<std::byte> image) override;

 private:
  void start(int64_t sample);
  void put_block(Draws& draws);
  void step();

  GrayScottOptions options_;
  uint64_t seed_;
  std::size_t pixels_ = 1;
  std::vector<float> u_, v_, next_u_, next_v_, noise_;
};

}  // namespace ddpm::generate
