#include "cli/data.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "cli/data_adopt.h"
#include "cli/data_change.h"
#include "cli/data_create.h"
#include "cli/data_generate.h"
#include "cli/data_stats.h"
#include "cli/dataset_arguments.h"
#include "cli/field_text.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/field_json.h"
#include "data/survey.h"
#include "data/transform_json.h"
#include "device/threads.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;

/// Returns the images per class, by the labels in the shards, for every class that has a name or an image.
std::map<int64_t, int64_t> class_counts(const data::Dataset& dataset) {
  std::map<int64_t, int64_t> counts;
  for (int64_t id = 0; id < std::ssize(dataset.info().class_names); ++id) counts[id] = 0;
  for (const int64_t label : dataset.labels()) ++counts[label];
  return counts;
}

std::string class_name(const data::DatasetInfo& info, int64_t id) {
  return id < std::ssize(info.class_names) ? info.class_names[static_cast<std::size_t>(id)] : std::to_string(id);
}

uint64_t total_bytes(const data::DatasetInfo& info) {
  uint64_t bytes = 0;
  for (const auto& shard : info.shards) bytes += shard.size;
  return bytes;
}

/// The statistics of a set without any are those of a sample, which bounds what a look at a large file costs.
constexpr int64_t kSampleImages = 4096;
constexpr int64_t kSampleBytes = int64_t{1} << 30;

/// Statistics, and how many images they describe.
struct SeenStatistics {
  std::vector<data::ChannelStatistics> channels;
  int64_t images = 0;  ///< that they are of
  int64_t read = 0;    ///< images that were read for them, usable or not; 0: dataset.json has them, or there are none
};

std::string origin_of(const SeenStatistics& seen, int64_t count) {
  if (seen.read == 0) return fmt::format("as {} records them", data::kDescriptionFile);
  const std::string all = base::grouped(count);
  const std::string read = seen.read == count ? fmt::format("all {} were read", all)
                                              : fmt::format("{} of {} were read, evenly spread; --all reads every one",
                                                            base::grouped(seen.read), all);
  return fmt::format("of {} ({})", base::counted(seen.images, "image"), read);
}

/// The list of fields, where digests stand for the numbers of grids, which are many.
OrderedJson fields_json(const std::vector<data::Field>& fields) {
  OrderedJson json = data::to_json(fields);
  for (std::size_t f = 0; f < fields.size(); ++f) {
    for (std::size_t v = 0; v < fields[f].variables.size(); ++v) {
      const data::Transform& map = fields[f].variables[v].transform;
      if (map.has_grid()) json[f]["variables"][v]["transform"] = data::short_json(map);
    }
  }
  return json;
}

OrderedJson describe(const data::Dataset& dataset, const SeenStatistics& seen) {
  const data::DatasetInfo& info = dataset.info();
  const data::ImageFormat image = info.image();
  OrderedJson classes = OrderedJson::array();
  for (const auto& [id, count] : class_counts(dataset)) {
    classes.push_back({{"id", id}, {"name", class_name(info, id)}, {"count", count}});
  }
  OrderedJson statistics = OrderedJson::array();
  for (const auto& channel : seen.channels) {
    statistics.push_back({{"mean", channel.mean}, {"std", channel.std}, {"min", channel.min}, {"max", channel.max}});
  }
  OrderedJson shards = OrderedJson::array();
  for (const auto& shard : info.shards) {
    shards.push_back({{"file", shard.file},
                      {"first", shard.first},
                      {"count", shard.count},
                      {"size", shard.size},
                      {"sha256", shard.sha256}});
  }
  return {{"dataset", dataset.path().string()},
          {"count", info.count},
          {"height", image.height},
          {"width", image.width},
          {"channels", image.channels},
          {"depth", image.depth == 0 ? OrderedJson() : OrderedJson(image.depth)},
          {"dtype", data::numpy_name(image.dtype)},
          {"normalization", {{"scale", info.normalization().scale}, {"offset", info.normalization().offset}}},
          {"labels", info.has_labels()},
          {"fields", fields_json(info.fields)},
          {"classes", classes},
          {"statistics", statistics},
          {"statistics_images", seen.images},
          {"images_read", seen.read},
          {"bytes", total_bytes(info)},
          {"alignment", info.alignment == 0 ? OrderedJson() : OrderedJson(info.alignment)},
          {"content_hash", dataset.content_hash()},
          {"shards", shards}};
}

