#include "data/prepare/endings.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"

namespace ddpm::data::prepare {
namespace {

constexpr std::array<std::string_view, 6> kRead = {".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"};

constexpr std::array<std::string_view, 33> kUnreadPictures = {
    ".apng", ".avif", ".bmp",  ".cr2",  ".cr3", ".dcm",  ".dng", ".exr", ".fits", ".gif", ".h5",
    ".hdf5", ".hdr",  ".heic", ".heif", ".ico", ".jfif", ".jp2", ".jpe", ".jpx",  ".jxl", ".nef",
    ".nii",  ".npy",  ".npz",  ".pbm",  ".pcx", ".pgm",  ".pnm", ".ppm", ".psd",  ".svg", ".tga"};
static_assert(std::ranges::is_sorted(kUnreadPictures));

std::string name_of(const std::string& ending) { return ending.empty() ? "without an ending" : ending; }

}  // namespace

std::string ending_of(std::string_view name) {
  constexpr std::size_t kLongest = 12;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name.size() - dot > kLongest) return {};
  std::string ending(name.substr(dot));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool plain = std::all_of(ending.begin() + 1, ending.end(),
                                 [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  return plain && ending.size() > 1 ? ending : std::string();
}

bool is_read(std::string_view ending) { return std::ranges::find(kRead, ending) != kRead.end(); }

bool is_unread_picture(std::string_view ending) { return std::ranges::binary_search(kUnreadPictures, ending); }

int64_t total(const EndingCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0},
                         [](int64_t sum, const auto& count) { return sum + count.second; });
}

std::string to_text(const EndingCounts& counts) {
  constexpr std::size_t kShown = 8;
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, int64_t>::second);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(sorted.size(), kShown); ++i) {
    parts.push_back(fmt::format("{} {}", base::grouped(sorted[i].second), name_of(sorted[i].first)));
  }
  if (sorted.size() > kShown) {
    const auto rest = std::accumulate(sorted.begin() + kShown, sorted.end(), int64_t{0},
                                      [](int64_t sum, const auto& count) { return sum + count.second; });
    parts.push_back(fmt::format("{} with other endings", base::grouped(rest)));
  }
  if (parts.size() < 2) return parts.empty() ? "none" : parts.front();
  const std::string last = std::move(parts.back());
  parts.pop_back();
  return fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

}  // namespace ddpm::data::prepare
