// What WebDataset's layout says of a file in an archive: https://github.com/webdataset/webdataset
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace ddpm::data::prepare {

/// The key of the sample that a file belongs to: its name up to the first dot behind the last slash.
std::string_view sample_key(std::string_view name);

/// The number of a class that a .cls file holds; nothing when it holds anything else.
std::optional<int64_t> label_of_cls(std::string_view text);
/// The number under "label", or else under "cls", of a .json file; nothing when there is none.
std::optional<int64_t> label_of_json(std::string_view text);

/// What stands for a file of one of several archives in lists and messages: with its archive, where there are several.
std::string shown_name(const std::vector<base::Path>& archives, int64_t archive, std::string_view name);

}  // namespace ddpm::data::prepare
