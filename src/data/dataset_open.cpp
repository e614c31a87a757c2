// Opening a dataset: which arrays it has, whether they are what they should be, and what is held in memory.
#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
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

/// A folder lists its fields itself: a key of bare files that says another thing is refused, but for a mask that may
/// be absent.
void expect_listed(const DatasetInfo& info, const DatasetOptions& options, const std::string& path) {
  const DatasetOptions plain;
  const std::pair<const char*, bool> said[] = {{"variables", !options.variables.empty()},
                                               {"axes", !options.axes.empty()},
                                               {"sample_axes", !options.sample_axes.empty()},
                                               {"lead", options.lead != plain.lead},
                                               {"missing", options.missing != plain.missing}};
  for (const auto& [key, is_said] : said) {
    if (!is_said) continue;
    throw DatasetError("{}: {} is for foreign files; this is a dataset, whose {} lists its fields", path,
                       options.key(key), kDescriptionFile);
  }
  struct Named {
    FieldRole role;
    std::string_view key;
    const std::string& name;
    const std::string& unset;
  };
  const Named named[] = {{FieldRole::image, "images", options.images, plain.images},
                         {FieldRole::labels, "labels", options.labels, plain.labels},
                         {FieldRole::condition, "condition", options.condition, plain.condition},
                         {FieldRole::static_values, "static", options.static_values, plain.static_values},
                         {FieldRole::parameters, "parameters", options.parameters, plain.parameters},
                         {FieldRole::mask, "mask", options.mask, plain.mask}};
  for (const auto& [role, key, name, unset] : named) {
    const std::size_t at = info.find(role);
    const std::string listed = at < info.fields.size() ? info.fields[at].path : "";
    if (name.empty() || name == unset || name == listed) continue;
    if (role == FieldRole::mask && options.mask_use != MaskUse::required) continue;
    throw DatasetError("{}: {}, but {} lists {}", path, key_text(options.said_by, key, name), kDescriptionFile,
                       listed.empty() ? "no field of that role" : fmt::format("\"{}\"", listed));
  }
}

/// Whether the set is a folder. Throws DatasetError for what is neither.
bool is_folder(const Path& path) {
  const auto found = base::read_as<DatasetError>([&] { return base::kind_of(path); });
  if (found == base::FileKind::folder) return true;
  if (found == base::FileKind::regular) return false;
  throw DatasetError("{}: there is no such dataset; a folder with {}, or an HDF5 or NetCDF-4 file is wanted",
                     path.string(), kDescriptionFile);
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
void expect_values(const h5::Array& array, std::span<const std::byte> wanted, const std::string& first) {
  std::vector<std::byte> values(wanted.size());
  array.read_rows(0, array.rows(), values);
  expect_shared(values, array.label(), wanted, first);
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
  make_index(comm, [](const Field& /*field*/) { return true; });
  // Each shard is opened by one rank, which tells the others where its arrays lie: HDF5 and its metadata are not asked
  // again, however many ranks there are.
  base::Json mine = base::Json::array();
  comm::agree(comm, [&] {
    for (auto s = static_cast<std::size_t>(comm.rank()); s < paths.size(); s += static_cast<std::size_t>(comm.size())) {
      load_shard(s, mine);
    }
    if (comm.rank() == 0) load_set_values();
  });
  share_index(comm);
  std::vector<std::vector<h5::PlainPlace>> places(paths.size(), std::vector<h5::PlainPlace>(fields.size()));
  for (const std::string& found : comm::all_gather(comm, mine.dump())) {
    for (const base::Json& one : base::Json::parse(found)) {
      places[one.at(0).get<std::size_t>()][one.at(1).get<std::size_t>()] = {.offset = one.at(2).get<uint64_t>(),
                                                                            .turned = one.at(3).get<bool>()};
    }
  }
  for (std::size_t s = 0; s < paths.size(); ++s) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (!fields[f].is_read_in_blocks()) continue;
      std::vector<int64_t> shape = fields[f].shape;
      shape.insert(shape.begin(), info.shards[s].count);
      columns[f].shards.push_back(std::make_unique<StoredRows>(
          h5::Array::placed(paths[s], fields[f].path, std::move(shape), element_of(fields[f].dtype), places[s][f]),
          paths[s], StoredRows::Form{.shape = fields[f].shape, .dtype = fields[f].dtype}));
    }
  }
}

/// Checks a shard and reads into the index what it holds of it. Adds [shard, field, offset, whether values are turned]
/// to `places` for each array that is read in blocks.
void Dataset::State::load_shard(std::size_t s, base::Json& places) {
  const ShardInfo& shard = info.shards[s];
  check_shard_file(paths[s], shard);
  h5::File file = h5::File::open(paths[s]);
  const auto load = [&](const h5::Array& array, const IndexPart& to) {
    array.read_rows(0, shard.count,
                    part(to).subspan(static_cast<std::size_t>(shard.first * to.row_bytes),
                                     static_cast<std::size_t>(shard.count * to.row_bytes)));
  };
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const h5::Array array = file.array(fields[f].path);
    check_shard_array(array, fields[f], info, shard);
    if (!fields[f].is_read_in_blocks()) {
      load(array, columns[f].held);
      continue;
    }
    const h5::Array sums = file.array(checksums_path(fields[f]));
    check_shard_rows(sums, h5::Element::u32, shard.count);
    load(sums, columns[f].checksums);
    if (shard.count == 0) continue;
    const std::optional<h5::PlainPlace> place = array.plain_place();
    if (!place) {
      throw DatasetError("{}: its values are numbers of an unusual form; plain {} is wanted", array.label(),
                         h5::name_of(array.element()));
    }
    places.push_back({s, f, place->offset, place->turned});
  }
}

/// What all images share lies in the first shard of each set.
void Dataset::State::load_set_values() {
  for (std::size_t i = 0; !set_fields.empty() && i < sources.size(); ++i) {
    const std::size_t shard = first_shards[i];
    check_shard_file(paths[shard], info.shards[shard]);
    const h5::File file = h5::File::open(paths[shard]);
    for (std::size_t f = 0; f < set_fields.size(); ++f) {
      const h5::Array array = file.array(set_fields[f].path);
      check_shard_array(array, set_fields[f], info, info.shards[shard]);
      if (i == 0) {
        array.read_rows(0, array.rows(), set_values(f));
        check_set_values(f, array.label());
      } else {
        expect_values(array, set_values(f), paths[first_shards.front()].string() + ":" + set_fields[f].path);
      }
    }
  }
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

void Dataset::State::share_index(comm::Communicator& comm) {
  std::vector<comm::WrittenBytes> spread;
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
