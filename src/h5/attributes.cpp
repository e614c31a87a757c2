// Attributes of arrays and groups, the names of axes that they tell, and what a group holds.
#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "h5/file.h"
#include "h5/library.h"

namespace ddpm::h5 {

namespace {

constexpr std::size_t kMostBytes = 65536;
constexpr std::size_t kMostNames = 4096;

std::size_t count_of(hid_t space, std::size_t element_bytes, const std::string& subject) {
  const auto count = checked(H5Sget_simple_extent_npoints(space), subject, "read the shape");
  if (static_cast<std::size_t>(count) > kMostBytes / std::max<std::size_t>(element_bytes, 1)) {
    throw base::DatasetError("{}: {} values of {} bytes; at most {} bytes are wanted", subject, count, element_bytes,
                             kMostBytes);
  }
  return static_cast<std::size_t>(count);
}

std::string trimmed(std::string text) {
  text.resize(std::min(text.find('\0'), text.size()));  // padded with zeros, or filled
  text.resize(text.find_last_not_of(' ') + 1);          // or padded with spaces, as Fortran does
  return text;
}

std::vector<std::string> read_texts(hid_t attribute, hid_t type, std::size_t count, const std::string& subject) {
  std::vector<std::string> texts;
  if (checked(H5Tis_variable_str(type), subject, "read the type") > 0) {
    std::vector<char*> found(count, nullptr);
    checked(H5Aread(attribute, type, found.data()), subject, "read");
    for (char* text : found) {
      texts.emplace_back(text == nullptr ? "" : text);
      checked(H5free_memory(text), subject, "release");
    }
    return texts;
  }
  const std::size_t size = H5Tget_size(type);
  std::string all(count * size, '\0');
  checked(H5Aread(attribute, type, all.data()), subject, "read");
  for (std::size_t i = 0; i < count; ++i) texts.push_back(trimmed(all.substr(i * size, size)));
  return texts;
}

/// Truth values, as h5py stores them, are an enumeration of bytes.
std::vector<double> read_truths(hid_t attribute, hid_t type, std::size_t count, const std::string& subject) {
  std::vector<int8_t> bytes(count);
  if (H5Tget_size(type) != 1) throw base::DatasetError("{}: numbers, texts or truth values are wanted", subject);
  checked(H5Aread(attribute, type, bytes.data()), subject, "read");
  return {bytes.begin(), bytes.end()};
}

std::vector<double> read_numbers(hid_t attribute, std::size_t count, const std::string& subject) {
  std::vector<double> numbers(count);
  checked(H5Aread(attribute, H5T_NATIVE_DOUBLE, numbers.data()), subject, "read");
  return numbers;
}

std::vector<uint64_t> read_words(hid_t attribute, hid_t type, std::size_t count, const std::string& subject) {
  std::vector<uint64_t> words(count);
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  checked(H5Aread(attribute, is_signed ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64, words.data()), subject, "read");
  return words;
}

/// Reads an open attribute.
Attribute read_attribute(hid_t id, const std::string& subject) {
  const Handle type = data_type(checked(H5Aget_type(id), subject, "read the type"));
  const Handle space = data_space(checked(H5Aget_space(id), subject, "read the shape"));
  const std::size_t count = count_of(space.id(), H5Tget_size(type.id()), subject);
  Attribute found;
  if (count == 0) return found;
  switch (H5Tget_class(type.id())) {
    case H5T_STRING:
      found.texts = read_texts(id, type.id(), count, subject);
      break;
    case H5T_ENUM:
      found.element = Element::u8;
      found.numbers = read_truths(id, type.id(), count, subject);
      break;
    case H5T_INTEGER:
      found.words = read_words(id, type.id(), count, subject);
      [[fallthrough]];
    case H5T_FLOAT:
      found.element = element_of(type.id());
      found.numbers = read_numbers(id, count, subject);
      break;
    default:
      throw base::DatasetError("{}: numbers, texts or truth values are wanted", subject);
  }
  return found;
}

std::string name_of_object(hid_t object, const std::string& subject) {
  std::array<char, 1024> name{};
  const auto length = checked(H5Iget_name(object, name.data(), name.size()), subject, "find a name");
  return {name.data(), std::min(static_cast<std::size_t>(length), name.size() - 1)};
}

int64_t extent_of(hid_t array, std::size_t axis, const std::string& subject) {
  if (H5Iget_type(array) != H5I_DATASET) return 0;
  const Handle space = data_space(checked(H5Dget_space(array), subject, "read the shape"));
  const int axes = H5Sget_simple_extent_ndims(space.id());
  if (axes < 1 || axis >= static_cast<std::size_t>(axes)) return 0;
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  checked(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), subject, "read the shape");
  return static_cast<int64_t>(std::min<hsize_t>(extents.at(axis), std::numeric_limits<int64_t>::max()));
}

/// The largest extent of the axes that a dimension scale is attached to, as it lists them.
int64_t longest_axis(hid_t scale, const std::string& subject) {
  constexpr const char* kList = "REFERENCE_LIST";
  struct Use {
    hobj_ref_t array = 0;
    unsigned axis = 0;
  };
  if (checked(H5Aexists(scale, kList), subject, "look for the attribute") == 0) return 0;
  const Handle attribute(checked(H5Aopen(scale, kList, H5P_DEFAULT), subject, "open"), H5Aclose);
  const Handle stored = data_type(checked(H5Aget_type(attribute.id()), subject, "read the type"));
  if (H5Tget_class(stored.id()) != H5T_COMPOUND) return 0;
  const Handle space = data_space(checked(H5Aget_space(attribute.id()), subject, "read the shape"));
  std::vector<Use> uses(count_of(space.id(), sizeof(Use), subject));
  const Handle type = data_type(checked(H5Tcreate(H5T_COMPOUND, sizeof(Use)), subject, "make a type"));
  checked(H5Tinsert(type.id(), "dataset", offsetof(Use, array), H5T_STD_REF_OBJ), subject, "make a type");
  checked(H5Tinsert(type.id(), "dimension", offsetof(Use, axis), H5T_NATIVE_UINT), subject, "make a type");
  checked(H5Aread(attribute.id(), type.id(), uses.data()), subject, "read");
  int64_t longest = 0;
  for (const Use& use : uses) {
    const Handle array(checked(H5Rdereference2(scale, H5P_DEFAULT, H5R_OBJECT, &use.array), subject, "follow"),
                       H5Oclose);
    longest = std::max(longest, extent_of(array.id(), use.axis, subject));
  }
  return longest;
}

/// The array that an axis refers to first. A dimension without coordinates that may grow is an array without any
/// values.
DimensionScale scale_of(hid_t dataset, const hvl_t& references, const std::string& subject) {
  if (references.len == 0) return {};
  const Handle scale(checked(H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, references.p), subject, "follow"),
                     H5Oclose);
  DimensionScale found{.name = name_of_object(scale.id(), subject), .extent = extent_of(scale.id(), 0, subject)};
  if (found.extent == 0) found.extent = longest_axis(scale.id(), subject);
  return found;
}

