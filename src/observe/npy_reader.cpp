#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/pulse.h"
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

/// Reads exactly `size` bytes, or fails.
std::string read_bytes(std::ifstream& stream, std::size_t size, const std::filesystem::path& path) {
  std::string bytes(size, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  if (static_cast<std::size_t>(stream.gcount()) != size) fail(path, "it ends within its header");
  return bytes;
}

/// Reads magic, version, length and dictionary text.
std::string read_header_text(std::ifstream& stream, const std::filesystem::path& path) {
  const std::string prelude = read_bytes(stream, 8, path);
  if (!prelude.starts_with("\x93NUMPY")) fail(path, "it does not begin with \\x93NUMPY");
  const int major = static_cast<unsigned char>(prelude[6]);
  if (major < 1 || major > 3) fail(path, "it has format version {}, wanted 1 to 3", major);
  // The length is a little-endian uint16 in version 1, a uint32 later.
  std::size_t length = 0;
  const std::string field = read_bytes(stream, major == 1 ? 2 : 4, path);
  for (std::size_t i = field.size(); i-- > 0;) length = length << 8U | static_cast<unsigned char>(field[i]);
  if (length > kMaxHeaderBytes) fail(path, "its header has {} bytes, wanted at most {}", length, kMaxHeaderBytes);
  return read_bytes(stream, length, path);
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

NpyReader::NpyReader(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // of a regular file only: a pipe could wait for ever
  if (!error) stream_.open(path, std::ios::binary);
  if (error || !stream_) throw base::ConfigError("{}: cannot be opened for reading", path.string());

  const std::string text = read_header_text(stream_, path);
  const Header header = HeaderParser(text, path).parse();
  if (header.descr != "<f4") fail(path, "its elements are '{}', wanted '<f4': x.astype('float32')", header.descr);
  if (header.fortran_order) fail(path, "it is in Fortran order, wanted C order: numpy.ascontiguousarray(x)");
  shape_ = header.shape;
  count_ = element_count(shape_, path);
  data_offset_ = static_cast<int64_t>(stream_.tellg());
  const auto wanted = static_cast<uint64_t>(data_offset_) + static_cast<uint64_t>(count_) * sizeof(float);
  if (size != wanted) fail(path, "it has {} bytes, wanted {} for its shape", size, wanted);
}

void NpyReader::read(int64_t first, std::span<float> out) {
  const auto size = static_cast<int64_t>(out.size());
  DDPM_CHECK(first >= 0 && first + size <= count_, "elements [{}, {}) of {}", first, first + size, count_);
  stream_.seekg(data_offset_ + first * static_cast<int64_t>(sizeof(float)));
  const auto bytes = std::as_writable_bytes(out);
  stream_.read(reinterpret_cast<char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));  // NOLINT: char is bytes
  if (!stream_) throw base::ConfigError("{}: elements [{}, {}) cannot be read", path_.string(), first, first + size);
  base::pulse();
}

}  // namespace ddpm::observe
