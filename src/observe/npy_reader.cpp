#include <bit>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/npy_header.h"
#include "observe/npy.h"

namespace ddpm::observe {

namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they are in memory");

template <typename... Args>
[[noreturn]] void fail(const std::filesystem::path& path, fmt::format_string<Args...> format, Args&&... args) {
  throw base::ConfigError("{}: not a float32 .npy file: {}", path.string(),
                          fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

NpyReader::NpyReader(const std::filesystem::path& path)
    : file_(base::read_as<base::ConfigError>([&] { return base::InputFile(path); })) {
  base::read_as<base::ConfigError>([this] { read_header(); });
}

void NpyReader::read_header() {
  const std::filesystem::path& path = file_.path();
  const base::NpyHeader header = [&] {
    try {
      return base::read_npy_header(
          [this](uint64_t offset, std::span<std::byte> out) { return file_.read_up_to(offset, out); });
    } catch (const std::invalid_argument& error) {
      fail(path, "{}", error.what());
    }
  }();
  if (header.descr != "<f4") fail(path, "its elements are '{}', wanted '<f4': x.astype('float32')", header.descr);
  const std::string problem = base::npy_problem(header, sizeof(float), file_.size());
  if (!problem.empty()) fail(path, "{}", problem);
  shape_ = header.shape;
  count_ = header.elements;
  data_offset_ = header.bytes;
}

void NpyReader::read(int64_t first, std::span<float> out) {
  const auto size = static_cast<int64_t>(out.size());
  DDPM_CHECK(first >= 0 && first + size <= count_, "elements [{}, {}) of {}", first, first + size, count_);
  const uint64_t offset = data_offset_ + static_cast<uint64_t>(first) * sizeof(float);
  base::read_as<base::ConfigError>([&] { file_.read(offset, std::as_writable_bytes(out)); });
}

void NpyReader::expect_unchanged() const {
  const std::filesystem::path& path = file_.path();
  const base::FileFacts now = base::read_as<base::ConfigError>([&] { return base::look_at(path); });
  if (now.kind == base::FileKind::regular && now.stamp == file_.stamp()) return;
  throw base::ConfigError("{}: it was changed, replaced or removed since it was opened; wanted: the file as it was",
                          path.string());
}

}  // namespace ddpm::observe