/// The lines, indented; of many the first ones, and how many `things` more there are.
std::string first_lines(const std::vector<std::string>& lines, const char* things) {
  constexpr std::size_t kMostLines = 32;
  const std::size_t shown = lines.size() > kMostLines ? kMostLines - 1 : lines.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("  {}\n", lines[i]);
  if (shown == lines.size()) return text;
  const auto rest = static_cast<int64_t>(lines.size() - shown);
  return text + fmt::format("  and {} more {}, which --json lists\n", base::grouped(rest), things);
}

std::string describe_for_people(const data::Dataset& dataset, const SeenStatistics& seen) {
  const data::DatasetInfo& info = dataset.info();
  const data::ImageFormat image = info.image();
  std::string text =
      fmt::format("{}\n  {} [{}] {}, {} bytes in {}\n", dataset.path().string(), base::counted(info.count, "image"),
                  fmt::join(image.shape(), ", "), data::numpy_name(image.dtype), total_bytes(info),
                  base::counted(info.shards.size(), "shard"));
  if (info.alignment > 0)
    text += fmt::format("  images begin at multiples of {} bytes\n", base::grouped(info.alignment));
  text += fields_text(info.fields);
  if (!seen.channels.empty()) text += fmt::format("  statistics {}:\n", origin_of(seen, info.count));
  for (std::size_t c = 0; c < seen.channels.size(); ++c) {
    const auto& channel = seen.channels[c];
    text += fmt::format("  {}: mean {:.4g}, std {:.4g}, from {:.4g} to {:.4g}\n", info.image_field().variables[c].name,
                        channel.mean, channel.std, channel.min, channel.max);
  }
  std::vector<std::string> lines;
  for (const auto& [id, count] : class_counts(dataset)) {
    lines.push_back(fmt::format("class {} ({}): {}", id, class_name(info, id), base::counted(count, "image")));
  }
  text += first_lines(lines, "classes");
  lines.clear();
  for (const auto& shard : info.shards) {
    lines.push_back(fmt::format("{}: {}, {} bytes", shard.file,
                                base::inclusive_range(shard.first, shard.first + shard.count - 1, "image"),
                                shard.size));
  }
  text += first_lines(lines, "shards");
  text.pop_back();
  return text;
}

struct ReaderArguments {
  base::Path path;
  DatasetArguments dataset;
  bool json = false;
  bool quick = false;  ///< inspect only, as is `all`
  bool all = false;
};

data::DatasetOptions options_of(Context& context, const ReaderArguments& arguments) {
  data::DatasetOptions options;
  comm::agree(context.session.world(), [&] { options = dataset_options(arguments.dataset); });
  options.threads = device::threads_per_rank(0, context.session.local_size());
  return options;
}

/// Ends with what is wrong with the images, if anything is. Collective.
void require_usable(Context& context, const base::Path& path, const data::Survey& seen, int64_t count) {
  comm::do_on_root(context.session.world(), [&] {
    if (seen.unusable == 0) return;
    const auto unnamed = seen.unusable - std::ssize(seen.faults);
    throw base::DatasetError("{}: {} of {}{} cannot be used: {}{}", path.string(), seen.unusable,
                             base::counted(seen.images, "image"), seen.images < count ? " looked at" : "",
                             fmt::join(seen.faults, "; "), unnamed > 0 ? fmt::format("; and {} more", unnamed) : "");
  });
}

