// In what two records of images differ, for messages.
#pragma once

#include <string>

#include "denoise/image_record.h"

namespace ddpm::denoise {

/// "condition: [12, 16, 1] of float32, wanted [24, 32, 1] of float32; positions: false, wanted true": in what `seen` is
/// not `wanted`, of type, fields, names, transforms, positions and axes that go around; of many things the first three
/// and how many more. "" where nothing differs; class names and files are not looked at, nor are sizes but those of
/// whole images in which a model without fields is given positions.
std::string difference(const ImageRecord& seen, const ImageRecord& wanted);

}  // namespace ddpm::denoise
