// U(1) and SU(2) gauge theory on a torus of two dimensions: the plaquettes and loops of generate/torus_links.h.
#include <array>
#include <cmath>
#include <numbers>

#include "eval/exact_values.h"
#include "eval/theory.h"
#include "generate/su2.h"
#include "generate/u1.h"

namespace ddpm::eval {
namespace {

/// Sides of the loops that are measured beside the plaquette: along columns, and along rows.
struct Loop {
  std::size_t width;
  std::size_t height;
  [[nodiscard]] int64_t area() const { return static_cast<int64_t>(width * height); }
};
constexpr auto kLoops = std::to_array<Loop>({{1, 1}, {2, 1}, {2, 2}, {3, 3}});

/// Links by their site, and products of them along loops that do not close around the torus.
template <typename Element>
class TorusLoops {
 public:
  explicit TorusLoops(const std::vector<int64_t>& sides)
      : height_(static_cast<std::size_t>(sides[0])), width_(static_cast<std::size_t>(sides[1])) {
    right_.resize(height_ * width_);
    down_.resize(height_ * width_);
    for (const Loop& loop : kLoops) {
      if (loop.width < width_ && loop.height < height_) loops_.push_back(loop);
    }
    // A lattice of two sites across has no other contractible loop than the plaquette.
    if (loops_.empty()) loops_.push_back(kLoops.front());
  }

  [[nodiscard]] std::size_t sites() const { return right_.size(); }
  [[nodiscard]] const std::vector<Loop>& loops() const { return loops_; }
  Element& right(std::size_t site) { return right_[site]; }
  Element& down(std::size_t site) { return down_[site]; }

  /// The product around the loop whose corner of lowest row and column is a site: along the upper side, down the right
  /// one, back along the lower one and up the left one.
  [[nodiscard]] Element around(const Loop& loop, std::size_t y, std::size_t x) const {
    Element there = right_[at(y, x)];
    for (std::size_t i = 1; i < loop.width; ++i) there = there * right_[at(y, x + i)];
    for (std::size_t i = 0; i < loop.height; ++i) there = there * down_[at(y + i, x + loop.width)];
    Element back = down_[at(y, x)];
    for (std::size_t i = 1; i < loop.height; ++i) back = back * down_[at(y + i, x)];
    for (std::size_t i = 0; i < loop.width; ++i) back = back * right_[at(y + loop.height, x + i)];
    return there * back.inverse();
  }
  template <typename Visit>
  void for_sites(const Visit& visit) const {
    for (std::size_t y = 0; y < height_; ++y) {
      for (std::size_t x = 0; x < width_; ++x) visit(y, x);
    }
  }

 private:
  [[nodiscard]] std::size_t at(std::size_t y, std::size_t x) const { return y % height_ * width_ + x % width_; }

  std::size_t height_, width_;
  std::vector<Element> right_, down_;
  std::vector<Loop> loops_;
};

/// A loop's row: its exact value on the torus, and on the infinite lattice.
Row loop_row(const Loop& loop, std::size_t place, double exact, double limit) {
  Row row = row_of_mean(loop.area() == 1 ? "plaquette" : "wilson_loop", place);
  if (loop.area() > 1) row.metric.level = fmt::format("{} x {}", loop.width, loop.height);
  return with_exact(std::move(row), exact, limit);
}

class U1Theory final : public Theory {
 public:
  /// With four channels, links are vectors of cosine and sine, whose length does not count; otherwise angles.
  U1Theory(double beta, const Lattice& lattice) : beta_(beta), vectors_(lattice.channels == 4), links_(lattice.sides) {}

  [[nodiscard]] std::vector<data::Variable> variables() const override {
    return vectors_ ? generate::U1VectorGroup::variables() : generate::U1Group::variables();
  }
  [[nodiscard]] std::size_t width() const override { return 3 + links_.loops().size(); }

  void measure(std::span<const float> sample, std::span<double> sums) override {
    const std::size_t sites = links_.sites();
    for (std::size_t i = 0; i < sites; ++i) {
      links_.right(i) = {angle(sample, 0, i)};
      links_.down(i) = {angle(sample, 1, i)};
    }
    double charge = 0.0;
    links_.for_sites([&](std::size_t y, std::size_t x) {
      charge += std::remainder(links_.around(kLoops.front(), y, x).angle, 2.0 * std::numbers::pi);
      for (std::size_t l = 0; l < links_.loops().size(); ++l) {
        sums[3 + l] += std::cos(links_.around(links_.loops()[l], y, x).angle) / static_cast<double>(sites);
      }
    });
    charge /= 2.0 * std::numbers::pi;
    sums[0] += 1.0;
    sums[1] += charge;
    sums[2] += charge * charge / static_cast<double>(sites);
  }

