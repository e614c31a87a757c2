// IDX and CIFAR files of a test, made byte by byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <zlib.h>

#include "data/prepare/test_files.h"

namespace ddpm::test {

/// Bytes that look like noise, another sequence for each seed.
inline std::string noise(std::size_t size, uint32_t seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525U + 1013904223U;
    byte = static_cast<char>(seed >> 24U);
  }
  return bytes;
}

inline std::string idx_header(const std::vector<uint32_t>& shape, uint8_t type = 8) {
  std::string bytes = {'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const uint32_t extent : shape) {
    for (unsigned shift = 32; shift > 0; shift -= 8) bytes.push_back(static_cast<char>(extent >> (shift - 8)));
  }
  return bytes;
}

/// `count` labels 0, 1, ... below `classes`, over and over.
inline std::string labels(uint32_t count, uint32_t classes) {
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % classes));
  return bytes;
}

/// Records of CIFAR-10 with labels 0 to 9.
inline std::string cifar10(uint32_t count, uint32_t seed = 1) {
  std::string bytes = noise(std::size_t{count} * 3073, seed);
  for (uint32_t i = 0; i < count; ++i) bytes[std::size_t{i} * 3073] = static_cast<char>(i % 10);
  return bytes;
}

/// Records of CIFAR-100: coarse labels 0 to 19, fine ones 0 to 99.
inline std::string cifar100(uint32_t count, uint32_t seed = 1) {
  std::string bytes = noise(std::size_t{count} * 3074, seed);
  for (uint32_t i = 0; i < count; ++i) {
    bytes[std::size_t{i} * 3074] = static_cast<char>(i % 20);
    bytes[std::size_t{i} * 3074 + 1] = static_cast<char>(i % 100);
  }
  return bytes;
}

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  const gzFile file = gzopen(path.c_str(), "wb");
  if (file == nullptr || gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) < 0 ||
      gzclose(file) != Z_OK) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

}  // namespace ddpm::test
