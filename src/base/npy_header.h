// The header of NumPy's .npy files, which is not trusted. Format: numpy.lib.format, versions 1.0 to 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ddpm::base {

struct NpyHeader {
  std::string descr;  ///< the type of an element, such as "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;    ///< before the first element
  int64_t elements = 1;  ///< all of them: at most 2^48
};

/// Gives bytes from an offset on, fewer only at the end.
using ReadUpTo = std::function<std::size_t(uint64_t offset, std::span<std::byte> out)>;

/// Reads the header at the beginning of what `read` gives: of versions 1 to 3, at most 64 KiB, with a shape of at most
/// 8 axes, and no other Python than numpy writes for arrays of plain numbers. Anything else throws
/// std::invalid_argument with the reason, which callers turn into their own error with the file's path.
NpyHeader read_npy_header(const ReadUpTo& read);

/// Why the elements, of so many bytes each, of a file of so many bytes cannot be read in their order; "" if they can.
std::string npy_problem(const NpyHeader& header, uint64_t element_bytes, uint64_t file_bytes);

}  // namespace ddpm::base
