#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "observe/npy.h"

namespace ddpm::observe {

namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they are in memory");

constexpr std::size_t kMaxHeaderBytes = 64 * 1024;
constexpr std::size_t kMaxAxes = 8;
constexpr int64_t kMaxElements = int64_t{1} << 48;

template <typename... Args>
[[noreturn]] void fail(const std::filesystem::path& path, fmt::format_string<Args...> format, Args&&... args) {
  throw base::ConfigError("{}: not a float32 .npy file: {}", path.string(),
                          fmt::format(format, std::forward<Args>(args)...));
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// The dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, each key exactly once, in
/// any order. Accepts only what numpy writes for arrays of plain numbers, no other Python.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::filesystem::path& path) : text_(text), path_(path) {}

  Header parse() {
    Header header;
    std::array<bool, 3> seen{};
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      const int index = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (index < 0 || std::exchange(seen[static_cast<std::size_t>(index)], true)) {
        fail(path_, "its header has the key '{}' unexpectedly or twice", key);
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
    if (at_ != text_.size()) fail(path_, "its header has text after the dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) fail(path_, "its header lacks one of the keys descr, fortran_order, shape");
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
    if (!accept(c)) fail(path_, "its header has no '{}' at byte {}", c, at_);
  }
  std::string quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail(path_, "its header has a string without an end");
    return std::string(text_.substr(std::exchange(at_, end + 1), end - at_));
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail(path_, "its header has neither True nor False at byte {}", at_);
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> shape;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t extent = -1;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) fail(path_, "its shape has something else than sizes at byte {}", at_);
      at_ = static_cast<std::size_t>(end - text_.data());
      shape.push_back(extent);
      if (shape.size() > kMaxAxes) fail(path_, "it has more than {} axes", kMaxAxes);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::filesystem::path& path_;
  std::size_t at_ = 0;
};

/// The bytes from `at` on, which `at` then stands behind; fails where the file ends before.
std::string next_bytes(const base::InputFile& file, uint64_t& at, std::size_t size) {
  std::string bytes(size, '\0');
  if (file.read_up_to(at, std::as_writable_bytes(std::span(bytes))) != size) {
    fail(file.path(), "it ends within its header");
  }
  at += size;
  return bytes;
}

/// Reads magic, version, length and dictionary text, which `at` then stands behind.
std::string read_header_text(const base::InputFile& file, uint64_t& at) {
  const std::string prelude = next_bytes(file, at, 8);
  if (!prelude.starts_with("\x93NUMPY")) fail(file.path(), "it does not begin with \\x93NUMPY");
  const int major = static_cast<unsigned char>(prelude[6]);
  if (major < 1 || major > 3) fail(file.path(), "it has format version {}, wanted 1 to 3", major);
  // The length is a little-endian uint16 in version 1, a uint32 later.
  std::size_t length = 0;
  const std::string field = next_bytes(file, at, major == 1 ? 2 : 4);
  for (std::size_t i = field.size(); i-- > 0;) length = length << 8U | static_cast<unsigned char>(field[i]);
  if (length > kMaxHeaderBytes) {
    fail(file.path(), "its header has {} bytes, wanted at most {}", length, kMaxHeaderBytes);
  }
  return next_bytes(file, at, length);
}

int64_t element_count(const std::vector<int64_t>& shape, const std::filesystem::path& path) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent != 0 && count > kMaxElements / extent) fail(path, "its shape has more than {} elements", kMaxElements);
    count *= extent;
  }
  return count;
}

}  // namespace

NpyReader::NpyReader(const std::filesystem::path& path)
    : file_(base::read_as<base::ConfigError>([&] { return base::InputFile(path); })) {
  base::read_as<base::ConfigError>([this] { read_header(); });
}

void NpyReader::read_header() {
  const std::filesystem::path& path = file_.path();
  uint64_t at = 0;
  const std::string text = read_header_text(file_, at);
  const Header header = HeaderParser(text, path).parse();
  if (header.descr != "<f4") fail(path, "its elements are '{}', wanted '<f4': x.astype('float32')", header.descr);
  if (header.fortran_order) fail(path, "it is in Fortran order, wanted C order: numpy.ascontiguousarray(x)");
  shape_ = header.shape;
  count_ = element_count(shape_, path);
  data_offset_ = at;
  const auto wanted = data_offset_ + static_cast<uint64_t>(count_) * sizeof(float);
  if (file_.size() != wanted) fail(path, "it has {} bytes, wanted {} for its shape", file_.size(), wanted);
}

void NpyReader::read(int64_t first, std::span<float> out) {
  const auto size = static_cast<int64_t>(out.size());
  DDPM_CHECK(first >= 0 && first + size <= count_, "elements [{}, {}) of {}", first, first + size, count_);
  const uint64_t offset = data_offset_ + static_cast<uint64_t>(first) * sizeof(float);
  base::read_as<base::ConfigError>([&] { file_.read(offset, std::as_writable_bytes(out)); });
}

}  // namespace ddpm::observe
