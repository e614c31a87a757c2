#include "data/prepare/numpy_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/npy_header.h"
#include "data/prepare/npz.h"

namespace ddpm::data::prepare {
namespace {

using base::DatasetError;
using base::DType;

/// Elements as they lie in the file: little-endian integers of some width, or what fields hold.
struct StoredType {
  std::size_t bytes = 0;
  bool is_signed = false;
  bool is_integer = false;
  bool is_boolean = false;
  bool is_float32 = false;
};

StoredType stored_type(const std::string& descr) {
  if (descr == "<f4") return {.bytes = 4, .is_float32 = true};
  if (descr == "|b1") return {.bytes = 1, .is_boolean = true};
  const bool byte = descr == "|u1" || descr == "|i1";
  const bool wide = descr.size() == 3 && descr[0] == '<' && (descr[1] == 'u' || descr[1] == 'i') &&
                    (descr[2] == '2' || descr[2] == '4' || descr[2] == '8');
  if (!byte && !wide) return {};
  return {.bytes = static_cast<std::size_t>(descr[2] - '0'), .is_signed = descr[1] == 'i', .is_integer = true};
}

/// One array: its bytes, and what its header says.
struct NumpyArray {
  FieldRole role = FieldRole::image;
  ArrayBytes bytes;
  base::NpyHeader header;
  StoredType type;

  [[nodiscard]] const std::string& label() const { return bytes.label(); }
  [[nodiscard]] int64_t rows() const { return header.shape.empty() ? 0 : header.shape.front(); }
};

template <typename... Args>
[[noreturn]] void refuse(const NumpyArray& array, fmt::format_string<Args...> format, Args&&... args) {
  throw DatasetError("{}: {}", array.label(), fmt::format(format, std::forward<Args>(args)...));
}

NumpyArray open_array(FieldRole role, ArrayBytes bytes) {
  NumpyArray array{.role = role, .bytes = std::move(bytes), .header = {}, .type = {}};
  try {
    array.header = base::read_npy_header(
        [&](uint64_t offset, std::span<std::byte> out) { return array.bytes.read_up_to(offset, out); });
  } catch (const std::invalid_argument& error) {
    refuse(array, "not a .npy file: {}", error.what());
  }
  const base::NpyHeader& header = array.header;
  array.type = stored_type(header.descr);
  if (array.type.bytes == 0) {
    refuse(array, "its elements are '{}', wanted '|u1' or '<f4' (x.astype('float32')), of labels integers",
           header.descr);
  }
  const std::string problem = base::npy_problem(header, array.type.bytes, array.bytes.size());
  if (!problem.empty()) refuse(array, "{}", problem);
  return array;
}

/// Which arrays are used: by role, and where the bytes of each lie.
using Places = std::vector<std::pair<FieldRole, ArrayBytes>>;

std::vector<std::pair<FieldRole, std::string>> named_roles(const ArrayOptions& options) {
  return {{FieldRole::image, options.images},
          {FieldRole::labels, options.labels},
          {FieldRole::condition, options.condition},
          {FieldRole::parameters, options.parameters},
          {FieldRole::static_values, options.static_values},
          {FieldRole::mask, options.mask}};
}

bool is_archive(const base::Path& path) { return path.extension() == ".npz"; }

Places places_beside(const base::Path& path, const ArrayOptions& options) {
  Places places;
  for (const auto& [role, name] : named_roles(options)) {
    if (role == FieldRole::image) {
      if (!name.empty()) {
        throw DatasetError("{}: one .npy file is one array, which has no name such as --images {}", path.string(),
                           name);
      }
      places.emplace_back(role, ArrayBytes(path));
    } else if (!name.empty()) {
      places.emplace_back(role, ArrayBytes(name));
    }
  }
  return places;
}

/// The name that stands for a role that nobody named: "images", or of one array alone its own; "labels" where there
/// are such.
std::string default_name(FieldRole role, const std::vector<NpzMember>& members, bool with_labels) {
  const auto has = [&](std::string_view name) { return std::ranges::count(members, name, &NpzMember::name) > 0; };
  if (role == FieldRole::image) return members.size() == 1 && !has("images") ? members.front().name : "images";
  return role == FieldRole::labels && with_labels && has("labels") ? "labels" : "";
}

Places places_in_archive(const base::Path& path, const ArrayOptions& options, bool with_labels) {
  const std::vector<NpzMember> members = list_npz(base::read_as<DatasetError>([&] { return base::InputFile(path); }));
  Places places;
  for (const auto& [role, given] : named_roles(options)) {
    const std::string name = given.empty() ? default_name(role, members, with_labels) : given;
    if (name.empty()) continue;
    const auto member = std::ranges::find(members, name, &NpzMember::name);
    if (member == members.end()) {
      std::vector<std::string> names(members.size());
      std::ranges::transform(members, names.begin(), &NpzMember::name);
      throw DatasetError("{}: has no array \"{}\" for the role {}; it has {}", path.string(), name, base::name_of(role),
                         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    places.emplace_back(role, ArrayBytes(path, *member));
  }
  return places;
}

Places places_of(const base::Path& path, const ArrayOptions& options, bool with_labels) {
  return is_archive(path) ? places_in_archive(path, options, with_labels) : places_beside(path, options);
}

DType dtype_of(const NumpyArray& array) {
  const bool unsigned_bytes = array.type.bytes == 1 && array.type.is_integer && !array.type.is_signed;
  const std::string_view role = base::name_of(array.role);
  if (array.role == FieldRole::labels) {
    if (!array.type.is_integer) refuse(array, "labels of '{}', integers are wanted", array.header.descr);
    return number_type(array.role);
  }
  if (array.role == FieldRole::mask) {
    if (!unsigned_bytes && !array.type.is_boolean) refuse(array, "masks of '{}', uint8 is wanted", array.header.descr);
    return number_type(array.role);
  }
  if (array.type.is_float32) return number_type(array.role);
  if (unsigned_bytes && is_like_image(array.role)) return DType::u8;
  refuse(array, "values for the role {} of '{}', '<f4'{} is wanted: x.astype('float32')", role, array.header.descr,
         array.role == FieldRole::parameters ? "" : " or '|u1'");
}

/// The field of an array beside images of so many sides, 0 for the images themselves.
Field field_of(const NumpyArray& array, std::size_t sides) {
  std::vector<int64_t> shape = array.header.shape;
  const bool per_set = is_per_set(array.role, shape.size(), sides);
  if (!per_set && shape.empty()) refuse(array, "it is one number, an axis of images is wanted");
  if (!per_set) shape.erase(shape.begin());
  if (is_like_image(array.role) && shape.size() == (sides == 3 ? 3 : 2)) shape.push_back(1);  // no axis of channels
  if (array.role == FieldRole::labels && shape == std::vector<int64_t>{1}) shape.clear();
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 1 || extent > kMaxSide; })) {
    refuse(array, "its shape is [{}], sides of 1 to {} are wanted", fmt::join(array.header.shape, ", "), kMaxSide);
  }
  Field field = make_field(array.role, array_path(array.role), std::move(shape), dtype_of(array), per_set);
  expect_usable(field, array.label());
  return field;
}

class NumpySource final : public FieldSource {
 public:
  NumpySource(base::Path path, Places&& places) : path_(std::move(path)) {
    for (auto& [role, bytes] : places) add(open_array(role, std::move(bytes)));
    std::vector<Field> all = fields_;
    all.insert(all.end(), set_fields_.begin(), set_fields_.end());
    expect_fitting(all, path_.string());
  }