  [[nodiscard]] std::vector<Row> rows() const override {
    const auto n = static_cast<int64_t>(links_.sites());
    std::vector<Row> rows;
    for (std::size_t l = 0; l < links_.loops().size(); ++l) {
      const Loop& loop = links_.loops()[l];
      rows.push_back(loop_row(loop, 3 + l, u1_loop(beta_, n, loop.area()), u1_loop_limit(beta_, loop.area())));
    }
    const auto sites = static_cast<double>(n);
    const double squared = u1_charge_squared(beta_, n);
    // As if positive and negative charges came by chance: exact where they are rare.
    rows.push_back(with_exact(row_of_mean("topological_charge", 1), 0.0));
    rows.back().unit_deviation = std::sqrt(squared);
    rows.push_back(with_exact(row_of_mean("topological_susceptibility", 2), squared / sites));
    rows.back().unit_deviation = std::sqrt(squared + 2.0 * squared * squared) / sites;
    return rows;
  }

 private:
  [[nodiscard]] double angle(std::span<const float> sample, std::size_t link, std::size_t site) const {
    const std::size_t sites = links_.sites();
    if (!vectors_) return sample[link * sites + site];
    return std::atan2(sample[(2 * link + 1) * sites + site], sample[2 * link * sites + site]);
  }

  double beta_;
  bool vectors_;
  TorusLoops<generate::U1Group::Element> links_;
};

class Su2Theory final : public Theory {
 public:
  using Element = generate::Su2Group::Element;
  Su2Theory(double beta, const std::vector<int64_t>& sides) : beta_(beta), links_(sides) {}

  [[nodiscard]] std::vector<data::Variable> variables() const override { return generate::Su2Group::variables(); }
  [[nodiscard]] std::size_t width() const override { return 2 + links_.loops().size(); }

  /// Links are brought to length 1 before they are multiplied; how far they were from it is a number of its own.
  void measure(std::span<const float> sample, std::span<double> sums) override {
    const std::size_t sites = links_.sites();
    double off = 0.0;
    const auto link = [&](std::size_t first, std::size_t site) {
      std::array<double, 4> q{};
      for (std::size_t c = 0; c < q.size(); ++c) q[c] = sample[(first + c) * sites + site];
      const double length = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
      off += std::abs(length - 1.0) / static_cast<double>(2 * sites);
      if (length == 0.0) return Element{};
      return Element{q[0] / length, q[1] / length, q[2] / length, q[3] / length};
    };
    for (std::size_t i = 0; i < sites; ++i) {
      links_.right(i) = link(0, i);
      links_.down(i) = link(4, i);
    }
    links_.for_sites([&](std::size_t y, std::size_t x) {
      for (std::size_t l = 0; l < links_.loops().size(); ++l) {
        sums[2 + l] += links_.around(links_.loops()[l], y, x).w / static_cast<double>(sites);
      }
    });
    sums[0] += 1.0;
    sums[1] += off;
  }

  [[nodiscard]] std::vector<Row> rows() const override {
    const auto n = static_cast<int64_t>(links_.sites());
    std::vector<Row> rows;
    for (std::size_t l = 0; l < links_.loops().size(); ++l) {
      const Loop& loop = links_.loops()[l];
      rows.push_back(loop_row(loop, 2 + l, su2_loop(beta_, n, loop.area()), su2_loop_limit(beta_, loop.area())));
    }
    Row length = row_of_mean("length_deviation", 1);
    length.metric.reference = 0.0;  // with any finite precision the mean is a little more: no test
    length.distance = length.value;
    rows.push_back(std::move(length));
    return rows;
  }

 private:
  double beta_;
  TorusLoops<Element> links_;
};

}  // namespace

std::unique_ptr<Theory> make_u1(const TheoryName& name, const Lattice& lattice) {
  return std::make_unique<U1Theory>(name.couplings.at("beta"), lattice);
}

std::unique_ptr<Theory> make_su2(const TheoryName& name, const Lattice& lattice) {
  return std::make_unique<Su2Theory>(name.couplings.at("beta"), lattice.sides);
}

}  // namespace ddpm::eval
