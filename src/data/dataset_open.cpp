// Opening a dataset: which arrays it has, whether they are what they should be, and what is held in memory.
#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/named.h"
#include "comm/collectives.h"
#include "data/dataset_state.h"
#include "data/field_json.h"
#include "data/finite.h"
#include "data/path_pattern.h"
#include "data/set_merge.h"
#include "data/shard_check.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

constexpr auto kSumBytes = static_cast<int64_t>(sizeof(uint32_t));

/// One array for each shard.
using ShardArrays = std::vector<h5::Dataset>;

/// A folder lists its fields itself: a key of bare files that says another thing is refused.
void expect_listed(const DatasetInfo& info, const DatasetOptions& options, const std::string& path) {
  const std::pair<FieldRole, const std::string&> named[] = {{FieldRole::condition, options.condition},
                                                            {FieldRole::static_values, options.static_values},
                                                            {FieldRole::parameters, options.parameters},
                                                            {FieldRole::mask, options.mask}};
  for (const auto& [role, name] : named) {
    const std::size_t at = info.find(role);
    const std::string listed = at < info.fields.size() ? info.fields[at].path : "";
    if (name.empty() || name == listed) continue;
    throw DatasetError("{}: data.{} = \"{}\", but {} lists {}", path, base::name_of(role), name, kDescriptionFile,
                       listed.empty() ? "no field of that role" : fmt::format("\"{}\"", listed));
  }
}

/// Whether the set is a folder. Throws DatasetError for what is no set.
bool is_folder(const Path& path) {
  const auto found = base::read_as<DatasetError>([&] { return base::kind_of(path); });
  if (found == base::FileKind::folder) return true;
  if (found == base::FileKind::regular) return false;
  throw DatasetError("{}: there is no such dataset; a folder with {} or one .h5 file is wanted", path.string(),
                     kDescriptionFile);
}

/// Whether all sets are folders. Throws DatasetError where some are, and for files of different weights.
bool are_folders(const std::vector<Dataset::Source>& sources) {
  const bool folders = is_folder(sources.front().path);
  for (const Dataset::Source& source : sources) {
    const Path& path = source.path;
    if (is_folder(path) != folders) {
      throw DatasetError("{}: it is a {}, {} is a {}; several sets are all folders with {}, or all files",
                         path.string(), folders ? "file" : "folder", sources.front().path.string(),
                         folders ? "folder" : "file", kDescriptionFile);
    }
    if (folders || source.weight == sources.front().weight) continue;
    throw DatasetError("{}: files that are one set have one weight, {} is not {}", path.string(), source.weight,
                       sources.front().weight);
  }
  return folders;
}

/// The sources, with all files that a pattern names; one rank looks.
std::vector<Dataset::Source> expanded(comm::Communicator& comm, const std::vector<Dataset::Source>& sources) {
  std::vector<Dataset::Source> all;
  for (const Dataset::Source& source : sources) {
    const std::string found = comm::agree_on_root(comm, [&] {
      std::string paths;
      for (const Path& path : matching_paths(source.path)) paths += path.string() + '\0';
      return paths;
    });
    for (std::size_t at = 0; at < found.size();) {
      const std::size_t end = found.find('\0', at);
      all.push_back({.path = found.substr(at, end - at), .weight = source.weight, .name = source.name});
      at = end + 1;
    }
  }
  return all;
}

/// What all images share must be the same in all sets: a batch has images of several.
void expect_values(const h5::Dataset& array, std::span<const std::byte> wanted, const std::string& first) {
  std::vector<std::byte> values(wanted.size());
  array.read_rows(0, array.rows(), values);
  if (std::ranges::equal(values, wanted)) return;
  throw DatasetError("{}: its values are not those of {}, which all images share", array.label(), first);
}

}  // namespace

Dataset Dataset::open(comm::Communicator& comm, const Path& path, const DatasetOptions& options) {
  return open(comm, std::vector<Source>{{.path = path}}, options);
}

Dataset Dataset::open(comm::Communicator& comm, const std::vector<Source>& patterns, const DatasetOptions& options) {
  const std::vector<Source> sources = expanded(comm, patterns);
  auto state = std::make_unique<State>();
  std::string joined;
  for (const Source& source : sources) {
    state->sources.push_back(source.path);
    state->names.push_back(source.name.empty() ? source.path.filename().string() : source.name);
    state->parts.push_back({.weight = source.weight});
    joined += (joined.empty() ? "" : " + ") + source.path.string();
  }
  state->path = joined;
  if (comm::ask_root(comm, [&] { return are_folders(sources); })) {
    state->open_folders(comm);
    comm::agree(comm, [&] { expect_listed(state->info, options, joined); });
  } else {
    state->open_files(comm, options);
  }
  comm::agree(comm, [&] {
    state->check_labels();
    state->check_held();
  });
  state->hash_content();
  if (options.labels.empty()) state->forget_labels();
  return Dataset(std::move(state));
}

