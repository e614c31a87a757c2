// Two-dimensional lattice gauge theory on a torus: the links of generate/torus_links.h as images, in channels first the
// numbers of the link to the right, then those of the link downwards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/named.h"
#include "generate/generator.h"
#include "generate/landau_gauge.h"
#include "generate/limits.h"
#include "generate/torus_links.h"

namespace ddpm::generate {

enum class Gauge : uint8_t {
  random,  ///< another uniform transformation at each site
  landau   ///< see generate/landau_gauge.h
};
constexpr auto names_of(Gauge /*type*/) { return std::to_array<std::string_view>({"random", "landau"}); }

/// Beside what torus_links.h and landau_gauge.h ask of it, a group has kKind, its name on the command line; a
/// constructor from beta; kBeta, the betas that it takes; variables(), those of both links; and numbers(element), the
/// values that are stored of a link.
/// Where links can be stored in several ways, kLinks names the one that is not the usual one.
template <typename Group>
class GaugeGenerator final : public CoupledGenerator {
 public:
  using Element = typename Group::Element;
  using Numbers = decltype(Group::numbers(std::declval<Element>()));
  static constexpr GridLimits kGrid = {
      .least = 2, .most = 4096, .most_axes = 2, .channels = 2 * static_cast<int64_t>(std::tuple_size_v<Numbers>)};

  /// `sides`: height and width. Throws ConfigError for a grid outside kGrid, and for betas outside those of the group.
  GaugeGenerator(std::vector<int64_t> sides, std::vector<double> betas, Gauge gauge, uint64_t seed)
      : CoupledGenerator({"beta", checked_values(std::move(betas), Group::kBeta)}),
        sides_(checked_grid(std::move(sides), kGrid)),
        gauge_(gauge),
        seed_(seed),
        torus_(sides_[0], sides_[1]) {
    for (const double beta : couplings().values) groups_.emplace_back(beta);
  }

  [[nodiscard]] data::Field image_field() const override {
    return make_image_field(sides_, base::DType::f32, Group::variables());
  }
  [[nodiscard]] base::OrderedJson description() const override {
    base::OrderedJson json = {{"kind", Group::kKind}, {"sides", sides_}, {"beta", couplings().values}};
    if constexpr (requires { Group::kLinks; }) json["links"] = Group::kLinks;
    if (gauge_ == Gauge::landau) json["gauge"] = base::name_of(gauge_);
    return json;
  }
  void make(int64_t sample, std::span<std::byte> image) override {
    Draws draws(seed_, sample);
    auto& links = torus_.draw(groups_[couplings().index(sample)], draws);
    if (gauge_ == Gauge::landau) {
      to_landau_gauge<Group>(links, static_cast<std::size_t>(sides_[0]), static_cast<std::size_t>(sides_[1]));
    }
    values_.clear();
    for (std::size_t site = 0; site < links.right.size(); ++site) {
      for (const auto& link : {links.right[site], links.down[site]}) {
        for (const double number : Group::numbers(link)) values_.push_back(number);
      }
    }
    store(values_, image);
  }

 private:
  std::vector<int64_t> sides_;
  Gauge gauge_;
  uint64_t seed_;
  std::vector<Group> groups_;  // for each beta
  TorusLinks<Group> torus_;
  std::vector<double> values_;
};

}  // namespace ddpm::generate
