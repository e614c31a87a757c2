// Where the fields of a new dataset come from, whose values are stored as they are: NumPy's arrays, HDF5 files, other
// datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "comm/communicator.h"
#include "data/field.h"

namespace ddpm::data::prepare {

/// Images 0, 1, ... size() - 1, the same on every rank. What is wrong throws DatasetError, unless something else is
/// said.
class FieldSource {
 public:
  virtual ~FieldSource() = default;

  /// What stands for it in messages: its path.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual int64_t size() const = 0;
  /// What each image has.
  [[nodiscard]] virtual const std::vector<Field>& fields() const = 0;
  /// What all images share.
  [[nodiscard]] virtual const std::vector<Field>& set_fields() const = 0;
  /// The names of labels 0, 1, ...; empty where they have none.
  [[nodiscard]] virtual std::vector<std::string> class_names() const = 0;
  /// Adds to `digest` all that the values depend on: files by name, size and time of the last change.
  virtual void identify(base::Sha256& digest) const = 0;

  /// The values of images [first, first + count) of one of fields(), channels last. Going through them in order is
  /// cheapest.
  virtual void read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) = 0;
  /// The values of one of set_fields().
  virtual std::vector<std::byte> read_set(std::size_t field) = 0;
  /// Collective: closes what is open together.
  virtual void close(comm::Communicator& /*comm*/) {}
};

/// Several sources one after another, whose fields are the same and whose images share the same values. One is itself.
std::unique_ptr<FieldSource> join_sources(std::vector<std::unique_ptr<FieldSource>> parts);

}  // namespace ddpm::data::prepare
