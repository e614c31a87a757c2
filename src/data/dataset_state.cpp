#include "data/dataset_state.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/field.h"
#include "data/field_json.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

/// To find chunks, HDF5 reads more of a file, and does not survive all that may lie there after a change. Between reads
/// of single images this much time may pass without a look at the file.
constexpr auto kLooksApart = std::chrono::seconds(1);

}  // namespace

void expect_shared(std::span<const std::byte> values, const std::string& label, std::span<const std::byte> wanted,
                   const std::string& first) {
  if (std::ranges::equal(values, wanted)) return;
  throw DatasetError("{}: its values are not those of {}, which all images share", label, first);
}

std::size_t Dataset::State::place_of(FieldRole role) const {
  return static_cast<std::size_t>(std::ranges::find(fields, role, &Field::role) - fields.begin());
}

void Dataset::State::expect_unchanged() const {
  expect_vouched_files();
  const std::lock_guard lock(look);
  for (std::size_t s = 0; compares_opened && s < opened.size(); ++s) {
    if (!touched[s].exchange(false) && opened.size() > 1) continue;
    touched[s] = true;  // what a failure leaves, for other threads that read it
    opened[s].expect_unchanged(paths[s]);
    touched[s] = false;
  }
  looked_at = base::Clock::now().time_since_epoch().count();
}

void Dataset::State::hash_content() {
  const ImageFormat image = info.image();
  const std::size_t images = place_of(FieldRole::image);
  const std::span<const uint32_t> sums = checksums(columns[images]);
  base::Sha256 digest;
  digest.update(fmt::format("ddpm dataset content 1\n{} {} {} {} {} {} {}\n", info.count, image.height, image.width,
                            image.channels, numpy_name(image.dtype), info.normalization().scale,
                            info.normalization().offset));
  if (image.depth > 0) digest.update(fmt::format("depth {}\n", image.depth));
  for (const std::string& name : info.class_names) digest.update(fmt::format("{} {}\n", name.size(), name));
  digest.update(fmt::format("labels {}\n", labels.size()));
  digest.update(std::as_bytes(labels));
  if (!sums.empty()) digest.update("checksums\n");
  for (const ShardInfo& shard : info.shards) {
    if (sums.empty()) digest.update(fmt::format("bytes {}\n", shard.size));
  }
  digest.update(std::as_bytes(sums));
  for (const auto& each : adopted) {
    if (each) digest.update("adopted " + each->adoption().table_sha256 + "\n");
  }
  if (!info.has_images_of_one_map()) {
    digest.update("fields " + to_json(info.fields).dump() + "\n");
    for (std::size_t f = 0; f < columns.size(); ++f) {
      if (f == images) continue;
      digest.update(std::as_bytes(checksums(columns[f])));
      if (fields[f].role != FieldRole::labels) digest.update(part(columns[f].held));
    }
    for (std::size_t f = 0; f < set_fields.size(); ++f) digest.update(set_values(f));
  }
  if (!description.empty()) digest.update("foreign\n" + description);
  content_hash = digest.hex();
}

void Dataset::State::read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out,
                          Wanted wanted) const {
  const auto after = std::ranges::upper_bound(info.shards, first, {}, &ShardInfo::first);
  for (auto s = static_cast<std::size_t>(after - info.shards.begin()) - 1; count > 0; ++s) {
    const int64_t inside = first - info.shards[s].first;
    const int64_t n = std::min(count, info.shards[s].count - inside);
    if (n > 0) {
      const std::size_t bytes = static_cast<std::size_t>(n) * fields[field].bytes();
      read_from_shard(field, s, inside, n, out.first(bytes), wanted);
      out = out.subspan(bytes);
    }
    first += n;
    count -= n;
  }
}

void Dataset::State::read_from_shard(std::size_t field, std::size_t shard, int64_t first, int64_t count,
                                     std::span<std::byte> out, Wanted wanted) const {
  guarded(field, shard, [&] {
    try {
      read_and_check(field, shard, first, count, out, wanted);
    } catch (const base::DatasetAccessError&) {
      throw;
    } catch (const DatasetError&) {
      expect_unchanged();
      columns[field].shards[shard]->expect_readable(first, count);
      throw;
    }
  });
}

