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

}  // namespace

Dataset Dataset::open(comm::Communicator& comm, const Path& path, const DatasetOptions& options) {
  auto state = std::make_unique<State>();
  state->path = path;
  const std::string kind = comm::agree_on_root(comm, [&]() -> std::string {
    const auto found = base::read_as<DatasetError>([&] { return base::kind_of(path); });
    if (found == base::FileKind::folder) return "folder";
    if (found == base::FileKind::regular) return "file";
    throw DatasetError("{}: there is no such dataset; a folder with {} or one .h5 file is wanted", path.string(),
                       kDescriptionFile);
  });
  if (kind == "folder") {
    state->open_folder(comm);
    comm::agree(comm, [&] { expect_listed(state->info, options, path.string()); });
  } else {
    state->open_file(comm, options);
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

void Dataset::State::open_folder(comm::Communicator& comm) {
  info = parse_dataset_info(comm::agree_on_root(comm, [&] { return to_json_text(read_dataset_info(path)); }),
                            (path / kDescriptionFile).string());
  sort_fields();
  const auto shards = static_cast<int>(info.shards.size());
  comm::agree(comm, [&] {
    for (int s = comm.rank(); s < shards; s += comm.size())
      check_shard_file(path, info.shards[static_cast<std::size_t>(s)]);
  });
  std::vector<Path> paths;
  for (const ShardInfo& shard : info.shards) paths.push_back(path / shard.file);
  files = h5::File::open_parallel(comm, paths);
  comm::agree(comm, [&] {
    for (std::size_t s = 0; s < files.size(); ++s) {
      for (std::size_t f = 0; f < fields.size(); ++f) {
        if (!fields[f].is_read_in_blocks()) continue;
        columns[f].arrays.push_back(files[s].dataset(fields[f].path));
        check_shard_array(columns[f].arrays.back(), fields[f], info, info.shards[s]);
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
  ShardArrays sets;
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
    for (const Field& field : set_fields) {
      sets.push_back(files.front().dataset(field.path));
      check_shard_array(sets.back(), field, info, info.shards.front());
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
    for (std::size_t f = 0; comm.rank() == 0 && f < sets.size(); ++f) {
      sets[f].read_rows(0, sets[f].rows(), set_values(f));
      finish_set_values(f, /*channels_first=*/false, sets[f].label());
    }
  });
  share_index(comm);
}

void Dataset::State::share_index(comm::Communicator& comm) {
  std::vector<comm::SharedBytes::Part> parts;
  const auto add = [&](const IndexPart& part, std::size_t shard) {
    const ShardInfo& one = info.shards[shard];
    const int64_t begin = part.begin + one.first * part.row_bytes;
    parts.push_back(
        {begin, begin + one.count * part.row_bytes, static_cast<int>(shard % static_cast<std::size_t>(comm.size()))});
  };
  for (std::size_t s = 0; s < info.shards.size(); ++s) {
    for (const Column& column : columns) {
      if (column.checksums.row_bytes > 0) add(column.checksums, s);
      if (column.held.row_bytes > 0) add(column.held, s);
    }
  }
  for (std::size_t f = 0; f < set_fields.size(); ++f) {
    parts.push_back({set_begins[f], set_begins[f] + static_cast<int64_t>(set_fields[f].bytes()), 0});
  }
  index->spread(parts);
}

void Dataset::State::open_file(comm::Communicator& comm, const DatasetOptions& options) {
  const std::string tried = comm::agree_on_root(comm, [&] {
    const OpenedFile before = OpenedFile::of(path);
    try_foreign_file(path, options);
    return before.text();
  });
  files = h5::File::open_parallel(comm, std::span(&path, 1));
  comm::agree(comm, [&] {
    opened = OpenedFile::of(path);
    opened->expect_like(path, tried);
  });
  BareArrays bare;
  comm::agree(comm, [&] { bare = open_bare_arrays(files.front(), options); });
  info = bare.info;
  sort_fields();
  make_index(comm, [&](const Field& field) { return bare.checksums && field.role == FieldRole::image; });
  comm::agree(comm, [&] {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      BareArray& from = bare.array_of(fields[f]);
      if (fields[f].is_read_in_blocks()) {
        columns[f].chunk_bytes = from.array.chunk_bytes();
        columns[f].channels_first = from.channels_first;
        columns[f].arrays.push_back(std::move(from.array));
      } else if (comm.rank() == 0 && fields[f].role == FieldRole::labels) {
        from.array.read_integers(0, info.count, labels);
      } else if (comm.rank() == 0) {
        from.array.read_rows(0, info.count, part(columns[f].held));
      }
    }
    if (comm.rank() != 0) return;
    for (std::size_t f = 0; f < set_fields.size(); ++f) {
      const BareArray& from = bare.array_of(set_fields[f]);
      from.array.read_rows(0, from.array.rows(), set_values(f));
      finish_set_values(f, from.channels_first, from.array.label());
    }
    if (bare.checksums) bare.checksums->read_rows(0, info.count, part(columns[place_of(FieldRole::image)].checksums));
    opened->expect_unchanged(path);
  });
  share_index(comm);
  const bool images_alone = std::ranges::count_if(fields, &Field::is_read_in_blocks) == 1;
  if (bare.checksums && columns[place_of(FieldRole::image)].chunk_bytes == 0 && images_alone) opened.reset();
}

/// Brings them into the order in which they are used, and looks at them.
void Dataset::State::finish_set_values(std::size_t field, bool channels_first, const std::string& label) const {
  const Field& f = set_fields[field];
  const std::span<std::byte> values = set_values(field);
  if (channels_first) {
    const std::vector<std::byte> stored(values.begin(), values.end());
    to_channels_last(stored, f.format(), values);
  }
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