/// The statistics that are recorded; for a set without any, those of a sample of its images, or of all.
void run_inspect(Context& context, const ReaderArguments& arguments) {
  auto& world = context.session.world();
  data::Dataset dataset = data::Dataset::open(world, arguments.path, options_of(context, arguments));
  const int64_t count = dataset.size();
  const auto& recorded = dataset.info().statistics;
  SeenStatistics statistics{.channels = recorded, .images = recorded.empty() ? 0 : count};
  data::Survey seen;
  if (recorded.empty() && !arguments.quick) {
    LazyBar bar("data inspect", context.log.speaks());
    context.enter("reading the images");
    const int64_t most = arguments.all ? count : data::sample_size(dataset, kSampleImages, kSampleBytes);
    seen = data::survey(world, dataset, {.most_images = most},
                        [&](int64_t done, int64_t total) { bar.update(done, total); });
    statistics = {.channels = seen.statistics, .images = seen.images - seen.unusable, .read = seen.images};
  }
  print(context, arguments.json ? dump(describe(dataset, statistics)) : describe_for_people(dataset, statistics));
  dataset.close(world);
  require_usable(context, arguments.path, seen, count);
}

/// Returns what is wrong with the shards' files, found by all ranks; empty for a bare .h5 file, which has no digests.
std::vector<std::string> damaged_files(Context& context, const base::Path& path) {
  auto& world = context.session.world();
  const std::string description = comm::agree_on_root(world, [&] {
    return context.files.exists(path / data::kDescriptionFile) ? data::to_json_text(data::read_dataset_info(path)) : "";
  });
  if (description.empty()) return {};
  const auto info = data::parse_dataset_info(description, path.string());
  std::string mine;
  context.enter("comparing files with their digests");
  comm::agree(world, [&] {
    for (std::size_t i = static_cast<std::size_t>(world.rank()); i < info.shards.size();
         i += static_cast<std::size_t>(world.size())) {
      const auto& shard = info.shards[i];
      try {
        const std::string digest = base::sha256_file(path / shard.file);
        if (digest != shard.sha256)
          mine += fmt::format("{}: SHA-256 {}, wanted {}\n", shard.file, digest, shard.sha256);
      } catch (const base::AccessError& error) {
        // A file that cannot be read just now is not called damaged.
        throw base::DatasetError("{}", error.what());
      } catch (const base::OutputError& error) {
        mine += fmt::format("{}: {}\n", shard.file, error.what());
      }
    }
  });
  std::vector<std::string> all;
  for (const std::string& part : comm::all_gather(world, mine)) {
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t end = part.find('\n', at);
      all.push_back(part.substr(at, end - at));
      at = end + 1;
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// What `verify` could compare with a digest: all of a dataset's folder or of an adopted file, only the images of one
/// shard by itself, and nothing of another program's .h5 file.
struct Digests {
  bool files = false;
  bool images = false;
  bool adopted = false;
};

std::string verified_text(const base::Path& path, int64_t images, const Digests& digests) {
  const std::string read = fmt::format("{}: {}", path.string(), base::counted(images, "image"));
  if (digests.adopted) return read + ", all bytes of the file as they were when it was adopted";
  if (digests.files) return read + ", all as they were written";
  if (digests.images) {
    return read +
           ", all with the CRC-32C that was written with them; the rest of the file, such as labels, has no digest, so "
           "that a change there is not seen";
  }
  return read +
         ", all of them readable; the file has no digests, so that nothing tells whether they are as they were written";
}

/// Reads the values of all images in every field that is read in blocks. Collective.
data::Survey read_all(comm::Communicator& world, const data::Dataset& dataset,
                      const std::function<void(int64_t done, int64_t total)>& progress) {
  data::Survey all;
  for (const data::Field& field : dataset.fields()) {
    if (!field.is_read_in_blocks()) continue;
    data::Survey seen = data::survey(world, dataset, {.statistics = false, .role = field.role}, progress);
    all.images = seen.images;
    all.unusable += seen.unusable;
    for (std::string& fault : seen.faults) {
      if (all.faults.size() < data::Survey::kMostNamed) all.faults.push_back(std::move(fault));
    }
  }
  return all;
}

void run_verify(Context& context, const ReaderArguments& arguments) {
  auto& world = context.session.world();
  const base::Path& path = arguments.path;
  const std::optional<AdoptedBytes> adopted = compare_adopted(context, path);
  const auto damaged = adopted ? adopted->damaged : damaged_files(context, path);
  data::Survey seen;
  Digests digests{.files = true, .images = true};  // files are found damaged by their digests only
  const data::DatasetOptions options = options_of(context, arguments);
  const bool surveyed = !adopted || !adopted->all || !options.variables.empty() || adopted->has(options.images);
  if (damaged.empty() && surveyed) {
    data::Dataset dataset = data::Dataset::open(world, path, options);
    LazyBar bar("data verify", context.log.speaks());
    context.enter("reading the images");
    seen = read_all(world, dataset, [&](int64_t done, int64_t total) { bar.update(done, total); });
    digests = {.files = dataset.is_adopted() || !dataset.info().shards.front().sha256.empty(),
               .images = dataset.is_adopted() || dataset.has_checksums(),
               .adopted = dataset.is_adopted()};
    dataset.close(world);
  }
  if (arguments.json) {
    auto faults = damaged;
    faults.insert(faults.end(), seen.faults.begin(), seen.faults.end());
    print(context, dump({{"dataset", path.string()},
                         {"valid", faults.empty()},
                         {"images", seen.images},
                         {"unusable_images", seen.unusable},
                         {"damaged", faults},
                         {"compared_with_digests", {{"files", digests.files}, {"images", digests.images}}}}));
  }
  comm::do_on_root(world, [&] {
    if (damaged.empty()) return;
    throw base::DatasetError("{}: {} damaged or missing; the first, {}", path.string(), damaged.size(),
                             damaged.front());
  });
  require_usable(context, path, seen, seen.images);
  if (arguments.json) return;
  print(context, !surveyed
                     ? fmt::format("{}: {} bytes, all as they were when it was adopted; it has no {}, and "
                                   "--variables names none of its arrays",
                                   path.string(), base::grouped(static_cast<int64_t>(adopted->bytes)), options.images)
                     : verified_text(path, seen.images, digests));
}

/// `inspect` and `verify`: a dataset and --json.
Subcommand declare_reader(const Subcommand& data, Command& command, const std::string& name, const std::string& help,
                          const std::shared_ptr<ReaderArguments>& arguments,
                          void (*run)(Context&, const ReaderArguments&)) {
  const Subcommand reader = data.add_subcommand(name, help);
  reader
      .add("DATASET", &arguments->path,
           "A dataset's folder, one HDF5 or NetCDF-4 file, or files by a pattern in quotes")
      .required();
  reader.add_flag("--json", arguments->json, "Print the result as one JSON object");
  declare_dataset_arguments(reader, arguments->dataset);
  reader.on_chosen(
      [&command, arguments, run] { command.run = [arguments, run](Context& context) { run(context, *arguments); }; });
  return reader;
}

}  // namespace

void add_data_command(const Subcommand& program, Command& command) {
  const Subcommand data = program.add_subcommand("data", "Make image sets, and look at them");
  data.require_subcommand();
  declare_data_create(data, command);
  declare_data_generate(data, command);
  declare_data_append(data, command);
  declare_data_reshard(data, command);
  declare_data_adopt(data, command);
  const auto inspected = std::make_shared<ReaderArguments>();
  const Subcommand inspect = declare_reader(data, command, "inspect", "What a dataset holds", inspected, run_inspect);
  const Option quick = inspect.add_flag(
      "--quick", inspected->quick, "Read no images: leave out the statistics of a bare .h5 file, which records none");
  inspect
      .add_flag("--all", inspected->all,
                fmt::format("Read every image of a bare .h5 file for its statistics, on all ranks; without it, up to "
                            "{} images, evenly spread, and about 1 GiB",
                            kSampleImages))
      .excludes(quick);
  declare_reader(data, command, "verify", "Read every file and image, and compare them with their digests",
                 std::make_shared<ReaderArguments>(), run_verify)
      .footer(
          "All ranks read. What has no digest is read all the same; NaN and infinity among float32 values are named.");
  declare_data_stats(data, command);
}

}  // namespace ddpm::cli
