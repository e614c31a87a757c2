// Reads an array of an HDF5 file as training does, for chunks.py.
//
//   bench_chunks FILE NAME   For each line of standard input, reads the array once, in blocks of 8 rows, and prints the
//                            seconds.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "h5/file.h"

int main(int argc, char** argv) {
  using namespace ddpm;
  constexpr int64_t kRows = 8;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const h5::File file = h5::File::open(arguments.at(0));
  std::vector<std::byte> block;
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    const h5::Dataset array = file.dataset(arguments.at(1));  // each pass with no chunks kept
    block.resize(kRows * array.row_bytes());
    for (int64_t first = 0; first < array.rows(); first += kRows) {
      const int64_t n = std::min(kRows, array.rows() - first);
      array.read_rows(first, n, std::span(block).first(static_cast<std::size_t>(n) * array.row_bytes()));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << seconds.count() << std::endl;
  }
  return 0;
}
