// The binary version of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html).
//
// A file is records without a header: in CIFAR-10 the label, in CIFAR-100 the coarse and the fine label, one byte each;
// then 3072 bytes, the red, green and blue planes of 32 x 32 pixels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "data/prepare/records.h"

namespace ddpm::data::prepare {

enum class Cifar : uint8_t { ten, hundred };

/// The kind whose records fill the file exactly; DatasetError when neither or both do.
Cifar cifar_kind(const PackedFile& file);

/// "CIFAR-10" or "CIFAR-100".
std::string name_of(Cifar kind);

/// Looks through the file. Throws DatasetError unless it is whole records with labels of the kind's classes. Of
/// CIFAR-100 the label is the fine one.
RecordFile look_at_cifar(const base::Path& path, Cifar kind, bool with_labels);

/// One name a line, as many as the kind has classes, or DatasetError; empty lines do not count. `origin` names the
/// file.
std::vector<std::string> parse_cifar_names(std::string_view text, Cifar kind, const std::string& origin);

/// The class names of `folder`'s batches.meta.txt or fine_label_names.txt; empty where there is no such file.
std::vector<std::string> cifar_class_names(const base::Path& folder, Cifar kind);

}  // namespace ddpm::data::prepare