herr_t collect_name(hid_t /*group*/, const char* name, const H5L_info_t* info, void* out) {
  auto& names = *static_cast<std::vector<std::string>*>(out);
  if (info->type == H5L_TYPE_HARD) names.emplace_back(name);
  return names.size() > kMostNames ? -1 : 0;
}

}  // namespace

std::optional<Attribute> Array::find_attribute(const std::string& name) const {
  const LibraryLock lock;
  const std::string subject = label_ + "@" + name;
  if (checked(H5Aexists(handle_.id(), name.c_str()), subject, "look for the attribute") == 0) return std::nullopt;
  const Handle attribute(checked(H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT), subject, "open"), H5Aclose);
  return read_attribute(attribute.id(), subject);
}

std::vector<DimensionScale> Array::scales() const {
  const LibraryLock lock;
  std::vector<DimensionScale> scales(shape_.size());
  const std::string subject = label_ + "@DIMENSION_LIST";
  if (checked(H5Aexists(handle_.id(), "DIMENSION_LIST"), subject, "look for the attribute") == 0) return scales;
  const Handle attribute(checked(H5Aopen(handle_.id(), "DIMENSION_LIST", H5P_DEFAULT), subject, "open"), H5Aclose);
  const Handle type = data_type(checked(H5Aget_type(attribute.id()), subject, "read the type"));
  const Handle space = data_space(checked(H5Aget_space(attribute.id()), subject, "read the shape"));
  if (H5Tget_class(type.id()) != H5T_VLEN) return scales;
  const Handle held = data_type(checked(H5Tget_super(type.id()), subject, "read the type"));
  if (checked(H5Tequal(held.id(), H5T_STD_REF_OBJ), subject, "compare types") == 0 ||
      count_of(space.id(), sizeof(hvl_t), subject) != scales.size()) {
    return scales;
  }
  std::vector<hvl_t> lists(scales.size(), hvl_t{0, nullptr});
  checked(H5Aread(attribute.id(), type.id(), lists.data()), subject, "read");
  std::string failure;
  for (std::size_t axis = 0; axis < scales.size() && failure.empty(); ++axis) {
    try {
      scales[axis] = scale_of(handle_.id(), lists[axis], subject);
    } catch (const base::DatasetError& error) {
      failure = error.what();
    }
  }
  checked(H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, lists.data()), subject, "release");
  if (!failure.empty()) throw base::DatasetError("{}", failure);
  return scales;
}

std::optional<Attribute> File::find_attribute(const std::string& object, const std::string& name) const {
  const LibraryLock lock;
  const std::string subject = path_.string() + ":" + object + "@" + name;
  if (object != "/" && !contains(object)) return std::nullopt;
  if (checked(H5Aexists_by_name(handle_.id(), object.c_str(), name.c_str(), H5P_DEFAULT), subject,
              "look for the attribute") == 0) {
    return std::nullopt;
  }
  const Handle attribute(
      checked(H5Aopen_by_name(handle_.id(), object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), subject, "open"),
      H5Aclose);
  return read_attribute(attribute.id(), subject);
}

std::vector<std::string> File::names_in(const std::string& group) const {
  const LibraryLock lock;
  const std::string subject = path_.string() + ":" + group;
  std::vector<std::string> names;
  if (group != "/" && !contains(group)) return names;
  const Handle opened(checked(H5Gopen2(handle_.id(), group.c_str(), H5P_DEFAULT), subject, "open the group"), H5Gclose);
  checked(H5Literate(opened.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names), subject,
          "list the group");
  return names;
}

}  // namespace ddpm::h5