/// What each image has comes first, so that a place in info.fields is one in `fields`, too.
void Dataset::State::sort_fields() {
  std::stable_partition(info.fields.begin(), info.fields.end(), [](const Field& field) { return !field.per_set; });
  for (const Field& field : info.fields) (field.per_set ? set_fields : fields).push_back(field);
  columns.resize(fields.size());
}

void Dataset::State::open_folders(comm::Communicator& comm) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Path& folder = sources[i];
    DatasetInfo one =
        parse_dataset_info(comm::agree_on_root(comm, [&] { return to_json_text(read_dataset_info(folder)); }),
                           (folder / kDescriptionFile).string());
    parts[i].count = one.count;
    first_shards.push_back(paths.size());
    for (const ShardInfo& shard : one.shards) paths.push_back(folder / shard.file);
    if (i == 0) {
      info = std::move(one);
    } else {
      comm::agree(comm, [&] { append_set(info, std::move(one), sources.front().string(), folder.string()); });
    }
  }
  sort_fields();
  const auto shards = static_cast<int>(info.shards.size());
  comm::agree(comm, [&] {
    for (int s = comm.rank(); s < shards; s += comm.size())
      check_shard_file(paths[static_cast<std::size_t>(s)], info.shards[static_cast<std::size_t>(s)]);
  });
  files = h5::File::open_parallel(comm, paths);
  comm::agree(comm, [&] {
    for (std::size_t s = 0; s < files.size(); ++s) {
      for (std::size_t f = 0; f < fields.size(); ++f) {
        if (!fields[f].is_read_in_blocks()) continue;
        h5::Dataset array = files[s].dataset(fields[f].path);
        check_shard_array(array, fields[f], info, info.shards[s]);
        columns[f].shards.push_back(std::make_unique<StoredRows>(
            std::move(array), paths[s], StoredRows::Form{.shape = fields[f].shape, .dtype = fields[f].dtype}));
      }
    }
  });
  load_folder_index(comm);
}

/// What is held lies in the index in an order in which everything is aligned: labels, other numbers, bytes.
void Dataset::State::make_index(comm::Communicator& comm, const std::function<bool(const Field&)>& has_checksums) {
  int64_t end = 0;
  const auto room = [&end](int64_t bytes) {
    const int64_t begin = end;
    end = (end + bytes + 7) / 8 * 8;
    return begin;
  };
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].is_read_in_blocks()) {
      if (!has_checksums(fields[f])) continue;
      columns[f].checksums = {.begin = room(info.count * kSumBytes), .row_bytes = kSumBytes};
    } else {
      const auto row = static_cast<int64_t>(fields[f].bytes());
      columns[f].held = {.begin = room(info.count * row), .row_bytes = row};
    }
  }
  for (const Field& field : set_fields) set_begins.push_back(room(static_cast<int64_t>(field.bytes())));
  index.emplace(comm, end);
  const std::size_t at = place_of(FieldRole::labels);
  if (at == fields.size()) return;
  const std::span<std::byte> bytes = part(columns[at].held);
  labels = {reinterpret_cast<int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t)};
}

std::span<std::byte> Dataset::State::part(const IndexPart& part) const {
  return index->bytes().subspan(static_cast<std::size_t>(part.begin),
                                static_cast<std::size_t>(info.count * part.row_bytes));
}

std::span<const uint32_t> Dataset::State::checksums(const Column& column) const {
  const std::span<std::byte> bytes = part(column.checksums);
  return {reinterpret_cast<const uint32_t*>(bytes.data()), bytes.size() / sizeof(uint32_t)};
}

std::span<std::byte> Dataset::State::set_values(std::size_t field) const {
  return index->bytes().subspan(static_cast<std::size_t>(set_begins[field]), set_fields[field].bytes());
}