  [[nodiscard]] std::string name() const override { return path_.string(); }
  [[nodiscard]] int64_t size() const override { return arrays_.front().rows(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] const std::vector<Field>& set_fields() const override { return set_fields_; }
  [[nodiscard]] std::vector<std::string> class_names() const override { return {}; }

  void identify(base::Sha256& digest) const override {
    for (const auto* arrays : {&arrays_, &set_arrays_}) {
      for (const NumpyArray& array : *arrays) {
        const base::FileStamp& stamp = array.bytes.file().stamp();
        digest.update(fmt::format("{} {} {} {}\n", array.label(), stamp.size, stamp.seconds, stamp.nanoseconds));
      }
    }
  }

  void read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) override {
    NumpyArray& array = arrays_.at(field);
    if (array.role == FieldRole::labels) {
      read_labels(array, first, count, out);
    } else {
      read_values(array, static_cast<uint64_t>(first) * fields_[field].bytes(), out);
    }
  }
  std::vector<std::byte> read_set(std::size_t field) override {
    std::vector<std::byte> values(set_fields_.at(field).bytes());
    read_values(set_arrays_[field], 0, values);
    return values;
  }

 private:
  void add(NumpyArray array) {
    const std::size_t sides = fields_.empty() ? 0 : fields_.front().format().sides().size();
    Field field = field_of(array, sides);
    if (!field.per_set && !arrays_.empty() && array.rows() != size()) {
      refuse(array, "{} rows, {} are wanted: one for each image", array.rows(), size());
    }
    (field.per_set ? set_fields_ : fields_).push_back(std::move(field));
    (set_fields_.size() > set_arrays_.size() ? set_arrays_ : arrays_).push_back(std::move(array));
  }

  static void read_values(NumpyArray& array, uint64_t offset, std::span<std::byte> out) {
    if (array.bytes.read_up_to(array.header.bytes + offset, out) == out.size()) return;
    refuse(array, "it ends within byte {} and {}", offset, offset + out.size());
  }

  static void read_labels(NumpyArray& array, int64_t first, int64_t count, std::span<std::byte> out) {
    const std::size_t width = array.type.bytes;
    std::vector<std::byte> stored(static_cast<std::size_t>(count) * width);
    read_values(array, static_cast<uint64_t>(first) * width, stored);
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, &stored[static_cast<std::size_t>(i) * width], width);
      const bool negative = array.type.is_signed && (bits >> (8 * width - 1) & 1U) != 0;
      if (negative || bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        refuse(array, "the label of image {} is {}; wanted are the numbers of classes from 0", first + i,
               negative ? "negative" : "beyond int64");
      }
      std::memcpy(&out[static_cast<std::size_t>(i) * sizeof(int64_t)], &bits, sizeof(int64_t));
    }
  }

  base::Path path_;
  std::vector<Field> fields_;
  std::vector<NumpyArray> arrays_;  // one for each of fields_
  std::vector<Field> set_fields_;
  std::vector<NumpyArray> set_arrays_;  // one for each of set_fields_
};

}  // namespace

bool looks_like_numpy(const base::Path& path) {
  if (is_archive(path)) return true;
  return base::read_as<DatasetError>([&] {
    std::array<std::byte, 6> begin{};
    const std::size_t count = base::InputFile(path).read_up_to(0, begin);
    return std::string_view(reinterpret_cast<const char*>(begin.data()), count) == "\x93NUMPY";
  });
}

std::unique_ptr<FieldSource> open_numpy(const base::Path& path, const ArrayOptions& options, bool with_labels) {
  auto source = std::make_unique<NumpySource>(path, places_of(path, options, with_labels));
  if (source->size() == 0) throw DatasetError("{}: has no images", path.string());
  return source;
}

void check_numpy(const base::Path& path, const ArrayOptions& options, bool with_labels) {
  for (auto& [role, bytes] : places_of(path, options, with_labels)) bytes.expect_whole();
}

}  // namespace ddpm::data::prepare
