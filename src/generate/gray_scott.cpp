#include "generate/gray_scott.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/pulse.h"
#include "base/random.h"
#include "base/vector_clones.h"

namespace ddpm::generate {
namespace {

/// A start has one block for each so many pixels, at least one; blocks have so long a side, shorter in small grids.
constexpr std::size_t kPixelsPerBlock = 1024;
constexpr int64_t kBlockSide = 6;
constexpr float kNoise = 0.01F;

struct Rates {
  float feed, feed_and_kill, diffusion_u, diffusion_v, centre;  // centre: neighbours of a pixel
};

/// One species in the neighbourhood of a line along the last axis.
struct Species {
  const float* self;
  std::array<const float*, 4> others;
  float* next;
};

/// The sum of a pixel's neighbours, in an order that does not depend on vectors.
template <std::size_t Others>
[[gnu::always_inline]] inline float neighbours(const Species& s, std::size_t x, std::size_t left, std::size_t right) {
  float sum = s.self[left] + s.self[right] + s.others[0][x] + s.others[1][x];
  if constexpr (Others == 4) sum = sum + s.others[2][x] + s.others[3][x];
  return sum;
}

template <std::size_t Others>
[[gnu::always_inline]] inline void update(const Species& u, const Species& v, const Rates& rates, std::size_t x,
                                          std::size_t left, std::size_t right) {
  const float reaction = u.self[x] * v.self[x] * v.self[x];
  const float spread_u = neighbours<Others>(u, x, left, right) - rates.centre * u.self[x];
  const float spread_v = neighbours<Others>(v, x, left, right) - rates.centre * v.self[x];
  u.next[x] = u.self[x] + (rates.diffusion_u * spread_u - reaction + rates.feed * (1.0F - u.self[x]));
  v.next[x] = v.self[x] + (rates.diffusion_v * spread_v + reaction - rates.feed_and_kill * v.self[x]);
}

template <std::size_t Others>
[[gnu::always_inline]] inline void update_line(const Species& u, const Species& v, const Rates& rates, std::size_t n) {
  update<Others>(u, v, rates, 0, n - 1, 1);
#pragma GCC ivdep
  for (std::size_t x = 1; x < n - 1; ++x) update<Others>(u, v, rates, x, x - 1, x + 1);
  update<Others>(u, v, rates, n - 1, n - 2, 0);
}

DDPM_VECTOR_CLONES void flat_line(const Species& u, const Species& v, const Rates& rates, std::size_t n) {
  update_line<2>(u, v, rates, n);
}

DDPM_VECTOR_CLONES void volume_line(const Species& u, const Species& v, const Rates& rates, std::size_t n) {
  update_line<4>(u, v, rates, n);
}

void expect_reaction(const GrayScottOptions& options) {
  expect_value(options.feed, kGrayScottFeed);
  expect_value(options.kill, kGrayScottKill);
  expect_number(options.steps, kGrayScottSteps);
  const double most = 0.5 / static_cast<double>(options.sides.size());
  for (const auto& [coupling, value] :
       {std::pair(kGrayScottDiffusionU, options.diffusion_u), std::pair(kGrayScottDiffusionV, options.diffusion_v)}) {
    expect_value(value, coupling);
    if (value > most) {
      throw base::ConfigError("--{} {}: the steps of time 1 would not be stable, wanted at most {:.4g}", coupling.name,
                              value, most);
    }
  }
}

}  // namespace

GrayScott::GrayScott(GrayScottOptions options, uint64_t seed) : options_(std::move(options)), seed_(seed) {
  expect_grid(options_.sides, kGrid, fmt::format("{}", fmt::join(options_.sides, "x")));
  expect_reaction(options_);
  for (const int64_t side : options_.sides) pixels_ *= static_cast<std::size_t>(side);
  for (auto* values : {&u_, &v_, &next_u_, &next_v_}) values->resize(pixels_);
  noise_.resize(2 * pixels_);
}

data::Field GrayScott::image_field() const {
  return make_image_field(options_.sides, base::DType::f32,
                          {{.name = "u", .unit = "", .transform = data::Normalization{.scale = 2.0, .offset = -1.0}},
                           {.name = "v", .unit = "", .transform = data::Normalization{.scale = 4.0, .offset = -1.0}}});
}

base::OrderedJson GrayScott::description() const {
  return {{"kind", "gray-scott"},
          {"sides", options_.sides},
          {"feed", options_.feed},
          {"kill", options_.kill},
          {"diffusion_u", options_.diffusion_u},
          {"diffusion_v", options_.diffusion_v},
          {"steps", options_.steps}};
}

void GrayScott::put_block(Draws& draws) {
  const auto& sides = options_.sides;
  std::array<int64_t, 3> corner{};
  for (std::size_t axis = 0; axis < sides.size(); ++axis)
    corner[axis] = draws.below(static_cast<uint32_t>(sides[axis]));
  const int64_t side = std::min(kBlockSide, std::ranges::min(sides));
  int64_t cells = 1;
  for (std::size_t axis = 0; axis < sides.size(); ++axis) cells *= side;
  for (int64_t cell = 0; cell < cells; ++cell) {
    int64_t rest = cell;
    int64_t pixel = 0;
    for (std::size_t axis = 0; axis < sides.size(); ++axis, rest /= side) {
      pixel = pixel * sides[axis] + (corner[axis] + rest % side) % sides[axis];
    }
    u_[static_cast<std::size_t>(pixel)] = 0.5F;
    v_[static_cast<std::size_t>(pixel)] = 0.25F;
  }
}

void GrayScott::start(int64_t sample) {
  std::ranges::fill(u_, 1.0F);
  std::ranges::fill(v_, 0.0F);
  Draws draws(seed_, sample);
  for (std::size_t i = 0; i == 0 || i < pixels_ / kPixelsPerBlock; ++i) put_block(draws);
  base::RandomSequence(seed_, kFieldStream, 0, static_cast<uint64_t>(sample)).fill_uniform(noise_, -kNoise, kNoise);
  for (std::size_t i = 0; i < pixels_; ++i) {
    u_[i] *= 1.0F + noise_[2 * i];
    v_[i] *= 1.0F + noise_[2 * i + 1];
  }
}

void GrayScott::step() {
  const auto& sides = options_.sides;
  const Rates rates{.feed = static_cast<float>(options_.feed),
                    .feed_and_kill = static_cast<float>(options_.feed + options_.kill),
                    .diffusion_u = static_cast<float>(options_.diffusion_u),
                    .diffusion_v = static_cast<float>(options_.diffusion_v),
                    .centre = 2.0F * static_cast<float>(sides.size())};
  const auto length = static_cast<std::size_t>(sides.back());
  for (std::size_t first = 0; first < pixels_; first += length) {
    Species u{.self = &u_[first], .others = {}, .next = &next_u_[first]};
    Species v{.self = &v_[first], .others = {}, .next = &next_v_[first]};
    std::size_t other = 0;
    std::size_t stride = length;
    for (std::size_t axis = sides.size() - 1; axis-- > 0; stride *= static_cast<std::size_t>(sides[axis])) {
      const auto side = static_cast<std::size_t>(sides[axis]);
      const std::size_t at = first / stride % side;
      for (const std::size_t line : {at > 0 ? first - stride : first + (side - 1) * stride,
                                     at + 1 < side ? first + stride : first - at * stride}) {
        u.others[other] = &u_[line];
        v.others[other++] = &v_[line];
      }
    }
    (other == 2 ? flat_line : volume_line)(u, v, rates, length);
  }
  u_.swap(next_u_);
  v_.swap(next_v_);
}

void GrayScott::make(int64_t sample, std::span<std::byte> image) {
  start(sample);
  for (int64_t i = 0; i < options_.steps; ++i) {
    step();
    base::pulse();
  }
  for (std::size_t i = 0; i < pixels_; ++i) {
    const std::array<float, 2> pair{u_[i], v_[i]};
    std::memcpy(image.data() + i * sizeof(pair), pair.data(), sizeof(pair));
  }
}

}  // namespace ddpm::generate
