// Decodes and resizes the pictures of a folder, on one thread, from memory: `ddpm data create` cannot be faster on a
// core. creating.py runs it.
//
//   bench_decode FOLDER SIZE      prints pictures per second, decoding alone and with resizing
#include "data/prepare/decode.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/fit.h"
#include "support/decode_image.h"

namespace {

namespace prepare = ddpm::data::prepare;

std::vector<std::string> read_all(const char* folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

double pictures_per_second(const std::vector<std::string>& files, int size) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& file : files) {
    const auto image = ddpm::test::decode_image(std::as_bytes(std::span(file)), 3);
    if (size > 0) (void)prepare::fit(image, {.sides = {size, size}}, 0);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return static_cast<double>(files.size()) / taken.count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "bench_decode FOLDER SIZE\n");
    return 2;
  }
  const auto files = read_all(argv[1]);
  (void)pictures_per_second(files, 0);
  const double decoding = pictures_per_second(files, 0);
  std::printf("%.1f %.1f\n", decoding, pictures_per_second(files, std::atoi(argv[2])));
}
