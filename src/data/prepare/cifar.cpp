#include "data/prepare/cifar.h"

#include <span>
#include <string_view>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

constexpr int kSide = 32;
constexpr int kChannels = 3;

struct Layout {
  std::string_view name;
  std::string_view names_file;
  int64_t label_bytes;     // before the pixels; the last one is the label
  int64_t classes;         // number of classes of that label
  int64_t coarse_classes;  // number of classes of the first label, where there are two
};

constexpr Layout kTen = {"CIFAR-10", "batches.meta.txt", 1, 10, 0};
constexpr Layout kHundred = {"CIFAR-100", "fine_label_names.txt", 2, 100, 20};

const Layout& layout_of(Cifar kind) { return kind == Cifar::ten ? kTen : kHundred; }

int64_t record_bytes(const Layout& layout) { return layout.label_bytes + int64_t{kSide} * kSide * kChannels; }

}  // namespace

std::string name_of(Cifar kind) { return std::string(layout_of(kind).name); }

Cifar cifar_kind(const PackedFile& file) {
  const int64_t size = file.stamp().size;
  const auto fits = [&](const Layout& layout) { return size > 0 && size % record_bytes(layout) == 0; };
  if (fits(kTen) != fits(kHundred)) return fits(kTen) ? Cifar::ten : Cifar::hundred;
  if (fits(kTen)) {
    throw base::DatasetError("{}: {} bytes fit both CIFAR-10 and CIFAR-100; say which with --format",
                             file.path().string(), size);
  }
  throw base::DatasetError(
      "{}: no IDX file by its first bytes, and {} bytes are not whole "
      "records of {} (CIFAR-10, binary version) or {} (CIFAR-100)",
      file.path().string(), size, record_bytes(kTen), record_bytes(kHundred));
}

RecordFile look_at_cifar(const base::Path& path, Cifar kind, bool with_labels) {
  const Layout& layout = layout_of(kind);
  const int64_t bytes = record_bytes(layout);
  PackedFile file(path);
  const int64_t size = file.stamp().size;
  if (file.packed())
    throw base::DatasetError("{}: packed with gzip, wanted it unpacked ({})", path.string(), layout.name);
  if (size == 0 || size % bytes != 0) {
    throw base::DatasetError("{}: {} bytes, wanted whole records of {} ({})", path.string(), size, bytes, layout.name);
  }
  RecordFile found{
      .count = size / bytes,
      .height = kSide,
      .width = kSide,
      .channels = kChannels,
      .planar = true,
      .classes = with_labels ? layout.classes : 0,
      .images = {path, file.stamp(), static_cast<uint64_t>(layout.label_bytes), static_cast<uint64_t>(bytes)},
      .labels = std::nullopt};
  Column column = found.images;
  if (layout.coarse_classes > 0) {
    column.first = 0;
    largest_label(file, column, found.count, layout.coarse_classes - 1, fmt::format("{}, coarse", layout.name));
  }
  column.first = static_cast<uint64_t>(layout.label_bytes - 1);
  largest_label(file, column, found.count, layout.classes - 1, name_of(kind));
  if (with_labels) found.labels = column;
  return found;
}

std::vector<std::string> parse_cifar_names(std::string_view text, Cifar kind, const std::string& origin) {
  const Layout& layout = layout_of(kind);
  std::vector<std::string> names;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) names.push_back(line);  // the published file ends in empty lines
    line.clear();
  };
  for (const char c : text) {
    if (c == '\0') throw base::DatasetError("{}: has zero bytes, wanted a text", origin);
    if (c == '\n') end_line();
    if (c != '\n' && c != '\r') line.push_back(c);
  }
  end_line();
  if (std::ssize(names) != layout.classes) {
    throw base::DatasetError("{}: {} names, wanted {} ({})", origin, names.size(), layout.classes, layout.name);
  }
  return names;
}

std::vector<std::string> cifar_class_names(const base::Path& folder, Cifar kind) {
  constexpr int64_t kMaxBytes = 1 << 16;
  const base::Path path = folder / layout_of(kind).names_file;
  if (!is_there(path)) return {};
  PackedFile file(path);
  if (file.packed() || file.stamp().size > kMaxBytes) {
    throw base::DatasetError("{}: {} bytes, wanted a text of at most {}", path.string(), file.stamp().size, kMaxBytes);
  }
  std::vector<uint8_t> bytes(static_cast<std::size_t>(file.stamp().size));
  file.read(0, bytes);
  return parse_cifar_names(std::string(bytes.begin(), bytes.end()), kind, path.string());
}

}  // namespace ddpm::data::prepare
