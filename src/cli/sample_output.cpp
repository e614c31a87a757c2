#include "cli/sample_output.h"

#include <algorithm>
#include <filesystem>

#include <ATen/ops/cat.h>
#include <fmt/ranges.h>

#include "base/disk_space.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/product.h"
#include "base/sole_writer.h"
#include "data/format.h"
#include "data/writer.h"
#include "denoise/stored_images.h"
#include "device/scalar_type.h"
#include "observe/image_grid.h"
#include "observe/npy.h"
#include "observe/png_encoder.h"

namespace ddpm::cli {
namespace {

std::span<const float> floats(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

const std::vector<std::string> kEndings = {".png", ".npy", ".h5"};

class GridOutput : public SampleOutput {
 public:
  GridOutput(base::FileSystem& files, base::Path path, int64_t columns)
      : files_(files), path_(std::move(path)), columns_(columns) {}
  void append(int64_t /*first*/, const at::Tensor& images) override { images_.push_back(images); }
  void finish() override {
    const at::Tensor all = at::cat(images_);
    observe::write_png(
        files_, path_,
        observe::image_grid_nchw(floats(all), all.size(1), all.size(2), all.size(3), {.columns = columns_}));
  }

 private:
  base::FileSystem& files_;
  base::Path path_;
  int64_t columns_;
  std::vector<at::Tensor> images_;
};

class FolderOutput : public SampleOutput {
 public:
  FolderOutput(base::FileSystem& files, base::Path path) : files_(files), staged_(files, std::move(path)) {
    files_.create_directory(staged_.path());
  }
  void append(int64_t first, const at::Tensor& images) override {
    for (int64_t i = 0; i < images.size(0); ++i) {
      const at::Tensor image_hwc = images[i].permute({1, 2, 0}).contiguous();
      observe::write_png(
          files_, staged_.path() / fmt::format("{:06}.png", first + i),
          {image_hwc.size(0), image_hwc.size(1), image_hwc.size(2), observe::to_bytes(floats(image_hwc))});
    }
  }
  void finish() override { staged_.publish(); }

 private:
  base::FileSystem& files_;
  base::StagedPath staged_;
};

class NpyOutput : public SampleOutput {
 public:
  NpyOutput(base::FileSystem& files, const base::Path& path, const std::vector<int64_t>& shape,
            std::optional<denoise::ImageRecord> denormalize)
      : writer_(files, path, shape), denormalize_(std::move(denormalize)) {}
  void append(int64_t /*first*/, const at::Tensor& images) override {
    writer_.append(floats(denormalize_ ? denoise::stored_images(images, *denormalize_) : images));
  }
  void finish() override { writer_.commit(); }

 private:
  observe::NpyWriter writer_;
  std::optional<denoise::ImageRecord> denormalize_;
};

class Hdf5Output : public SampleOutput {
 public:
  Hdf5Output(base::FileSystem& files, base::Path path, const std::vector<int64_t>& shape, base::DType dtype,
             std::optional<denoise::ImageRecord> denormalize, std::vector<denoise::NumberColumn> numbers)
      : staged_(files, std::move(path)),
        denormalize_(std::move(denormalize)),
        dtype_(dtype),
        numbers_(std::move(numbers)),
        writer_(make_writer(files, shape)) {}
  void append(int64_t first, const at::Tensor& images) override {
    const at::Tensor values = denormalize_ ? denoise::stored_images(images, *denormalize_) : images;
    // The layers of a volume follow each other, as they do in the file.
    const at::Tensor stored_nhwc = values.to(device::scalar_type(dtype_)).permute({0, 2, 3, 1}).contiguous();
    const auto numbers = denoise::numbers_of(numbers_, first, images.size(0));
    writer_.append({static_cast<const std::byte*>(stored_nhwc.const_data_ptr()), stored_nhwc.nbytes()},
                   {numbers.begin(), numbers.end()});
  }
  void finish() override {
    writer_.finish();
    staged_.publish();
  }

 private:
  data::ShardWriter make_writer(base::FileSystem& files, const std::vector<int64_t>& shape) const {
    std::vector<int64_t> image(shape.begin() + 2, shape.end());
    image.push_back(shape[1]);
    const auto format = data::ImageFormat::of(image, dtype_);
    std::vector<std::string> names;
    for (const denoise::NumberColumn& column : numbers_) names.push_back(column.path);
    return {files, staged_.path(), format, names, shape[0]};
  }

  base::StagedPath staged_;
  std::optional<denoise::ImageRecord> denormalize_;
  base::DType dtype_;
  std::vector<denoise::NumberColumn> numbers_;
  data::ShardWriter writer_;
};

/// An output that no other process writes meanwhile.
class SoleOutput : public SampleOutput {
 public:
  SoleOutput(std::unique_ptr<base::SoleWriter> sole, std::unique_ptr<SampleOutput> output)
      : sole_(std::move(sole)), output_(std::move(output)) {}
  void append(int64_t first, const at::Tensor& images) override { output_->append(first, images); }
  void finish() override { output_->finish(); }

 private:
  std::unique_ptr<base::SoleWriter> sole_;  ///< outlives what it is for
  std::unique_ptr<SampleOutput> output_;
};

void check_has_picture(const std::vector<int64_t>& shape, const base::Path& path) {
  if (shape.size() > 4) {
    throw base::OutputError("--output {}: volumes have no picture: write .npy or .h5", path.string());
  }
  const int64_t channels = shape[1];
  if (channels == 1 || channels == 3) return;
  throw base::OutputError("--output {}: images of {} channels have no picture: write .npy or .h5", path.string(),
                          channels);
}

/// A file of this kind, or an empty folder, may exist already and is replaced.
void check_place(const base::FileSystem& files, const base::Path& path) {
  const base::Path parent = base::parent_of(path);
  if (!files.exists(parent))
    throw base::OutputError("--output {}: the folder {} does not exist", path.string(), parent.string());
  if (!files.exists(path)) return;
  const bool is_folder = base::kind_of(path) == base::FileKind::folder;
  const bool wants_folder = path.extension().empty();
  if (is_folder != wants_folder) {
    throw base::OutputError("--output {}: is a {} already; a {} is wanted", path.string(),
                            is_folder ? "folder" : "file", wants_folder ? "folder" : "file");
  }
  if (is_folder && !files.list(path).empty()) {
    throw base::OutputError("--output {}: the folder is not empty; wanted: a new or empty one", path.string());
  }
}

/// A file of such numbers has room at `path`, without compression.
void expect_room(const base::FileSystem& files, const base::Path& path, const std::vector<int64_t>& shape,
                 base::DType dtype) {
  const auto numbers = static_cast<uint64_t>(base::product_of(shape));
  base::expect_room(files, base::parent_of(path), numbers * base::size_of(dtype), "--output " + path.string());
}

/// The output that the ending of `path` names, at a place that is free.
std::unique_ptr<SampleOutput> make_output(base::FileSystem& files, const base::Path& path,
                                          const std::vector<int64_t>& shape, const denoise::ImageRecord& image,
                                          const OutputOptions& options) {
  const std::string ending = path.extension().string();
  const auto map = options.denormalize ? std::optional(image) : std::nullopt;
  if (ending == ".npy") {
    expect_room(files, path, shape, base::DType::f32);
    return std::make_unique<NpyOutput>(files, path, shape, map);
  }
  if (ending == ".h5") {
    const base::DType dtype = map && map->dtype == base::DType::u8 ? base::DType::u8 : base::DType::f32;
    expect_room(files, path, shape, dtype);
    return std::make_unique<Hdf5Output>(files, path, shape, dtype, map, options.numbers);
  }
  if (options.denormalize) {
    throw base::ConfigError(
        "--denormalize: --output {} is for pictures, which hold no units; wanted: .npy, .h5, or --format dataset",
        path.string());
  }
  check_has_picture(shape, path);
  if (ending == ".png") return std::make_unique<GridOutput>(files, path, options.columns);
  return std::make_unique<FolderOutput>(files, path);
}

}  // namespace

bool names_file(const base::Path& path) {
  return std::ranges::find(kEndings, path.extension().string()) != kEndings.end();
}

std::unique_ptr<SampleOutput> make_sample_output(base::FileSystem& files, const base::Path& asked,
                                                 const std::vector<int64_t>& shape, const denoise::ImageRecord& image,
                                                 const OutputOptions& options) {
  const base::Path path = base::plain_path(asked);
  const std::string ending = path.extension().string();
  if (!ending.empty() && !names_file(path)) {
    throw base::ConfigError("--output {}: unknown ending {}; wanted: {}, or a name without a dot for a folder",
                            asked.string(), ending, fmt::join(kEndings, ", "));
  }
  check_place(files, path);
  auto sole = std::make_unique<base::SoleWriter>(files, path);
  if (sole->excludes()) base::remove_leftovers(files, path);
  auto output = make_output(files, path, shape, image, options);
  return std::make_unique<SoleOutput>(std::move(sole), std::move(output));
}

}  // namespace ddpm::cli
