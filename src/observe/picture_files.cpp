#include "observe/picture_files.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace ddpm::observe {
namespace {

constexpr std::string_view kStepPrefix = "step-";

}  // namespace

std::string picture_name(int64_t step) { return fmt::format("{}{:08}.png", kStepPrefix, step); }

void cut_back_pictures(base::FileSystem& files, const base::Path& folder, int64_t step) {
  if (!files.exists(folder)) return;
  for (const std::string& name : files.list(folder)) {
    int64_t of = 0;
    const std::string_view number = std::string_view(name).substr(std::min(kStepPrefix.size(), name.size()));
    std::from_chars(number.data(), number.data() + number.size(), of);
    const bool later = name == picture_name(of) && of > step;
    if (later || name.starts_with(fmt::format(".{}", kStepPrefix))) files.remove(folder / name);
  }
}

}  // namespace ddpm::observe
