// Reads an array of an HDF5 file as training does, for chunks.py.
//
//   bench_chunks FILE NAME           For each line of standard input, reads the array once, in blocks of 8 rows, and
//                                    prints the seconds.
//   bench_chunks FILE FILTER BYTES   The same with HDF5's filter of this number alone: FILE holds packed chunks of
//   BYTES
//                                    bytes, each after its size in 8 bytes. They are in memory before the clock runs.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "h5/file.h"
#include "h5/filters.h"

namespace {

using namespace ddpm;
using Bytes = std::vector<std::byte>;

void read_array(const h5::File& file, const std::string& name, Bytes& block) {
  constexpr int64_t kRows = 8;
  const h5::Array array = file.array(name);  // each pass with no chunks kept
  block.resize(kRows * array.row_bytes());
  for (int64_t first = 0; first < array.rows(); first += kRows) {
    const int64_t n = std::min(kRows, array.rows() - first);
    array.read_rows(first, n, std::span(block).first(static_cast<std::size_t>(n) * array.row_bytes()));
  }
}

std::vector<Bytes> packed_chunks(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Bytes> chunks;
  uint64_t size = 0;
  while (file.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    file.read(reinterpret_cast<char*>(chunks.emplace_back(size).data()), static_cast<std::streamsize>(size));
  }
  return chunks;
}

void time_each_line(const std::function<void()>& work) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << seconds.count() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2) {
    const h5::File file = h5::File::open(arguments[0]);
    Bytes block;
    time_each_line([&] { read_array(file, arguments[1], block); });
    return 0;
  }
  const std::vector<Bytes> chunks = packed_chunks(arguments.at(0));
  Bytes values(std::stoull(arguments.at(2)));
  h5::ChunkDecoder decoder({{.id = std::stoi(arguments.at(1))}}, values.size());
  time_each_line([&] {
    for (const Bytes& chunk : chunks) decoder.decode(0, "a chunk", chunk, values);
  });
  return 0;
}
