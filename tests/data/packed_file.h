// HDF5 files as other programs write them, made with the C API itself.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/file_system.h"

namespace ddpm::data {

/// What write_packed_file() puts into a file.
struct PackedFile {
  static constexpr std::array<hsize_t, 4> kShape = {8, 4, 4, 1};
  static constexpr hsize_t kImages = kShape[0];
  static uint8_t value(std::size_t i) { return static_cast<uint8_t>(i * 7); }
  static float condition(std::size_t i) { return static_cast<float>(i % 100) / 8.0F; }
  static int16_t label(std::size_t i) { return static_cast<int16_t>(i * i % 5); }
};

inline void write_array(hid_t file, const char* name, std::vector<hsize_t> shape, hid_t stored, hid_t memory,
                        const void* values, hid_t properties = H5P_DEFAULT) {
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t array = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(array, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  H5Dclose(array);
  H5Sclose(space);
}

/// A file of HDF5's oldest format, which has no checksums of its own: /images of uint8 in chunks of two images, packed
/// by shuffle and gzip.
inline void write_old_file(const base::Path& path) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const std::array<hsize_t, 4> chunk = {2, 4, 4, 1};
  H5Pset_chunk(properties, 4, chunk.data());
  H5Pset_shuffle(properties);
  H5Pset_deflate(properties, 1);
  std::vector<uint8_t> values(128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = PackedFile::value(i);
  write_array(file, "/images", {8, 4, 4, 1}, H5T_STD_U8LE, H5T_NATIVE_UINT8, values.data(), properties);
  H5Pclose(properties);
  H5Fclose(file);
}

/// Writes what write_old_file() does, and besides: /condition of float32 in one piece, most significant byte first and
/// more than one block of digests long, /labels of int16, which have to be converted, and in a group text, which only
/// HDF5 reads.
inline void write_packed_file(const base::Path& path) {
  write_old_file(path);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  std::vector<float> condition(PackedFile::kImages * 4 * 4 * 60);
  for (std::size_t i = 0; i < condition.size(); ++i) condition[i] = PackedFile::condition(i);
  write_array(file, "/condition", {PackedFile::kImages, 4, 4, 60}, H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, condition.data());
  std::vector<int16_t> labels(PackedFile::kImages);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = PackedFile::label(i);
  write_array(file, "/labels", {PackedFile::kImages}, H5T_STD_I16LE, H5T_NATIVE_INT16, labels.data());
  H5Gclose(H5Gcreate2(file, "/about", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 8);
  write_array(file, "/about/units", {2}, text, text, "kelvin\0\0pascal\0");
  H5Tclose(text);
  H5Fclose(file);
}

}  // namespace ddpm::data
