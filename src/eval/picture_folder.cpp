#include "eval/picture_folder.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "data/prepare/folder.h"

namespace ddpm::eval {

using base::DatasetError;
using data::prepare::Image;
using data::prepare::Skipped;

PictureFolder::PictureFolder(std::unique_ptr<base::FileSystem> files,
                             std::unique_ptr<data::prepare::ImageSource> source)
    : files_(std::move(files)), source_(std::move(source)) {}

PictureFolder PictureFolder::open(comm::Communicator& comm, const base::Path& path) {
  auto files = base::posix_file_system();
  const base::FileSystem& system = *files;
  const std::string text = comm::agree_on_root(comm, [&] {
    const data::prepare::FolderListing listing = data::prepare::list_folder(system, path);
    if (!listing.skipped.empty()) {
      throw DatasetError("{}: {}: {}; wanted: pictures alone", path.string(), listing.skipped.front().path,
                         listing.skipped.front().reason);
    }
    if (listing.images.empty()) {
      throw DatasetError("{}: holds neither dataset.json nor pictures; wanted: a dataset's folder, or one of pictures",
                         path.string());
    }
    return data::prepare::pack(listing);
  });
  PictureFolder folder(std::move(files), data::prepare::read_folder(system, path, data::prepare::unpack_listing(text),
                                                                    /*labels=*/false, {}));
  comm::agree(comm, [&] {
    const Image first = folder.decoded(0);
    folder.height_ = first.height;
    folder.width_ = first.width;
  });
  return folder;
}

void PictureFolder::set_channels(int64_t channels) {
  if (channels != 1 && channels != 3) {
    throw DatasetError("{}: pictures have 1 or 3 channels; wanted: {}", source_->name(), channels);
  }
  channels_ = channels;
}

Image PictureFolder::decoded(int64_t index) const {
  std::vector<Skipped> skipped;
  auto sample = source_->read(index, static_cast<int>(channels_), skipped);
  if (!sample) {
    throw DatasetError("{}: {}: {}", source_->name(), source_->name_of(index),
                       skipped.empty() ? "cannot be decoded" : skipped.front().reason);
  }
  if (auto* image = std::get_if<Image>(&sample->image)) return std::move(*image);
  throw DatasetError("{}: {}: holds numbers of floating point; wanted: pictures of 8 bits", source_->name(),
                     source_->name_of(index));
}

void PictureFolder::read(int64_t first, int64_t n, std::span<std::byte> out) const {
  const auto bytes = static_cast<std::size_t>(height_ * width_ * channels_);
  for (int64_t i = 0; i < n; ++i) {
    const Image image = decoded(first + i);
    if (image.height != height_ || image.width != width_) {
      throw DatasetError("{}: {}: is {} × {} (height × width), the first picture is {} × {}; wanted: one size",
                         source_->name(), source_->name_of(first + i), image.height, image.width, height_, width_);
    }
    std::ranges::copy(std::as_bytes(std::span(image.pixels)),
                      out.subspan(static_cast<std::size_t>(i) * bytes, bytes).begin());
  }
}

}  // namespace ddpm::eval