/// Checksums and what is held: each shard's are read by one rank and given to all.
void Dataset::State::load_folder_index(comm::Communicator& comm) {
  make_index(comm, [](const Field& /*field*/) { return true; });
  std::vector<ShardArrays> arrays(fields.size());  // of checksums, or of what is held
  std::vector<ShardArrays> sets(sources.size());
  comm::agree(comm, [&] {
    for (std::size_t s = 0; s < files.size(); ++s) {
      for (std::size_t f = 0; f < fields.size(); ++f) {
        const bool sums = fields[f].is_read_in_blocks();
        arrays[f].push_back(files[s].dataset(sums ? checksums_path(fields[f]) : fields[f].path));
        if (sums) {
          check_shard_rows(arrays[f].back(), h5::Element::u32, info.shards[s].count);
        } else {
          check_shard_array(arrays[f].back(), fields[f], info, info.shards[s]);
        }
      }
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (const Field& field : set_fields) {
        sets[i].push_back(files[first_shards[i]].dataset(field.path));
        check_shard_array(sets[i].back(), field, info, info.shards[first_shards[i]]);
      }
    }
  });
  comm::agree(comm, [&] {
    for (auto s = static_cast<std::size_t>(comm.rank()); s < files.size(); s += static_cast<std::size_t>(comm.size())) {
      const ShardInfo& shard = info.shards[s];
      for (std::size_t f = 0; f < fields.size(); ++f) {
        const IndexPart& to = fields[f].is_read_in_blocks() ? columns[f].checksums : columns[f].held;
        arrays[f][s].read_rows(0, shard.count,
                               part(to).subspan(static_cast<std::size_t>(shard.first * to.row_bytes),
                                                static_cast<std::size_t>(shard.count * to.row_bytes)));
      }
    }
    for (std::size_t f = 0; comm.rank() == 0 && f < set_fields.size(); ++f) {
      const h5::Dataset& first = sets.front()[f];
      first.read_rows(0, first.rows(), set_values(f));
      check_set_values(f, first.label());
      for (const ShardArrays& other : sets) expect_values(other[f], set_values(f), first.label());
    }
  });
  share_index(comm);
}

void Dataset::State::share_index(comm::Communicator& comm) {
  std::vector<comm::SharedBytes::Part> spread;
  const auto add = [&](const IndexPart& part, std::size_t shard) {
    const ShardInfo& one = info.shards[shard];
    const int64_t begin = part.begin + one.first * part.row_bytes;
    spread.push_back(
        {begin, begin + one.count * part.row_bytes, static_cast<int>(shard % static_cast<std::size_t>(comm.size()))});
  };
  for (std::size_t s = 0; s < info.shards.size(); ++s) {
    for (const Column& column : columns) {
      if (column.checksums.row_bytes > 0) add(column.checksums, s);
      if (column.held.row_bytes > 0) add(column.held, s);
    }
  }
  for (std::size_t f = 0; f < set_fields.size(); ++f) {
    spread.push_back({set_begins[f], set_begins[f] + static_cast<int64_t>(set_fields[f].bytes()), 0});
  }
  index->spread(spread);
}

void Dataset::State::check_set_values(std::size_t field, const std::string& label) const {
  const Field& f = set_fields[field];
  const std::span<const std::byte> values = set_values(field);
  if (f.role == FieldRole::mask) require_zero_or_one(values, f.format(), {label});
  if (f.dtype == base::DType::f32) require_finite(values, f.format(), {label});
}

void Dataset::State::check_labels() {
  const auto classes = static_cast<int64_t>(info.class_names.size());
  const int64_t most = (classes > 0 ? classes : std::numeric_limits<int64_t>::max()) - 1;  // their number is an int64
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] > most) {
      throw DatasetError("{}: the label of image {} is {}, 0 to {} is wanted", path.string(), i, labels[i], most);
    }
    num_classes = std::max(num_classes, labels[i] + 1);
  }
  if (classes > 0 && !labels.empty()) num_classes = classes;
}

void Dataset::State::check_held() const {
  const std::size_t at = place_of(FieldRole::parameters);
  if (at == fields.size()) return;
  const std::span<const std::byte> values = part(columns[at].held);
  const auto found = first_non_finite(values);
  if (!found) return;
  float value = 0.0F;
  std::memcpy(&value, values.data() + static_cast<std::size_t>(*found) * sizeof(value), sizeof(value));
  const int64_t count = fields[at].shape.front();
  throw DatasetError("{}:{}: parameter {} of image {} is {}; finite values are wanted", path.string(), fields[at].path,
                     *found % count, *found / count, value);
}

void Dataset::State::forget_labels() {
  labels = {};
  num_classes = 0;
  const std::size_t at = place_of(FieldRole::labels);
  if (at == fields.size()) return;
  fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
  columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(at));
  std::erase_if(info.fields, [](const Field& field) { return field.role == FieldRole::labels; });
}

}  // namespace ddpm::data
