#include "eval/theory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/parse_number.h"
#include "generate/couplings.h"

namespace ddpm::eval {
namespace {

using base::ConfigError;
using generate::Coupling;

struct Kind {
  std::string_view name;
  std::size_t most_axes;
  int64_t least_side;
  std::vector<Coupling> couplings;
  std::unique_ptr<Theory> (*make)(const TheoryName&, const Lattice&);
  bool takes_either = false;  ///< whether one of its couplings says the others
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kAll = {
      {"u1", 2, 2, {generate::kU1Beta}, make_u1},
      {"su2", 2, 2, {generate::kSu2Beta}, make_su2},
      {"ising", 3, 3, {generate::kIsingBeta, generate::kIsingTemperature}, make_ising, true},
      {"phi4", 3, 3, {generate::kPhi4MassSquared, generate::kPhi4Lambda}, make_phi4},
      {"grf", 3, 2, {generate::kGrfSlope}, make_grf},
  };
  return kAll;
}

std::string names_of_kinds() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string names_of_couplings(const Kind& kind) {
  std::vector<std::string_view> names;
  for (const Coupling& coupling : kind.couplings) names.push_back(coupling.name);
  return fmt::format("{}", fmt::join(names, kind.takes_either ? " or " : " and "));
}

const Kind& kind_of(const std::string& name, const std::string& text) {
  const auto found = std::ranges::find(kinds(), name, &Kind::name);
  if (found != kinds().end()) return *found;
  throw ConfigError("--exact {}: no exact values are known of \"{}\", wanted one of {}", text, name, names_of_kinds());
}

void read_coupling(const Kind& kind, const std::string& part, TheoryName& theory) {
  const std::size_t sign = std::min(part.find('='), part.size());
  const std::string name = part.substr(0, sign);
  const auto coupling = std::ranges::find(kind.couplings, name, &Coupling::name);
  if (coupling == kind.couplings.end() || sign == part.size()) {
    throw ConfigError("--exact {}: \"{}\", wanted {} with a number, as in {}=0.5", theory.text, part,
                      names_of_couplings(kind), kind.couplings.front().name);
  }
  const auto value = base::parse_number<double>(std::string_view(part).substr(sign + 1));
  if (!value || !(*value >= coupling->least && *value <= coupling->most)) {
    throw ConfigError("--exact {}: {} is not a number from {} to {}", theory.text, part, coupling->least,
                      coupling->most);
  }
  if (!theory.couplings.emplace(name, *value).second) {
    throw ConfigError("--exact {}: {} is there twice", theory.text, name);
  }
}

/// The couplings that were not named are those that `ddpm data generate` takes then; the text says them, too.
void take_defaults(const Kind& kind, TheoryName& theory) {
  if (kind.takes_either && theory.couplings.size() > 1) {
    throw ConfigError("--exact {}: it has two of {}, wanted one of them", theory.text, names_of_couplings(kind));
  }
  for (const Coupling& coupling : kind.couplings) {
    if (kind.takes_either && !theory.couplings.empty()) break;
    if (!theory.couplings.emplace(coupling.name, coupling.default_value).second) continue;
    theory.text += fmt::format(",{}={}", coupling.name, coupling.default_value);
  }
}

}  // namespace

TheoryName parse_theory(const std::string& text) {
  TheoryName theory{.text = text, .kind = text.substr(0, text.find(',')), .couplings = {}};
  const Kind& kind = kind_of(theory.kind, text);
  for (std::size_t begin = theory.kind.size(); begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin + 1), text.size());
    read_coupling(kind, text.substr(begin + 1, end - begin - 1), theory);
    begin = end;
  }
  take_defaults(kind, theory);
  return theory;
}

std::unique_ptr<Theory> make_theory(const TheoryName& name, const Lattice& lattice) {
  const std::vector<int64_t>& sides = lattice.sides;
  const Kind& kind = kind_of(name.kind, name.text);
  if (sides.size() > kind.most_axes || std::ranges::min(sides) < kind.least_side) {
    throw ConfigError("--exact {}: the samples have {} sites, wanted {} axes{} with at least {} each", name.text,
                      fmt::join(sides, " x "), kind.most_axes == 2 ? "2" : "2 or 3", "", kind.least_side);
  }
  return kind.make(name, lattice);
}

Row row_of_mean(const std::string& name, std::size_t place) {
  return {.metric = {.name = name, .level = {}, .estimate = {}},
          .value = [place](std::span<const double> sums, std::span<const double> /*data*/) {
            return sums[place] / sums[0];
          }};
}

Row with_exact(Row row, double exact) {
  row.exact = exact;
  row.metric.is_exact = true;
  row.distance = [value = row.value, exact](std::span<const double> sums, std::span<const double> data) {
    return std::abs(value(sums, data) - exact);
  };
  return row;
}

Row with_exact(Row row, double exact, double limit) {
  row.metric.limit = limit;
  return with_exact(std::move(row), exact);
}

}  // namespace ddpm::eval
