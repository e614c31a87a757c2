#include "data/prepare/append.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/sole_writer.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/growing_folder.h"
#include "data/prepare/create.h"
#include "data/prepare/create_fields.h"
#include "data/prepare/dataset_source.h"
#include "data/set_merge.h"
#include "data/shard_result.h"
#include "data/standardize.h"

namespace ddpm::data::prepare {
namespace {

using base::ConfigError;
using base::DatasetError;

constexpr const char* kAdded = ".appended";
constexpr const char* kSkippedFile = "skipped.jsonl";

/// The names that the shards of a set in parts have: of no part before.
std::string added_file_name(const DatasetInfo& before, std::size_t index, std::size_t shards) {
  const auto first = std::ssize(before.shards);
  return shard_file_name(first + static_cast<int64_t>(index), first + static_cast<int64_t>(shards));
}

/// "shard-00012-of-00016.h5": what this program names.
bool is_shard_name(const std::string& name) {
  int64_t index = 0;
  int64_t shards = 0;
  if (name.size() != shard_file_name(0, 0).size()) return false;
  std::from_chars(&name[6], &name[11], index);
  std::from_chars(&name[15], &name[20], shards);
  return name == shard_file_name(index, shards);
}

class Appender {
 public:
  Appender(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log, const AppendOptions& options)
      : comm_(comm), files_(files), log_(log), options_(options), folder_(base::plain_path(options.dataset)) {}

  AppendResult run(const std::function<void(const CreateProgress&)>& progress) {
    comm::agree(comm_, [&] { expect_shards(options_.shards); });
    std::optional<base::SoleWriter> sole;  // set on rank 0
    const std::string text = comm::agree_on_root(comm_, [&] {
      static_cast<void>(read_dataset_info(folder_));  // says what is wrong with a folder that is not a dataset
      sole.emplace(files_, folder_ / kDescriptionFile);
      const DatasetInfo info = read_dataset_info(folder_);  // as nobody else changes it any more
      clear_leftovers(info);
      return to_json_text(info);
    });
    before_ = parse_dataset_info(text, (folder_ / kDescriptionFile).string());
    AppendResult result;
    result.added = holds_arrays_everywhere() ? make_fields(progress) : make_pictures(progress);
    DatasetInfo grown;
    try {
      grown = look_at_added();
    } catch (const comm::AgreedError& error) {
      // A file that could not be used just then says nothing of what was added: another append takes that over.
      if (error.code() == base::ExitCode::dataset && !error.is_access_failure()) drop_added();
      throw;
    }
    comm::do_on_root(comm_, [&] { adopt(grown, text); });
    result.images = grown.count;
    result.shards = std::ssize(grown.shards);
    return result;
  }

 private:
  bool holds_arrays_everywhere() {
    return comm::ask_root(comm_, [&] { return holds_arrays(options_.source, options_.arrays); });
  }

  /// Collective, while an error is handled that is told in any case.
  void drop_added() {
    try {
      comm::do_on_root(comm_, [&] { files_.remove_all(folder_ / kAdded); });
    } catch (const comm::AgreedError&) {  // NOLINT(bugprone-empty-catch): the next append tries it again
    }
  }

  /// Ends what another append had begun: of one whose shards are listed by now the list of what it left out gets its
  /// name, of any other one finished shards are taken over, and those go that have got their names but are not listed.
  void clear_leftovers(const DatasetInfo& info) {
    adopt_skipped(info);
    GrowingFolder::take_back(files_, folder_ / kAdded);
    for (const std::string& name : files_.list(folder_)) {
      const bool listed = std::ranges::count(info.shards, name, &ShardInfo::file) > 0;
      if (!listed && is_shard_name(name)) files_.remove_all(folder_ / name);
    }
  }