/// A read that fails says something of its images only where the machine works and the file is still the same.
void Dataset::State::guarded(std::size_t field, std::size_t shard, const std::function<void()>& read) const {
  const auto since_look = base::Clock::now().time_since_epoch() - base::Clock::duration(looked_at.load());
  if (columns[field].chunk_bytes > 0 && since_look >= kLooksApart) expect_unchanged();
  try {
    touch(shard);
    read();
    touch(shard);
  } catch (const base::DatasetAccessError&) {
    throw;
  } catch (const DatasetError& error) {
    expect_unchanged();
    throw ImageError("{}", error.what());
  }
}

void Dataset::State::read_and_check(std::size_t field, std::size_t shard, int64_t first, int64_t count,
                                    std::span<std::byte> out, Wanted wanted) const {
  const Column& column = columns[field];
  const FieldRole role = fields[field].role;
  const ImageFormat format = fields[field].format();
  const int64_t first_in_set = info.shards[shard].first + first;
  const Rows& rows = *column.shards[shard];
  const BlockOrigin origin{rows.label(), first, first_in_set, rows.advice()};
  rows.read_rows(first, count, out);
  if (column.checksums.row_bytes > 0) {
    const auto sums = checksums(column).subspan(static_cast<std::size_t>(first_in_set));
    require_checksums(out, format, sums.first(static_cast<std::size_t>(count)), origin);
  }
  if (role == FieldRole::mask) require_zero_or_one(out, format, origin);
  if (format.dtype != base::DType::f32 || wanted == Wanted::any) return;
  require_finite(out, format, origin, role == FieldRole::image ? masks_of(first_in_set, count) : BlockMasks{});
}

BlockMasks Dataset::State::masks_of(int64_t first, int64_t count) const {
  const std::size_t at = info.find(FieldRole::mask);
  if (at == info.fields.size()) return {};
  return [this, at, first, count] {
    const std::size_t bytes = info.fields[at].bytes();
    std::vector<std::byte> masks(static_cast<std::size_t>(count) * bytes);
    if (at < fields.size()) {
      read(at, first, count, masks);
      return masks;
    }
    const std::span<const std::byte> one = set_values(at - fields.size());
    for (std::size_t i = 0; i < masks.size(); i += bytes)
      std::ranges::copy(one, masks.begin() + static_cast<int64_t>(i));
    return masks;
  };
}

