#include "data/prepare/find_source.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "base/named.h"
#include "data/prepare/archive.h"
#include "data/prepare/archive_file.h"
#include "data/prepare/cifar.h"
#include "data/prepare/decode.h"
#include "data/prepare/folder.h"
#include "data/prepare/idx.h"
#include "data/prepare/list_file.h"
#include "data/prepare/records.h"

namespace ddpm::data::prepare {
namespace {

constexpr std::string_view kFolderTag = "folder:";
constexpr std::string_view kListTag = "list:";
constexpr std::string_view kArchivesTag = "archives:";
constexpr std::string_view kRecordsTag = "records:";

bool is_folder(const base::Path& path) {
  return base::read_as<base::DatasetError>([&] { return base::kind_of(path); }) == base::FileKind::folder;
}

/// What lies in a folder instead of what is wanted.
std::string found_instead(const EndingCounts& other_files) {
  return other_files.empty() ? "it has no files" : "it has " + to_text(other_files);
}

/// Names become JSON strings in dataset.json.
void check_class_names(const std::vector<std::string>& names, std::string_view what) {
  for (const std::string& name : names) {
    try {
      static_cast<void>(base::Json(name).dump());
    } catch (const base::Json::exception&) {
      throw base::DatasetError("{}: {} is not UTF-8, as the name of a class must be", name, what);
    }
  }
}

/// The training files that `format` is published as, where the first of them lies in the folder; else none.
std::vector<base::Path> training_files(const base::Path& folder, SourceFormat format) {
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::vector<base::Path> {
    for (const char* name : names) {
      if (is_there(folder / name)) return {folder / name};
    }
    return {};
  };
  if (format == SourceFormat::idx) return first_of({"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"});
  if (format == SourceFormat::cifar100) return first_of({"train.bin"});
  std::vector<base::Path> batches = first_of({"data_batch_1.bin"});
  for (int i = 2; !batches.empty() && i <= 5; ++i) {
    batches.push_back(folder / fmt::format("data_batch_{}.bin", i));
    if (is_there(batches.back())) continue;
    throw base::DatasetError(
        "{}: not there, wanted data_batch_1.bin to data_batch_5.bin; fewer can be named one by one",
        batches.back().string());
  }
  return batches;
}

/// The files that the folder stands for, and their format.
std::pair<SourceFormat, std::vector<base::Path>> files_of_folder(const base::Path& folder, SourceFormat wanted,
                                                                 const EndingCounts& other_files) {
  std::pair<SourceFormat, std::vector<base::Path>> found;
  for (const SourceFormat format : {SourceFormat::idx, SourceFormat::cifar10, SourceFormat::cifar100}) {
    if (wanted != SourceFormat::automatic && wanted != format) continue;
    std::vector<base::Path> files = training_files(folder, format);
    if (files.empty()) continue;
    if (!found.second.empty()) {
      throw base::DatasetError("{}: has training files of both {} and {}; say which with --format", folder.string(),
                               base::name_of(found.first), base::name_of(format));
    }
    found = {format, std::move(files)};
  }
  if (!found.second.empty()) return found;
  if (wanted == SourceFormat::automatic) {
    throw base::DatasetError(
        "{}: no file ends in {} ({}), and none is named as the training files of MNIST or CIFAR are; files can be "
        "named one "
        "by one",
        folder.string(), kReadEndings, found_instead(other_files));
  }
  throw base::DatasetError("{}: no file is named as the training files of {} are; files can be named one by one",
                           folder.string(), base::name_of(wanted));
}

SourceFormat format_of(const base::Path& path) {
  if (is_list_name(path)) return SourceFormat::list;
  if (is_archive_name(path)) return SourceFormat::archive;
  PackedFile file(path);
  std::array<uint8_t, kArchiveSign> sign{};
  const auto size = std::min<uint64_t>(static_cast<uint64_t>(file.stamp().size), sign.size());
  if (!file.packed()) file.read(0, std::span(sign).first(size));
  if (looks_like_archive({reinterpret_cast<const char*>(sign.data()), sign.size()})) {  // NOLINT: bytes as text
    return SourceFormat::archive;
  }
  if (looks_like_idx(file)) return SourceFormat::idx;
  if (sniff(std::as_bytes(std::span(sign).first(size))) != FileType::unknown) {
    throw base::DatasetError(
        "{}: it is a picture; wanted: the folder that holds the pictures, "
        "or a list of them, which is a .txt with a path in each line",
        path.string());
  }
  return cifar_kind(file) == Cifar::ten ? SourceFormat::cifar10 : SourceFormat::cifar100;
}

RecordSet look_at_files(const SourceOptions& options, SourceFormat format, const std::vector<base::Path>& paths) {
  const bool with_labels = options.labels == Labels::kept;
  RecordSet set;
  if (format == SourceFormat::idx) {
    set.format = "IDX";
    for (const base::Path& path : paths) {
      const auto labels = with_labels ? std::optional(idx_labels_of(path)) : std::nullopt;
      set.files.push_back(look_at_idx(path, labels, options.limits.decode));
    }
    return set;
  }
  const Cifar kind = format == SourceFormat::cifar10 ? Cifar::ten : Cifar::hundred;
  set.format = name_of(kind);
  for (const base::Path& path : paths) set.files.push_back(look_at_cifar(path, kind, with_labels));
  if (with_labels) set.class_names = cifar_class_names(base::parent_of(paths.front()), kind);
  check_class_names(set.class_names, "a line of its names");
  return set;
}

std::string find_records(const SourceOptions& options, SourceFormat format, const std::vector<base::Path>& paths) {
  if (options.labels == Labels::folder) {
    throw base::ConfigError("--labels folder: {} is neither a folder nor an archive of pictures; wanted auto or none",
                            paths.front().string());
  }
  RecordSet set = look_at_files(options, format, paths);
  int64_t count = 0;
  for (const RecordFile& file : set.files) count += file.count;
  if (count == 0) throw base::DatasetError("{}: has no images", paths.front().string());
  return std::string(kRecordsTag) + pack(set);
}

/// The type of the first picture that tells one. Files that are missing, too large or no files are passed over here,
/// for they are refused or left out when they are read.
base::DType type_of_first(const base::FileSystem& files, const base::Path& root, const std::vector<std::string>& names,
                          const PictureLimits& limits) {
  for (const std::string& name : names) {
    try {
      const base::FileFacts facts = base::look_at(root / name);
      if (facts.kind != base::FileKind::regular) continue;
      if (static_cast<uint64_t>(facts.stamp.size) > limits.max_file_bytes) continue;
      const std::string bytes = files.read(root / name, limits.max_file_bytes);
      if (const auto type = told_type(bytes)) return *type;
    } catch (const base::OutputError& error) {
      throw base::DatasetError("{}", error.what());
    }
  }
  return base::DType::u8;
}

std::string find_list(const base::FileSystem& files, const SourceOptions& options,
                      const std::vector<base::Path>& paths) {
  if (options.labels == Labels::folder) {
    throw base::ConfigError("--labels folder: {} is a list, which has its own labels; wanted auto or none",
                            paths.front().string());
  }
  if (paths.size() > 1) throw base::ConfigError("SOURCE: {} lists, wanted one", paths.size());
  PictureFiles list = read_list(files, paths.front(), options.labels == Labels::kept);
  check_class_names(list.set.class_names, "a label of the list");
  list.set.dtype = type_of_first(files, list.root, list.names, options.limits);
  return std::string(kListTag) + pack(list);
}

std::string find_archives(const SourceOptions& options, const std::vector<base::Path>& paths) {
  const std::array labels = {ArchiveLabels::kept, ArchiveLabels::folder,
                             ArchiveLabels::none};  // in the order of Labels
  const ArchiveSet set = list_archives(paths, labels[static_cast<std::size_t>(options.labels)], options.limits);
  check_class_names(set.set.class_names, "a folder's name");
  if (set.pictures.empty()) {
    throw base::DatasetError("{}: no file in it ends in {} ({})", set.set.source, kReadEndings,
                             found_instead(set.set.other_files));
  }
  return std::string(kArchivesTag) + pack(set);
}

std::string find_files(const base::FileSystem& files, const SourceOptions& options, SourceFormat format,
                       const std::vector<base::Path>& paths) {
  if (format == SourceFormat::automatic) format = format_of(paths.front());
  if (format == SourceFormat::list) return find_list(files, options, paths);
  if (format == SourceFormat::archive) return find_archives(options, paths);
  return find_records(options, format, paths);
}

/// The pictures of a folder, or the training files that it stands for.
std::string find_in_folder(const base::FileSystem& files, const SourceOptions& options) {
  const base::Path& folder = options.paths.front();
  EndingCounts other_files;
  if (options.format == SourceFormat::folder || options.format == SourceFormat::automatic) {
    FolderListing listing = list_folder(files, folder);
    if (options.labels == Labels::folder) check_class_names(listing.class_names, "a folder's name");
    if (!listing.images.empty()) {
      listing.dtype = type_of_first(files, folder, listing.images, options.limits);
      return std::string(kFolderTag) + pack(listing);
    }
    other_files = listing.other_files;
    if (options.format == SourceFormat::folder) {
      throw base::DatasetError("{}: no file ends in {} ({})", folder.string(), kReadEndings,
                               found_instead(other_files));
    }
  }
  const auto [format, paths] = files_of_folder(folder, options.format, other_files);
  return find_records(options, format, paths);
}

}  // namespace

std::string find_source(const base::FileSystem& files, const SourceOptions& options) {
  if (options.paths.empty()) throw base::ConfigError("SOURCE: wanted a folder, or files");
  const base::Path& first = options.paths.front();
  for (const base::Path& path : options.paths) {
    if (options.paths.size() > 1 && (is_folder(path) || options.format == SourceFormat::folder)) {
      throw base::ConfigError("SOURCE: {} of {} is a folder, wanted one folder or files only", path.string(),
                              options.paths.size());
    }
  }
  if (!is_there(first)) {
    throw base::DatasetError(
        "{}: not there, wanted pictures (a folder, a list or archives), IDX or CIFAR files, or arrays "
        "(.npy, .npz, HDF5, NetCDF-4, a dataset)",
        first.string());
  }
  if (options.format == SourceFormat::folder || is_folder(first)) {
    if (options.format == SourceFormat::list || options.format == SourceFormat::archive) {
      throw base::ConfigError("--format {}: {} is a folder, wanted files", base::name_of(options.format),
                              first.string());
    }
    return find_in_folder(files, options);
  }
  return find_files(files, options, options.format, options.paths);
}

std::unique_ptr<ImageSource> open_source(const base::FileSystem& files, const SourceOptions& options,
                                         const std::string& found) {
  const auto rest = [&](std::string_view tag) { return found.substr(tag.size()); };
  if (found.starts_with(kRecordsTag)) return read_records(unpack_records(rest(kRecordsTag)));
  if (found.starts_with(kArchivesTag)) return read_archives(unpack_archives(rest(kArchivesTag)), options.limits);
  if (found.starts_with(kListTag)) return read_pictures(files, unpack_list(rest(kListTag)), options.limits);
  FolderListing listing = unpack_listing(rest(kFolderTag));
  return read_folder(files, options.paths.front(), std::move(listing), options.labels == Labels::folder,
                     options.limits);
}

}  // namespace ddpm::data::prepare
