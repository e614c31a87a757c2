#include "cli/data_verify.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/progress_report.h"
#include "base/sha256.h"
#include "cli/data_adopt.h"
#include "cli/data_reader.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/survey.h"

namespace ddpm::cli {
namespace {

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
data::Survey read_all(comm::Communicator& world, const data::Dataset& dataset, const base::ProgressReport& progress) {
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

}  // namespace

void declare_data_verify(const Subcommand& data, Command& command) {
  declare_reader(data, command, "verify", "Read every file and image, and compare them with their digests",
                 std::make_shared<ReaderArguments>(), run_verify)
      .footer(
          "All ranks read. What has no digest is read all the same; NaN and infinity among float32 values are named.");
}

}  // namespace ddpm::cli