  CreateResult make_pictures(const std::function<void(const CreateProgress&)>& progress) {
    const ImageFormat image = before_.image();
    comm::agree(comm_, [&] {
      const std::vector<Field> wanted = image_fields(image, Normalization::of(image.dtype), before_.has_labels());
      if (image.depth == 0 && before_.fields.size() == wanted.size()) return;
      throw DatasetError("{}: its fields are others than those that pictures have; arrays are wanted",
                         folder_.string());
    });
    CreateOptions create_options;
    create_options.source = options_.source;
    create_options.arrays = options_.arrays;
    create_options.output = folder_ / kAdded;
    create_options.fit = {.sides = {.height = static_cast<int>(image.height), .width = static_cast<int>(image.width)},
                          .crop = options_.crop,
                          .seed = options_.seed};
    create_options.channels = static_cast<int>(image.channels);
    create_options.shards = options_.shards;
    create_options.alignment = before_.alignment;
    create_options.journal = Journal::kept;
    return create(comm_, files_, log_, create_options, progress);
  }

  CreateResult make_fields(const std::function<void(const CreateProgress&)>& progress) {
    const std::unique_ptr<FieldSource> source = open_arrays(comm_, options_.source, options_.arrays);
    FieldsJob job{.output = folder_ / kAdded,
                  .shards = options_.shards,
                  .alignment = before_.alignment,
                  .journal = Journal::kept};
    comm::agree(comm_, [&] {
      if (options_.crop != Crop::center || options_.seed != 0) {
        throw ConfigError("{}: arrays are stored as they are; --crop and --seed are for pictures", source->name());
      }
      job.fields = fields_like_before(*source);
    });
    CreateResult made = write_fields(comm_, files_, *source, job, progress);
    source->close(comm_);
    return made;
  }

  /// The source's fields with the names, paths and variables that the dataset has for their roles.
  [[nodiscard]] std::vector<Field> fields_like_before(const FieldSource& source) const {
    std::vector<Field> fields = source.fields();
    fields.insert(fields.end(), source.set_fields().begin(), source.set_fields().end());
    for (Field& field : fields) {
      const Field* known = field_of(before_.fields, field.role);
      if (known == nullptr || known->shape != field.shape || known->dtype != field.dtype ||
          known->per_set != field.per_set) {
        throw DatasetError(
            "{}: {} of [{}] of {}{}; {} has {}", source.name(), base::name_of(field.role), fmt::join(field.shape, ", "),
            numpy_name(field.dtype), field.per_set ? ", once per set" : "", folder_.string(),
            known == nullptr ? "none"
                             : fmt::format("[{}] of {}{}", fmt::join(known->shape, ", "), numpy_name(known->dtype),
                                           known->per_set ? ", once per set" : ""));
      }
      field = *known;
    }
    return fields;
  }

  /// The description of both parts together, once all that was added has been looked at: fields, class names, labels,
  /// values that all images share. It is opened with those of the set before.
  DatasetInfo look_at_added() {
    comm::do_on_root(comm_, [&] {
      DatasetInfo added = read_dataset_info(folder_ / kAdded);
      if (added.class_names.empty()) added.class_names = before_.class_names;
      for (Field& field : added.fields) {
        const Field* known = field_of(before_.fields, field.role);
        if (known == nullptr || known->variables.size() != field.variables.size()) continue;
        field.variables = known->variables;
      }
      write_dataset_info(files_, folder_ / kAdded, added);
    });
    Dataset both = Dataset::open(comm_, std::vector<Dataset::Source>{{.path = folder_}, {.path = folder_ / kAdded}});
    DatasetInfo grown = before_;
    DatasetInfo added = parse_dataset_info(
        comm::agree_on_root(comm_, [&] { return to_json_text(read_dataset_info(folder_ / kAdded)); }), kAdded);
    const std::size_t shards = added.shards.size();
    for (std::size_t s = 0; s < shards; ++s) added.shards[s].file = added_file_name(before_, s, shards);
    comm::agree(comm_, [&] { append_set(grown, std::move(added), folder_.string(), options_.source.paths.front()); });
    // How many pixels the statistics of a part are of is not recorded.
    const std::size_t mask = grown.find(FieldRole::mask);
    if (mask < grown.fields.size() && !grown.fields[mask].per_set) grown.statistics = surveyed(comm_, both, {});
    both.close(comm_);
    return grown;
  }

