#include "generate/torus_links.h"

#include <cmath>

#include <gtest/gtest.h>

#include "generate/landau_gauge.h"
#include "generate/su2.h"
#include "generate/u1.h"

namespace ddpm::generate {
namespace {

using Quaternion = Su2Group::Element;

double distance(const Quaternion& a, const Quaternion& b) {
  return std::abs(a.w - b.w) + std::abs(a.x - b.x) + std::abs(a.y - b.y) + std::abs(a.z - b.z);
}

TEST(Su2Group, MultipliesAsPaulisMatricesDo) {
  // (i sigma_1)(i sigma_2) = -i sigma_3, and so on around.
  const Quaternion x{0, 1, 0, 0};
  const Quaternion y{0, 0, 1, 0};
  const Quaternion z{0, 0, 0, 1};
  EXPECT_LT(distance(x * y, {0, 0, 0, -1}), 1e-15);
  EXPECT_LT(distance(y * z, {0, -1, 0, 0}), 1e-15);
  EXPECT_LT(distance(z * x, {0, 0, -1, 0}), 1e-15);
  EXPECT_LT(distance(x * x, {-1, 0, 0, 0}), 1e-15);
  Draws draws(1, 1);
  const Quaternion any = Su2Group::haar(draws);
  EXPECT_LT(distance(any * any.inverse(), Su2Group::one()), 1e-14);
}

Quaternion plaquette_of(const Links<Quaternion>& links, std::size_t height, std::size_t width, std::size_t y,
                        std::size_t x) {
  const auto at = [&](std::size_t row, std::size_t column) { return row % height * width + column % width; };
  return links.right[at(y, x)] * links.down[at(y, x + 1)] * links.right[at(y + 1, x)].inverse() *
         links.down[at(y, x)].inverse();
}

TEST(TorusLinks, HaveThePlaquettesThatWereDrawnAndCloseTheTorus) {
  constexpr std::size_t kHeight = 3;
  constexpr std::size_t kWidth = 4;
  // So strong that no plaquette is far from 1: each but the last is what was drawn only if the links are set and
  // transformed right, and the last one only if the product of the others closes the torus.
  constexpr double kBeta = 60.0;
  TorusLinks<Su2Group> torus(kHeight, kWidth);
  Draws draws(5, 6);
  const Su2Group group(kBeta);
  const auto& links = torus.draw(group, draws);
  for (std::size_t y = 0; y < kHeight; ++y) {
    for (std::size_t x = 0; x < kWidth; ++x) {
      EXPECT_GT(plaquette_of(links, kHeight, kWidth, y, x).w, 0.7) << y << ", " << x;
    }
  }
}

TEST(LandauGauge, KeepsPlaquettesAndLeavesNoDivergence) {
  constexpr std::size_t kHeight = 4;
  constexpr std::size_t kWidth = 6;
  TorusLinks<Su2Group> torus(kHeight, kWidth);
  Draws draws(3, 4);
  Links<Quaternion> links = torus.draw(Su2Group(2.0), draws);
  const Links<Quaternion> before = links;
  to_landau_gauge<Su2Group>(links, kHeight, kWidth);
  double sum = 0.0;
  double sum_before = 0.0;
  for (std::size_t y = 0; y < kHeight; ++y) {
    for (std::size_t x = 0; x < kWidth; ++x) {
      EXPECT_NEAR(plaquette_of(links, kHeight, kWidth, y, x).w, plaquette_of(before, kHeight, kWidth, y, x).w, 1e-12);
      const std::size_t here = y * kWidth + x;
      const Quaternion& left = links.right[y * kWidth + (x + kWidth - 1) % kWidth];
      const Quaternion& above = links.down[(y + kHeight - 1) % kHeight * kWidth + x];
      EXPECT_NEAR(links.right[here].x - left.x + links.down[here].x - above.x, 0.0, 1e-4) << y << ", " << x;
      EXPECT_NEAR(links.right[here].z - left.z + links.down[here].z - above.z, 0.0, 1e-4) << y << ", " << x;
      sum += links.right[here].w + links.down[here].w;
      sum_before += before.right[here].w + before.down[here].w;
    }
  }
  EXPECT_GT(sum, 0.75 * 2 * kHeight * kWidth);
  EXPECT_LT(sum_before, 0.5 * 2 * kHeight * kWidth);
}

TEST(LandauGauge, LeavesTheAnglesOfPlaquettesAlone) {
  constexpr std::size_t kSide = 5;
  TorusLinks<U1Group> torus(kSide, kSide);
  Draws draws(5, 6);
  Links<U1Group::Element> links = torus.draw(U1Group(1.5), draws);
  const auto cosines = [&] {
    double sum = 0.0;
    for (std::size_t y = 0; y < kSide; ++y) {
      for (std::size_t x = 0; x < kSide; ++x) {
        const auto at = [&](std::size_t row, std::size_t column) { return row % kSide * kSide + column % kSide; };
        sum += std::cos(links.right[at(y, x)].angle + links.down[at(y, x + 1)].angle - links.right[at(y + 1, x)].angle -
                        links.down[at(y, x)].angle);
      }
    }
    return sum;
  };
  const double before = cosines();
  to_landau_gauge<U1Group>(links, kSide, kSide);
  EXPECT_NEAR(cosines(), before, 1e-10);
  double right = 0.0;
  for (const auto& link : links.right) right += std::cos(link.angle);
  EXPECT_GT(right, 0.7 * kSide * kSide);
}

TEST(U1Group, ClosesWithTheProbabilityOfTheConvolution) {
  // f_1 is the weight itself.
  constexpr double kBeta = 1.5;
  constexpr double kAngle = 1.0;
  constexpr int kTrials = 40000;
  const U1Group group(kBeta);
  Draws draws(2, 3);
  int closed = 0;
  for (int i = 0; i < kTrials; ++i) closed += group.closes({kAngle}, 1, draws) ? 1 : 0;
  const double wanted = std::exp(kBeta * (std::cos(kAngle) - 1.0));
  EXPECT_NEAR(closed / double{kTrials}, wanted, 4.0 * std::sqrt(wanted * (1.0 - wanted) / kTrials));
}

TEST(Su2Group, ClosesWithTheProbabilityOfTheConvolution) {
  constexpr double kBeta = 1.5;
  constexpr int kTrials = 40000;
  const Su2Group group(kBeta);
  const Quaternion element{std::cos(1.0), std::sin(1.0), 0, 0};
  Draws draws(2, 4);
  int closed = 0;
  for (int i = 0; i < kTrials; ++i) closed += group.closes(element, 1, draws) ? 1 : 0;
  const double wanted = std::exp(kBeta * (element.w - 1.0));
  EXPECT_NEAR(closed / double{kTrials}, wanted, 4.0 * std::sqrt(wanted * (1.0 - wanted) / kTrials));
}

}  // namespace
}  // namespace ddpm::generate
