#include "data/prepare/create_fields.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/field_json.h"
#include "data/fill_shards.h"
#include "data/fit_transforms.h"
#include "data/growing_folder.h"
#include "data/prepare/dataset_source.h"
#include "data/prepare/numpy_source.h"
#include "data/writer.h"
#include "layout/range.h"

namespace ddpm::data::prepare {
namespace {

/// Raised when the same source and options would give other bytes than before.
constexpr int kFieldsRecipe = 1;
constexpr int64_t kFieldsPiece = int64_t{8} << 20;

ImageFormat image_format(const std::vector<Field>& fields) { return field_of(fields, FieldRole::image)->format(); }

class FieldsWriter {
 public:
  FieldsWriter(comm::Communicator& comm, base::FileSystem& files, FieldSource& source, const FieldsJob& job,
               const std::function<void(const CreateProgress&)>& progress)
      : comm_(comm),
        files_(files),
        source_(source),
        job_(job),
        progress_(progress),
        folder_(files, job.output, std::min<int64_t>(job.shards, source.size())) {
    for (const Field& field : job.fields) (field.per_set ? set_fields_ : fields_).push_back(field);
  }

  CreateResult run() {
    TransformKinds kinds;
    comm::agree(comm_, [&] {
      kinds = parse_transforms(job_.transforms, job_.fields);
      identity_ = identity();
      read_set();
    });
    comm::do_on_root(comm_, [&] { folder_.begin({.images = source_.size(), .image_bytes = image_bytes()}); });
    comm::agree(comm_, [&] { folder_.join(); });
    write_shards();
    DatasetInfo info;
    comm::agree(comm_, [&] { info = described(); });
    if (wants_fit(kinds)) info.fields = fit(info, kinds);
    comm::do_on_root(comm_, [&] {
      write_dataset_info(files_, folder_.path(), info);
      folder_.publish(job_.journal);
    });
    return summary(info);
  }

 private:
  [[nodiscard]] layout::Range images(int64_t shard) const {
    return layout::even_part(source_.size(), folder_.shards(), shard);
  }
  [[nodiscard]] ImageFormat format() const { return image_format(fields_); }
  [[nodiscard]] uint64_t image_bytes() const {
    uint64_t bytes = 0;
    for (const Field& field : fields_) bytes += field.bytes();
    return bytes;
  }

  [[nodiscard]] std::string identity() const {
    base::Sha256 digest;
    digest.update(fmt::format("{} {} {}\n", kFieldsRecipe, source_.size(), to_json(job_.fields).dump()));
    if (job_.alignment > 0) digest.update(fmt::format("aligned {}\n", job_.alignment));
    source_.identify(digest);
    return digest.hex();
  }
  [[nodiscard]] std::string fingerprint(int64_t shard) const {
    return base::sha256_hex(fmt::format("{} {} {}\n", identity_, folder_.shards(), shard));
  }

  void read_set() {
    for (std::size_t f = 0; f < set_fields_.size(); ++f) {
      set_values_.push_back(source_.read_set(f));
      if (set_fields_[f].role == FieldRole::mask) set_mask_ = set_values_.back();
      expect_storable({set_fields_[f]}, {set_values_.back()}, {}, 0, source_.name());
    }
  }

  void write_shards() {
    filled_ = fill_shards(comm_, folder_,
                          {.format = format(),
                           .images = [&](int64_t shard) { return images(shard); },
                           .fingerprint = [&](int64_t shard) { return fingerprint(shard); },
                           .make = [&](int64_t shard, const ShardProgress& made) { return make_shard(shard, made); },
                           .progress =
                               [&](int64_t done, int64_t total) {
                                 if (progress_) progress_({done, total});
                               }});
  }

  ShardResult make_shard(int64_t shard, const ShardProgress& progress) try {
    const layout::Range range = images(shard);
    ShardWriter::Contents contents{.fields = fields_,
                                   .set_mask = set_mask_,
                                   .source = source_.name(),
                                   .first = range.begin,
                                   .alignment = job_.alignment};
    if (shard == 0) {
      contents.set_fields = set_fields_;
      contents.set_values = set_values_;
    }
    ShardWriter writer(files_, folder_.shard_file(shard), std::move(contents), range.size());
    const int64_t piece = std::max<int64_t>(1, kFieldsPiece / static_cast<int64_t>(image_bytes()));
    std::vector<std::vector<std::byte>> values(fields_.size());
    for (int64_t first = range.begin; first < range.end; first += piece) {
      const int64_t n = std::min(piece, range.end - first);
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        values[f].resize(static_cast<std::size_t>(n) * fields_[f].bytes());
        source_.read(f, first, n, values[f]);
      }
      writer.append(FieldValues(values.begin(), values.end()));
      progress(static_cast<double>(first + n - range.begin));
    }
    return writer.finish();
  } catch (const std::bad_alloc&) {
    folder_.refuse_for_memory(shard);
  }

  [[nodiscard]] DatasetInfo described() const {
    DatasetInfo info = assemble(source_.name(), job_.fields, source_.class_names(), filled_.results, job_.alignment);
    if (!job_.statistics.empty()) info.statistics = job_.statistics;
    return info;
  }

  /// The set is opened where it grows, to take the numbers of its transforms from what was written.
  std::vector<Field> fit(const DatasetInfo& info, const TransformKinds& kinds) {
    comm::do_on_root(comm_, [&] { write_dataset_info(files_, folder_.path(), info); });
    Dataset dataset = Dataset::open(comm_, folder_.path());
    std::vector<Field> fields = fit_transforms(comm_, dataset, kinds);
    dataset.close(comm_);
    return fields;
  }