  /// Rank 0: the shards get their names, and then dataset.json lists them.
  void adopt(const DatasetInfo& grown, const std::string& before) {
    if (to_json_text(read_dataset_info(folder_)) != before) {
      throw base::OutputError("{}: its {} has changed since this command began", folder_.string(), kDescriptionFile);
    }
    const DatasetInfo added = read_dataset_info(folder_ / kAdded);
    join_skipped(grown);
    for (std::size_t s = 0; s < added.shards.size(); ++s) {
      const std::string& name = grown.shards[before_.shards.size() + s].file;
      files_.rename(folder_ / kAdded / added.shards[s].file, folder_ / name);
    }
    files_.sync_directory(folder_);
    write_dataset_info(files_, folder_, grown);
    adopt_skipped(grown);
    files_.remove_all(folder_ / kAdded);
  }

  /// The list of what was left out of a set with these shards, until it may have its name: once they are the set's. The
  /// number of shards tells the set before and after an append apart.
  [[nodiscard]] base::Path joined_skipped(const DatasetInfo& info) const {
    return folder_ / kAdded / fmt::format("skipped-of-{}-shards.jsonl", info.shards.size());
  }

  /// Writes that list, so that a kill at any time lets it say of each picture once that it was left out.
  void join_skipped(const DatasetInfo& grown) {
    constexpr uint64_t kMostBytes = uint64_t{1} << 30U;
    const auto text_of = [&](const base::Path& file) {
      return files_.exists(file) ? files_.read(file, kMostBytes) : "";
    };
    const std::string skipped = text_of(folder_ / kAdded / kSkippedFile);
    if (skipped.empty()) return;
    base::write_atomically(files_, joined_skipped(grown), text_of(folder_ / kSkippedFile) + skipped);
  }

  /// Gives that list its name, if there is one and it has not been done.
  void adopt_skipped(const DatasetInfo& info) {
    if (files_.exists(joined_skipped(info))) base::publish(files_, joined_skipped(info), folder_ / kSkippedFile);
  }

  comm::Communicator& comm_;
  base::FileSystem& files_;
  const base::Logger& log_;
  const AppendOptions& options_;
  base::Path folder_;
  DatasetInfo before_;
};

}  // namespace

AppendResult append(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log,
                    const AppendOptions& options, const std::function<void(const CreateProgress&)>& progress) {
  return Appender(comm, files, log, options).run(progress);
}

CreateResult reshard(comm::Communicator& comm, base::FileSystem& files, const base::Path& dataset,
                     const ReshardOptions& options, const std::function<void(const CreateProgress&)>& progress) {
  FieldsJob job{.output = base::plain_path(options.output), .shards = options.shards};
  comm::agree(comm, [&] {
    expect_shards(options.shards);
    expect_alignment(options.alignment.value_or(0));
  });
  const std::string text = comm::agree_on_root(comm, [&] {
    GrowingFolder::refuse_existing(files, job.output);
    return to_json_text(read_dataset_info(dataset));
  });
  const DatasetInfo before = parse_dataset_info(text, (dataset / kDescriptionFile).string());
  job.statistics = before.statistics;
  job.alignment = options.alignment.value_or(before.alignment);
  const std::unique_ptr<FieldSource> source = open_dataset(comm, dataset, {});
  job.fields = source->fields();
  job.fields.insert(job.fields.end(), source->set_fields().begin(), source->set_fields().end());
  CreateResult made = write_fields(comm, files, *source, job, progress);
  source->close(comm);
  return made;
}

}  // namespace ddpm::data::prepare