Dataset::Dataset(std::unique_ptr<State> state) : state_(std::move(state)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

int Dataset::threads() const { return std::max(state_->reading.threads, 1); }
const DatasetOptions& Dataset::reading() const { return state_->reading; }
int64_t Dataset::pairs_left_out() const { return state_->pairs_left_out; }

const std::vector<bool>& Dataset::periodic_axes() const { return state_->periodic; }
std::string Dataset::name() const { return fmt::format("{}", fmt::join(state_->names, ", ")); }

const std::vector<OrderedSet>& Dataset::parts() const { return state_->parts; }
const std::vector<Path>& Dataset::files() const { return state_->paths; }
const DatasetInfo& Dataset::info() const { return state_->info; }
const Path& Dataset::path() const { return state_->path; }
std::span<const int64_t> Dataset::labels() const { return state_->labels; }
int64_t Dataset::num_classes() const { return state_->num_classes; }
int64_t Dataset::expect_classes() const {
  if (num_classes() > 0) return num_classes();
  throw DatasetError("{}: has no labels; wanted: a set with classes", path().string());
}
const std::vector<Field>& Dataset::fields() const { return state_->fields; }
const std::vector<Field>& Dataset::set_fields() const { return state_->set_fields; }
std::span<const std::byte> Dataset::set_values(std::size_t field) const { return state_->set_values(field); }
std::span<const std::byte> Dataset::held_values(std::size_t field) const {
  return state_->part(state_->columns.at(field).held);
}
void Dataset::set_transforms(const std::vector<Field>& like) {
  for (const Field& field : state_->info.fields) {
    const Field* from = field_of(like, field.role);
    if (from == nullptr) continue;
    for (const Variable& variable : from->variables) {
      const Transform& map = variable.transform;
      if (!map.has_grid() || map.grid->sides == field.format().sides()) continue;
      throw DatasetError("{}: {} is {}, but its variable {} is to be mapped by a {}", path().string(), field.name,
                         size_text(field.format()), variable.name, map.text());
    }
  }
  for (auto* fields : {&state_->info.fields, &state_->fields, &state_->set_fields}) {
    for (Field& field : *fields) {
      const Field* from = field_of(like, field.role);
      if (from == nullptr) continue;
      DDPM_CHECK(from->variables.size() == field.variables.size(), "{} variables of {}, {} of another set",
                 field.variables.size(), field.name, from->variables.size());
      for (std::size_t v = 0; v < field.variables.size(); ++v) {
        field.variables[v].transform = from->variables[v].transform;
      }
    }
  }
}

bool Dataset::has_checksums() const {
  return state_->columns[state_->place_of(FieldRole::image)].checksums.row_bytes > 0;
}
uint64_t Dataset::bytes_per_read() const {
  return std::max<uint64_t>(image().bytes(), state_->columns[state_->place_of(FieldRole::image)].chunk_bytes);
}
std::size_t Dataset::block_bytes() const {
  std::size_t bytes = 0;
  for (const Field& field : fields()) bytes += field.is_read_in_blocks() ? field.bytes() : 0;
  return bytes;
}
bool Dataset::is_adopted() const {
  return !state_->adopted.empty() &&
         std::ranges::all_of(state_->adopted, [](const auto& each) { return each.has_value(); });
}
const std::string& Dataset::content_hash() const { return state_->content_hash; }

bool Dataset::has_digests() const {
  const State& s = *state_;
  for (std::size_t f = 0; s.compares_opened && f < s.opened.size(); ++f) {
    const bool vouched = f < s.adopted.size() && s.adopted[f].has_value();
    if (!vouched && s.info.shards.front().sha256.empty()) return false;
  }
  return true;
}

void Dataset::read_block(int64_t first, int64_t count, std::span<std::byte> out) const {
  read_unconfirmed(first, count, out);
  expect_unchanged();
}

void Dataset::expect_unchanged() const { state_->expect_unchanged(); }

void Dataset::read_unconfirmed(int64_t first, int64_t count, std::span<std::byte> out) const {
  read_unconfirmed(state_->place_of(FieldRole::image), first, count, out);
}

namespace {

void check_room(const Dataset& set, std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) {
  DDPM_CHECK(first >= 0 && count >= 0 && count <= set.size() - first, "images [{}, {} + {}) of {}", first, first, count,
             set.size());
  DDPM_CHECK(out.size() == static_cast<std::size_t>(count) * set.fields().at(field).bytes(), "{} bytes for {} images",
             out.size(), count);
}

}  // namespace

void Dataset::read_unconfirmed(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) const {
  check_room(*this, field, first, count, out);
  state_->read(field, first, count, out);
}

void Dataset::read_any_values(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) const {
  check_room(*this, field, first, count, out);
  state_->read(field, first, count, out, Wanted::any);
}

std::vector<std::vector<std::byte>> Dataset::room_for(std::span<const int64_t> indices) const {
  return state_->room_for(indices, fields());
}

std::vector<std::vector<std::byte>> Dataset::room_for(std::span<const int64_t> indices,
                                                      const ImageWindows& windows) const {
  return state_->room_for(indices, windows.read_of(fields()));
}

/// `read` are the fields as they are read.
std::vector<std::vector<std::byte>> Dataset::State::room_for(std::span<const int64_t> indices,
                                                             const std::vector<Field>& read) const {
  std::vector<std::vector<std::byte>> values;
  for (std::size_t f = 0; f < read.size(); ++f) {
    const std::size_t bytes = read[f].bytes();
    auto& room = values.emplace_back(indices.size() * bytes);
    if (read[f].is_read_in_blocks()) continue;
    const std::span<const std::byte> held = part(columns[f].held);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::memcpy(&room[i * bytes], &held[static_cast<std::size_t>(indices[i]) * bytes], bytes);
    }
  }
  return values;
}

std::shared_ptr<const void> Dataset::lease() const { return state_->lease; }

void Dataset::close(comm::Communicator& comm) {
  DDPM_CHECK(state_->lease.use_count() == 1, "{} is closed while {} still read it", path().string(),
             base::counted(state_->lease.use_count() - 1, "thread"));
  for (Column& column : state_->columns) column.shards.clear();
  for (h5::File& file : state_->files) comm::agree(comm, [&] { file.close(); });
  state_->files.clear();
  state_->labels = {};
  state_->index->close();
  if (state_->held_images) state_->held_images->close();
  for (auto& each : state_->adopted) {
    if (each) each->close();
  }
  if (state_->ring_bytes) state_->ring_bytes->close();
}

}  // namespace ddpm::data
