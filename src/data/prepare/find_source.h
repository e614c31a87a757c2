// What SOURCE of `ddpm data create` is: a folder, a list or archives of pictures, IDX files, or CIFAR's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "data/prepare/image_source.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {

enum class SourceFormat : uint8_t { automatic, folder, list, archive, idx, cifar10, cifar100 };
constexpr auto names_of(SourceFormat /*type*/) {
  return std::to_array<std::string_view>({"auto", "folder", "list", "archive", "idx", "cifar10", "cifar100"});
}

enum class Labels : uint8_t {
  kept,    ///< those that the files have: folders of pictures have none
  folder,  ///< the top-level folder is the class: of pictures in a folder or in archives
  none,
};
constexpr auto names_of(Labels /*type*/) { return std::to_array<std::string_view>({"auto", "folder", "none"}); }

struct SourceOptions {
  /// One folder, or files: their images in the order given.
  std::vector<base::Path> paths;
  /// automatic: a folder with a picture at any depth is a folder of pictures, another one stands for the training files
  /// of MNIST, CIFAR-10 or CIFAR-100 that lie in it under their published names. Files are told by the first one: lists
  /// and archives by its name, archives and IDX by its first bytes, CIFAR by the size of its records.
  SourceFormat format = SourceFormat::automatic;
  Labels labels = Labels::kept;
  PictureLimits limits;
};

/// Looks through the source, on one rank. The text makes open_source() the same source on every rank.
/// Throws ConfigError when options do not go together, DatasetError when the source is absent, not whole, or none.
std::string find_source(const base::FileSystem& files, const SourceOptions& options);

/// The source that was found. `files` outlives it.
std::unique_ptr<ImageSource> open_source(const base::FileSystem& files, const SourceOptions& options,
                                         const std::string& found);

}  // namespace ddpm::data::prepare