  [[nodiscard]] CreateResult summary(const DatasetInfo& info) const {
    CreateResult result;
    result.images = info.count;
    result.shards = folder_.shards();
    result.fields = info.fields;
    result.classes = std::ssize(info.class_names);
    result.reused_shards = filled_.reused;
    for (const ShardResult& shard : filled_.results) result.bytes += static_cast<int64_t>(shard.info.size);
    return result;
  }

  comm::Communicator& comm_;
  base::FileSystem& files_;
  FieldSource& source_;
  const FieldsJob& job_;
  const std::function<void(const CreateProgress&)>& progress_;
  std::vector<Field> fields_;
  std::vector<Field> set_fields_;
  std::vector<std::vector<std::byte>> set_values_;
  std::vector<std::byte> set_mask_;
  std::string identity_;
  GrowingFolder folder_;
  FilledShards filled_;
};

/// Refuses one array for two roles.
void expect_different(const ArrayOptions& options) {
  const auto named = options.named();
  const auto plain = [](std::string_view name) { return name.substr(name.starts_with('/') ? 1 : 0); };
  for (const NamedArray& role : named) {
    const auto names_it = [&](const NamedArray& one) { return plain(one.name) == plain(role.name); };
    const NamedArray& first = *std::ranges::find_if(named, names_it);
    if (role.name.empty() || &first == &role) continue;
    throw base::ConfigError("{} {}: {} names the same array; another one is wanted", role.option, role.name,
                            first.option);
  }
}

/// Names in HDF5 are absolute; the slash at their beginning may be left out.
DatasetOptions names_in_hdf5(const ArrayOptions& options, bool with_labels) {
  const auto absolute = [](const std::string& name) { return name.empty() || name.front() == '/' ? name : "/" + name; };
  DatasetOptions names{.condition = absolute(options.condition),
                       .static_values = absolute(options.static_values),
                       .parameters = absolute(options.parameters),
                       .mask = absolute(options.mask)};
  if (!options.images.empty()) names.images = absolute(options.images);
  if (!with_labels) names.labels = "";
  if (!options.labels.empty()) names.labels = absolute(options.labels);
  return names;
}

}  // namespace

bool holds_arrays(const SourceOptions& options, const ArrayOptions& arrays) {
  if (arrays.composed) {
    if (options.paths.empty() || looks_like_dataset(options.paths.front())) return true;
    throw base::DatasetError("{}: it is neither an HDF5 nor a NetCDF-4 file; --variables {} names variables of those",
                             options.paths.front().string(), fmt::join(arrays.composed->variables, ","));
  }
  if (options.paths.empty() || options.format != SourceFormat::automatic) return false;
  const base::Path& first = options.paths.front();
  const auto kind = base::read_as<base::DatasetError>([&] { return base::kind_of(first); });
  if (kind == base::FileKind::folder) return looks_like_dataset(first);
  return kind == base::FileKind::regular && (looks_like_numpy(first) || looks_like_dataset(first));
}

std::unique_ptr<FieldSource> open_arrays(comm::Communicator& comm, const SourceOptions& source,
                                         const ArrayOptions& options) {
  if (options.composed) return open_foreign(comm, source.paths, *options.composed);
  const bool with_labels = source.labels == Labels::kept;
  comm::agree(comm, [&] {
    expect_different(options);
    if (source.labels != Labels::folder) return;
    throw base::ConfigError("--labels folder: {} is not a folder of pictures; wanted auto, none, or an array's name",
                            source.paths.front().string());
  });
  std::vector<std::unique_ptr<FieldSource>> parts;
  for (const base::Path& path : source.paths) {
    const bool numpy = comm::ask_root(comm, [&] {
      const auto kind = base::read_as<base::DatasetError>([&] { return base::kind_of(path); });
      return kind == base::FileKind::regular && looks_like_numpy(path);
    });
    if (!numpy) {
      parts.push_back(open_dataset(comm, path, names_in_hdf5(options, with_labels)));
      continue;
    }
    comm::do_on_root(comm, [&] { check_numpy(path, options, with_labels); });
    comm::agree(comm, [&] { parts.push_back(open_numpy(path, options, with_labels)); });
  }
  std::unique_ptr<FieldSource> joined;
  comm::agree(comm, [&] { joined = join_sources(std::move(parts)); });
  return joined;
}

CreateResult write_fields(comm::Communicator& comm, base::FileSystem& files, FieldSource& source, const FieldsJob& job,
                          const std::function<void(const CreateProgress&)>& progress) {
  return FieldsWriter(comm, files, source, job, progress).run();
}

CreateResult create_fields(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log,
                           const CreateOptions& options, const std::function<void(const CreateProgress&)>& progress) {
  comm::do_on_root(comm, [&] { GrowingFolder::refuse_existing(files, options.output); });
  const std::unique_ptr<FieldSource> source = open_arrays(comm, options.source, options.arrays);
  FieldsJob job{.output = options.output,
                .shards = options.shards,
                .alignment = options.alignment,
                .transforms = options.arrays.transforms};
  comm::agree(comm, [&] { job.fields = named_fields(*source, options.arrays); });
  const ImageFormat image = image_format(job.fields);
  log.info("{}: {} of {} × {}, {}", source->name(), base::counted(source->size(), "image"), size_text(image),
           image.channels, numpy_name(image.dtype));
  CreateResult result = write_fields(comm, files, *source, job, progress);
  source->close(comm);
  return result;
}

}  // namespace ddpm::data::prepare
