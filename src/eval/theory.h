// Theories whose expectation values are known, for `ddpm eval fields --exact KIND`: those of `ddpm data generate`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/field.h"
#include "eval/row.h"
#include "eval/sample_set.h"

namespace ddpm::eval {

/// "u1,beta=1.5": a kind and its couplings, named as the options of `ddpm data generate KIND`.
struct TheoryName {
  std::string text;  ///< with all couplings
  std::string kind;
  std::map<std::string, double> couplings;
};
/// Couplings that the text does not name are those that `ddpm data generate` takes then. Throws ConfigError for a kind
/// that has no exact values, and for unknown or impossible couplings.
TheoryName parse_theory(const std::string& text);

class Theory {
 public:
  Theory() = default;
  Theory(const Theory&) = delete;
  Theory& operator=(const Theory&) = delete;
  virtual ~Theory() = default;

  /// The variables of the sets that `ddpm data generate` makes, with their transforms.
  [[nodiscard]] virtual std::vector<data::Variable> variables() const = 0;
  /// On which scale measure() wants its values.
  [[nodiscard]] virtual Scale scale() const { return Scale::stored; }
  /// How many sums it takes.
  [[nodiscard]] virtual std::size_t width() const = 0;
  /// Adds what one sample, [channels, pixels...], gives. The first of the sums counts samples.
  virtual void measure(std::span<const float> sample, std::span<double> sums) = 0;
  /// What is known exactly.
  [[nodiscard]] virtual std::vector<Row> rows() const = 0;
};

/// What samples are fields on.
struct Lattice {
  std::vector<int64_t> sides;
  int64_t channels = 1;  ///< numbers of a site
};
/// The theory on a lattice. Throws ConfigError where its samples are no such fields.
std::unique_ptr<Theory> make_theory(const TheoryName& name, const Lattice& lattice);

// The makers of the kinds.
std::unique_ptr<Theory> make_u1(const TheoryName& name, const Lattice& lattice);
std::unique_ptr<Theory> make_su2(const TheoryName& name, const Lattice& lattice);
std::unique_ptr<Theory> make_ising(const TheoryName& name, const Lattice& lattice);
std::unique_ptr<Theory> make_phi4(const TheoryName& name, const Lattice& lattice);
std::unique_ptr<Theory> make_grf(const TheoryName& name, const Lattice& lattice);

/// A row for the mean of the number at `place` in the sums.
Row row_of_mean(const std::string& name, std::size_t place);
/// Gives the row its exact value, by which two models are compared, too.
Row with_exact(Row row, double exact);
/// Gives the row its exact value and `limit`, which that tends to on an infinite lattice.
Row with_exact(Row row, double exact, double limit);

}  // namespace ddpm::eval
