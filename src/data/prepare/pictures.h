// Pictures in files of their own as the source of a dataset: those of a folder, or those that a list names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file_system.h"
#include "data/prepare/decode.h"
#include "data/prepare/endings.h"
#include "data/prepare/image_source.h"

namespace ddpm::data::prepare {

/// What a picture may cost.
struct PictureLimits {
  DecodeLimits decode;
  uint64_t max_file_bytes = uint64_t{1} << 29;  ///< larger files are left out
};

/// Labels of pictures are whole numbers up to this one.
inline constexpr int64_t kLargestLabel = (int64_t{1} << 31) - 1;

/// What the pictures of a source have in common.
struct PictureSet {
  std::string source;                    ///< its path
  base::DType dtype = base::DType::u8;   ///< that of the first picture that can be told
  bool has_labels = false;               ///< then a picture with a label below 0 is left out
  int64_t classes = 0;                   ///< labels are below it
  std::vector<std::string> class_names;  ///< names of labels 0, 1, ...; empty: they have none
  std::vector<Skipped> left_out;         ///< what was left out when the source was looked through
  EndingCounts other_files;              ///< files that are not pictures
};

/// Pictures that are files.
struct PictureFiles {
  PictureSet set;
  base::Path root;                 ///< what relative names lie in
  std::vector<std::string> names;  ///< in order
  std::vector<int64_t> labels;     ///< one for each name; empty where the set has no labels
  std::string no_label;            ///< why a picture has none
};

/// The type that a picture of these bytes is stored in, or nothing where that cannot be told.
std::optional<base::DType> told_type(std::string_view bytes);

/// Pictures of a source that are read one by one. What cannot be decoded is left out, as is what has no label where the
/// others have one. What cannot be read, because it is gone, permission is lacking or the machine fails, says nothing
/// of the picture: it throws DatasetError. `files` outlives the source.
std::unique_ptr<ImageSource> read_pictures(const base::FileSystem& files, PictureFiles pictures,
                                           const PictureLimits& limits);

/// The part of an ImageSource that all sources of pictures share.
class PictureSource : public ImageSource {
 public:
  PictureSource(PictureSet set, const PictureLimits& limits);

  [[nodiscard]] base::DType dtype() const override { return set_.dtype; }
  [[nodiscard]] bool has_labels() const override { return set_.has_labels; }
  [[nodiscard]] int64_t classes() const override { return set_.has_labels ? set_.classes : 0; }
  [[nodiscard]] std::vector<std::string> class_names() const override;
  [[nodiscard]] std::string name() const override { return set_.source; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<Skipped> left_out() const override { return set_.left_out; }
  [[nodiscard]] EndingCounts other_files() const override { return set_.other_files; }

 protected:
  [[nodiscard]] const PictureLimits& limits() const { return limits_; }
  /// A picture that may be whole is not left out: throws DatasetError, which says so.
  [[noreturn]] static void refuse(std::string_view what);
  /// Adds the limits to the digest.
  void identify_limits(base::Sha256& digest) const;
  /// Leaves out a picture that is larger than is read.
  void leave_out_large(const std::string& name, std::vector<Skipped>& skipped) const;
  /// The picture `name` in these bytes, or absent with the reason added to `skipped`. `path` is where memory ran out.
  [[nodiscard]] std::optional<Picture> decode(std::string_view bytes, int channels, const std::string& name,
                                              const std::string& path, std::vector<Skipped>& skipped) const;

 private:
  PictureSet set_;
  PictureLimits limits_;
};

}  // namespace ddpm::data::prepare
