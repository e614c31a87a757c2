#include "cli/data_inspect.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/json.h"
#include "cli/class_counts.h"
#include "cli/data_reader.h"
#include "cli/field_text.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "data/dataset.h"
#include "data/field_json.h"
#include "data/survey.h"
#include "data/transform_json.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;

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
          {"pairs_left_out", dataset.pairs_left_out()},
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
  if (dataset.pairs_left_out() > 0) {
    text += fmt::format("  {} left out: times are missing between the two\n",
                        base::counted(dataset.pairs_left_out(), "pair"));
  }
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

}  // namespace

void declare_data_inspect(const Subcommand& data, Command& command) {
  const auto arguments = std::make_shared<ReaderArguments>();
  const Subcommand inspect = declare_reader(data, command, "inspect", "What a dataset holds", arguments, run_inspect);
  const Option quick = inspect.add_flag(
      "--quick", arguments->quick, "Read no images: leave out the statistics of a bare .h5 file, which records none");
  inspect
      .add_flag("--all", arguments->all,
                fmt::format("Read every image of a bare .h5 file for its statistics, on all ranks; without it, up to "
                            "{} images, evenly spread, and about 1 GiB",
                            kSampleImages))
      .excludes(quick);
}

}  // namespace ddpm::cli
