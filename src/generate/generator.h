// What makes the samples of a set whose truth is known.
//
// A sample is a pure function of the seed and its number: ranks, shards and interruptions cannot change it. Kinds that
// need a Markov chain run one for each sample, from its own random start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/field.h"

namespace ddpm::generate {

class Generator {
 public:
  Generator() = default;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  virtual ~Generator() = default;

  /// The field of images, /images, with its variables and their transforms.
  [[nodiscard]] virtual data::Field image_field() const = 0;
  /// All that a sample depends on beside the seed and its number; the set's generate.json holds it.
  [[nodiscard]] virtual base::OrderedJson description() const = 0;
  /// Names of the labels 0, 1, ...; a set of one class has no names and no labels.
  [[nodiscard]] virtual std::vector<std::string> class_names() const { return {}; }
  [[nodiscard]] virtual int64_t label(int64_t /*sample*/) const { return 0; }

  /// Writes a sample in the stored type, channels last. Not for two threads at a time.
  virtual void make(int64_t sample, std::span<std::byte> image) = 0;
};

/// A coupling constant, or several, which the samples take in turn: sample i has number i mod n, its label.
struct Couplings {
  std::string name;  ///< "beta"
  std::vector<double> values;

  [[nodiscard]] std::size_t index(int64_t sample) const { return static_cast<std::size_t>(sample) % values.size(); }
  [[nodiscard]] double of(int64_t sample) const { return values[index(sample)]; }
  /// "beta 0.44" and so on; none for a single value.
  [[nodiscard]] std::vector<std::string> class_names() const;
};

/// A generator whose labels are numbers of couplings.
class CoupledGenerator : public Generator {
 public:
  [[nodiscard]] std::vector<std::string> class_names() const override { return couplings_.class_names(); }
  [[nodiscard]] int64_t label(int64_t sample) const override { return static_cast<int64_t>(couplings_.index(sample)); }

 protected:
  explicit CoupledGenerator(Couplings couplings) : couplings_(std::move(couplings)) {}
  [[nodiscard]] const Couplings& couplings() const { return couplings_; }

 private:
  Couplings couplings_;
};

/// /images of float32 or uint8 with the grid's sides and a channel for each variable.
data::Field make_image_field(const std::vector<int64_t>& sides, base::DType dtype,
                             std::vector<data::Variable> variables);

/// Stores doubles as float32.
void store(std::span<const double> values, std::span<std::byte> image);

}  // namespace ddpm::generate
