#include "base/npy_header.h"

#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ddpm::base {
namespace {

constexpr std::size_t kMaxHeaderBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxAxes = 8;
constexpr int64_t kMaxElements = int64_t{1} << 48;

template <typename... Args>
[[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) {
  throw std::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

/// The dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, each key exactly once, in
/// any order. Accepts only what numpy writes for arrays of plain numbers, no other Python.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  NpyHeader parse() {
    NpyHeader header;
    std::array<bool, 3> seen{};
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      const int index = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (index < 0 || std::exchange(seen[static_cast<std::size_t>(index)], true)) {
        malformed("its header has the key '{}' unexpectedly or twice", key);
      }
      if (index == 0) header.descr = quoted();
      if (index == 1) header.fortran_order = boolean();
      if (index == 2) header.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) malformed("its header has text after the dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) malformed("its header lacks one of the keys descr, fortran_order, shape");
    return header;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed("its header has no '{}' at byte {}", c, at_);
  }
  std::string quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) malformed("its header has a string without an end");
    const std::size_t begin = std::exchange(at_, end + 1);
    return std::string(text_.substr(begin, end - begin));
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    malformed("its header has neither True nor False at byte {}", at_);
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> shape;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t extent = -1;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) malformed("its shape has something else than sizes at byte {}", at_);
      at_ = static_cast<std::size_t>(end - text_.data());
      shape.push_back(extent);
      if (shape.size() > kMaxAxes) malformed("it has more than {} axes", kMaxAxes);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// The bytes from `at` on, which `at` then stands behind; fails where there are fewer.
std::string next_bytes(const ReadUpTo& read, uint64_t& at, std::size_t size) {
  std::string bytes(size, '\0');
  if (read(at, std::as_writable_bytes(std::span(bytes))) != size) malformed("it ends within its header");
  at += size;
  return bytes;
}

/// Reads magic, version, length and dictionary text, which `at` then stands behind.
std::string read_header_text(const ReadUpTo& read, uint64_t& at) {
  const std::string prelude = next_bytes(read, at, 8);
  if (!prelude.starts_with("\x93NUMPY")) malformed("it does not begin with \\x93NUMPY");
  const int major = static_cast<unsigned char>(prelude[6]);
  if (major < 1 || major > 3) malformed("it has format version {}, wanted 1 to 3", major);
  // The length is a little-endian uint16 in version 1, a uint32 later.
  std::size_t length = 0;
  const std::string field = next_bytes(read, at, major == 1 ? 2 : 4);
  for (std::size_t i = field.size(); i-- > 0;) length = length << 8U | static_cast<unsigned char>(field[i]);
  if (length > kMaxHeaderBytes) malformed("its header has {} bytes, wanted at most {}", length, kMaxHeaderBytes);
  return next_bytes(read, at, length);
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent != 0 && count > kMaxElements / extent) malformed("its shape has more than {} elements", kMaxElements);
    count *= extent;
  }
  return count;
}

}  // namespace

NpyHeader read_npy_header(const ReadUpTo& read) {
  uint64_t at = 0;
  const std::string text = read_header_text(read, at);
  NpyHeader header = HeaderParser(text).parse();
  header.bytes = at;
  header.elements = element_count(header.shape);
  return header;
}

std::string npy_problem(const NpyHeader& header, uint64_t element_bytes, uint64_t file_bytes) {
  if (header.fortran_order) return "it is in Fortran order, wanted C order: numpy.ascontiguousarray(x)";
  const uint64_t wanted = header.bytes + static_cast<uint64_t>(header.elements) * element_bytes;
  return file_bytes == wanted ? "" : fmt::format("it has {} bytes, wanted {} for its shape", file_bytes, wanted);
}

}  // namespace ddpm::base
