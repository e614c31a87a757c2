// Which class of a model `ddpm sample --class-label` means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"

namespace ddpm::denoise {

/// The class that `text` means: a number, or one of the model's class names (of classes 0, 1, ...; empty when not
/// known). Where the text is both, as for folders that are called 0, 1, 10, 11, 2, it is the number of a class, and a
/// warning names both classes. Throws base::ConfigError for a name that no class has, with the nearest one.
int64_t class_of(const std::string& text, const std::vector<std::string>& names, const base::Logger& log);

/// "class 7 (horse)", or "class 7" when its name is not known.
std::string described_class(int64_t label, const std::vector<std::string>& names);

}  // namespace ddpm::denoise
