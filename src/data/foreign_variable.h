// Inside src/data: an array of a foreign file with the names of its axes, as NetCDF and The Well give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/decoding.h"
#include "data/variable_request.h"
#include "h5/file.h"

namespace ddpm::data {

struct ForeignAxis {
  std::string name;         ///< name of its dimension; where it has none, its number, counted from 0
  std::string coordinates;  ///< the array of its coordinates in the file; "": there are none
  int64_t extent = 0;       ///< places along it; with a fill value the first axis may have more than the array has
};

/// Axes of The Well's fields, beside those of space, which its files name.
inline constexpr const char* kTrajectory = "trajectory";
inline constexpr const char* kTime = "time";
inline constexpr const char* kComponent = "component";

/// "a, b and 3 more", for messages.
std::string some_of(std::vector<std::string> names);

struct ForeignVariable {
  h5::Array array;
  std::vector<ForeignAxis> axes;
  Decoding decoding;
  std::string unit;
};

/// What is known of a file before its variables are.
struct ForeignFile {
  const h5::File& file;
  bool is_netcdf = false;
  std::vector<std::string> space;  ///< The Well's axes of space; empty: another file

  static ForeignFile of(const h5::File& file);
  [[nodiscard]] bool is_well() const { return !space.empty(); }
  /// Opens the array of this name: an absolute one, or one at the file's root, or among The Well's fields.
  [[nodiscard]] ForeignVariable open(const std::string& name) const;
  /// Whether there is an array of this name.
  [[nodiscard]] bool has(const std::string& name) const;
  /// The coordinates of an axis; empty where it has none.
  [[nodiscard]] std::vector<double> coordinates(const ForeignAxis& axis) const;
  /// The attribute `units` of its coordinates; "": there is none.
  [[nodiscard]] std::string unit_of(const ForeignAxis& axis) const;
  /// The place along an axis that was chosen. Throws DatasetError where there is none.
  [[nodiscard]] int64_t place(const ForeignAxis& axis, const VariableRequest::Choice& choice,
                              const std::string& label) const;
  /// Whether the file says which boundaries its fields have, as The Well's do.
  [[nodiscard]] bool tells_boundaries() const { return is_well() && file.contains("/boundary_conditions"); }
  /// The axes whose boundaries are all periodic.
  [[nodiscard]] std::vector<std::string> periodic_axes() const;
};

}  // namespace ddpm::data
