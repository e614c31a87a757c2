// Inside src/data: stored values of foreign arrays as float32, by the attributes that NetCDF's conventions name.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "h5/file.h"

namespace ddpm::data {

/// How stored values of one array become float32: x * scale_factor + add_offset, computed in the types that NumPy and
/// the netCDF4 package take (float64, or float32 where the stored values and the attributes need no more). Values that
/// are missing become NaN: those equal to _FillValue or to one of missing_value, those outside valid_range, valid_min
/// and valid_max, and in a NetCDF file whose variable has no _FillValue those equal to NetCDF's own, but for bytes.
/// `_Unsigned = "true"` has signed integers taken for unsigned ones, of which none equals NetCDF's own.
class Decoding {
 public:
  /// By the attributes of the array. Throws DatasetError for elements that are not numbers.
  static Decoding of(const h5::Array& array, bool is_netcdf);

  /// As many floats as there are stored values, which are in the processor's byte order.
  void decode(std::span<const std::byte> stored, std::span<float> out) const;
  [[nodiscard]] std::size_t element_bytes() const { return h5::size_of(element_); }
  /// Whether stored values are numbers of something else: there is a scale_factor or an add_offset.
  [[nodiscard]] bool is_packed() const { return scales_ || shifts_; }
  /// All that decode() depends on, on one line.
  [[nodiscard]] std::string text() const;

 private:
  void find_missing(const h5::Array& array, bool is_netcdf);
  void add_missing(const std::vector<double>& values);
  /// Adds the values of the attribute `name`; returns whether there is one. Values of 64-bit integers are taken
  /// exactly.
  bool add_missing(const h5::Array& array, const std::string& name);
  /// A value of an attribute as the type of the stored ones holds it; false if that is another number.
  [[nodiscard]] bool hold(double& value) const;
  template <typename T>
  void decode_as(std::span<const std::byte> stored, std::span<float> out) const;

  h5::Element stored_ = h5::Element::f32;   // as the file says
  h5::Element element_ = h5::Element::f32;  // after _Unsigned
  std::vector<double> missing_;
  std::vector<uint64_t> missing_words_;  // instead of them, where stored values are integers of 64 bits
  double least_ = -std::numeric_limits<double>::infinity();
  double most_ = std::numeric_limits<double>::infinity();
  bool scales_ = false;
  bool shifts_ = false;
  bool rounds_product_ = false;  // to float32, before add_offset is added
  double scale_ = 1.0;
  double offset_ = 0.0;
};

/// Stored values as they are.
std::vector<double> numbers_of(std::span<const std::byte> stored, h5::Element element);

}  // namespace ddpm::data
