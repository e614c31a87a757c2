#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "data/prepare/archive.h"
#include "data/prepare/archive_file.h"
#include "data/prepare/webdataset.h"

namespace ddpm::data::prepare {
namespace {

/// One archive that stays open, at one of its entries.
class OpenArchive {
 public:
  OpenArchive(const base::Path& path, int64_t archive) : file_(path), archive_(archive) {}

  [[nodiscard]] const base::FileStamp& stamp() const { return file_.stamp(); }
  /// Whether the entry can still be reached.
  [[nodiscard]] bool can_reach(const ArchivedPicture& picture) const {
    return picture.archive == archive_ && picture.entry >= next_;
  }
  std::optional<std::string> read(const ArchivedPicture& picture, uint64_t max_bytes) {
    std::optional<ArchiveEntry> entry;
    for (; next_ <= picture.entry; ++next_) entry = file_.next();
    if (!entry || entry->name != picture.name) {
      throw base::DatasetError("{}: changed while the dataset was made", file_.path().string());
    }
    return file_.read(max_bytes);
  }

 private:
  ArchiveFile file_;
  int64_t archive_;
  int64_t next_ = 0;
};

class ArchiveSource final : public PictureSource {
 public:
  ArchiveSource(ArchiveSet set, const PictureLimits& limits)
      : PictureSource(std::move(set.set), limits),
        paths_(std::move(set.paths)),
        stamps_(std::move(set.stamps)),
        pictures_(std::move(set.pictures)),
        no_label_(std::move(set.no_label)) {}

  [[nodiscard]] int64_t size() const override { return std::ssize(pictures_); }
  /// The key of its sample: what belongs together is not torn apart.
  [[nodiscard]] std::string name_of(int64_t index) const override {
    return std::string(sample_key(picture_of(index).name));
  }

  [[nodiscard]] std::vector<base::FileStamp> look_at(const layout::Range& candidates) const override {
    std::vector<base::FileStamp> stamps;
    for (int64_t i = candidates.begin; i < candidates.end; ++i) {
      stamps.push_back(stamps_[static_cast<std::size_t>(picture_of(i).archive)]);
      stamps.back().size = std::max<int64_t>(picture_of(i).size, 0);
    }
    return stamps;
  }

  void identify(std::span<const int64_t> candidates, std::span<const base::FileStamp> stamps,
                base::Sha256& digest) const override {
    identify_limits(digest);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      const ArchivedPicture& picture = picture_of(candidates[k]);
      const std::size_t archive = static_cast<std::size_t>(picture.archive);
      for (const std::string& text : {paths_[archive].string(), picture.name}) {
        digest.update(text);
        digest.update(std::string_view("\0", 1));
      }
      digest.update(fmt::format("{} {} {} {} {} {}\n", stamps_[archive].size, stamps[k].size, stamps[k].seconds,
                                stamps[k].nanoseconds, picture.entry, has_labels() ? picture.label : 0));
    }
  }

  std::optional<Sample> read(int64_t index, int channels, std::vector<Skipped>& skipped) override {
    const ArchivedPicture& picture = picture_of(index);
    const std::string name = shown_name(paths_, picture.archive, picture.name);
    if (has_labels() && picture.label < 0) {
      skipped.push_back({name, no_label_});
      return std::nullopt;
    }
    if (picture.size > static_cast<int64_t>(limits().max_file_bytes)) {
      leave_out_large(name, skipped);
      return std::nullopt;
    }
    const std::string place = paths_[static_cast<std::size_t>(picture.archive)].string() + '/' + picture.name;
    try {
      const auto bytes = picture.offset >= 0 ? read_at(picture) : unpack(picture, name, skipped);
      if (!bytes) return std::nullopt;
      auto image = decode(*bytes, channels, name, place, skipped);
      if (image) return Sample{*std::move(image), has_labels() ? picture.label : 0};
    } catch (const base::OutputError& error) {
      refuse(error.what());
    } catch (const std::bad_alloc&) {
      refuse(place + ": there is not enough memory to read and decode it");
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const ArchivedPicture& picture_of(int64_t index) const {
    return pictures_[static_cast<std::size_t>(index)];
  }

  void require_unchanged(const ArchivedPicture& picture, const base::FileStamp& stamp) const {
    const auto archive = static_cast<std::size_t>(picture.archive);
    if (stamp == stamps_[archive]) return;
    throw base::DatasetError("{}: changed while the dataset was made", paths_[archive].string());
  }

  /// The bytes of a picture in a tar file that is not packed.
  std::optional<std::string> read_at(const ArchivedPicture& picture) {
    const base::Path& path = paths_[static_cast<std::size_t>(picture.archive)];
    if (!plain_ || plain_->path() != path) {
      plain_.emplace(path);
      require_unchanged(picture, plain_->stamp());
    }
    std::string bytes(static_cast<std::size_t>(picture.size), '\0');
    plain_->read(static_cast<uint64_t>(picture.offset), std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  /// The bytes of a picture that is unpacked on the way, or nothing with the reason added to `skipped`.
  std::optional<std::string> unpack(const ArchivedPicture& picture, const std::string& name,
                                    std::vector<Skipped>& skipped) {
    if (!open_ || !open_->can_reach(picture)) {
      open_.emplace(paths_[static_cast<std::size_t>(picture.archive)], picture.archive);
      require_unchanged(picture, open_->stamp());
    }
    try {
      auto bytes = open_->read(picture, limits().max_file_bytes);
      if (!bytes) leave_out_large(name, skipped);
      return bytes;
    } catch (const base::DatasetAccessError& error) {
      refuse(error.what());
    } catch (const base::DatasetError& error) {
      open_.reset();  // libarchive does not go on after an error
      skipped.push_back({name, error.what()});
      return std::nullopt;
    }
  }

  std::vector<base::Path> paths_;
  std::vector<base::FileStamp> stamps_;
  std::vector<ArchivedPicture> pictures_;
  std::string no_label_;
  std::optional<base::InputFile> plain_;
  std::optional<OpenArchive> open_;
};

}  // namespace

std::unique_ptr<ImageSource> read_archives(ArchiveSet set, const PictureLimits& limits) {
  return std::make_unique<ArchiveSource>(std::move(set), limits);
}

}  // namespace ddpm::data::prepare
