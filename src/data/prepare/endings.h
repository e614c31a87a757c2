// Which files a folder of pictures gives by their names, and what is said of the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ddpm::data::prepare {

/// The ending of a file's name in lower case, with its dot: ".png"; "" for a name that has none.
std::string ending_of(std::string_view name);

/// The formats of pictures that are read, for people.
inline constexpr std::string_view kReadFormats = "PNG, JPEG, WebP and TIFF";
/// The endings of their names, for people.
inline constexpr std::string_view kReadEndings = ".png, .jpg, .jpeg, .webp, .tif or .tiff";

/// Whether pictures with this ending are read.
bool is_read(std::string_view ending);

/// Whether this ending is usual for a picture or an array that is not read: who put such files among the pictures may
/// believe them to be in the set.
bool is_unread_picture(std::string_view ending);

/// Files that are not read, by their ending.
using EndingCounts = std::map<std::string, int64_t>;

int64_t total(const EndingCounts& counts);

/// "3 .webp, 2 .txt and 1 without an ending", the most frequent first. Rare endings are summed up where there are many.
std::string to_text(const EndingCounts& counts);

}  // namespace ddpm::data::prepare
