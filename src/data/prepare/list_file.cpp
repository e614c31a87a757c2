#include "data/prepare/list_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/parse_number.h"
#include "data/prepare/endings.h"
#include "data/prepare/packed_fields.h"

namespace ddpm::data::prepare {
namespace {

/// What one line says.
struct Line {
  std::string_view path;
  std::optional<std::string_view> label;
};

Line parse_line(std::string_view text, const base::Path& path, int64_t number) {
  const std::size_t tab = text.find('\t');
  if (tab == std::string_view::npos) return {text, std::nullopt};
  const Line line{text.substr(0, tab), text.substr(tab + 1)};
  if (line.path.empty() || line.label->empty() || line.label->find('\t') != std::string_view::npos) {
    throw base::DatasetError("{}: line {} is {:?}, wanted a path, or a path, one tab and a label", path.string(),
                             number, text);
  }
  return line;
}

std::vector<Line> parse_lines(std::string_view text, const base::Path& path) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // which some editors put before UTF-8
  std::vector<Line> lines;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.find('\0') != std::string_view::npos) {
      throw base::DatasetError("{}: line {} holds a zero byte, wanted text", path.string(), number);
    }
    lines.push_back(parse_line(line, path, number));
    if (lines.back().label.has_value() == lines.front().label.has_value()) continue;
    throw base::DatasetError("{}: line {} has {} label, the first line has {}, wanted one on each line or on none",
                             path.string(), number, lines.back().label ? "a" : "no",
                             lines.back().label ? "none" : "one");
  }
  if (lines.empty()) throw base::DatasetError("{}: names no picture, wanted a path on each line", path.string());
  return lines;
}

std::optional<int64_t> class_in(std::string_view text) {
  const auto value = base::parse_number<int64_t>(text);
  return value && *value >= 0 && *value <= kLargestLabel ? value : std::nullopt;
}

/// Whether it is a number of any kind, perhaps with spaces around it.
bool looks_like_number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

/// Whether all labels are numbers of classes. An odd one among numbers must not make names of all the others.
bool are_classes(const std::vector<Line>& lines, const base::Path& path) {
  const auto odd = std::ranges::find_if_not(lines, [](const Line& line) { return class_in(*line.label).has_value(); });
  if (odd == lines.end()) return true;
  if (!std::ranges::all_of(lines, [](const Line& line) { return looks_like_number(*line.label); })) return false;
  throw base::DatasetError(
      "{}: the label of {} is \"{}\", and all labels are numbers; wanted whole ones from 0 to {}, or names",
      path.string(), odd->path, *odd->label, kLargestLabel);
}

void add_labels(const std::vector<Line>& lines, const base::Path& path, PictureFiles& list) {
  list.set.has_labels = true;
  const bool numbers = are_classes(lines, path);
  if (!numbers) {
    for (const Line& line : lines) list.set.class_names.emplace_back(*line.label);
    std::ranges::sort(list.set.class_names);
    list.set.class_names.erase(std::unique(list.set.class_names.begin(), list.set.class_names.end()),
                               list.set.class_names.end());
  }
  for (const Line& line : lines) {
    const auto& names = list.set.class_names;
    list.labels.push_back(numbers ? *class_in(*line.label)
                                  : std::ranges::lower_bound(names, *line.label) - names.begin());
  }
  list.set.classes = *std::ranges::max_element(list.labels) + 1;
}

}  // namespace

bool is_list_name(const base::Path& path) {
  const std::string ending = ending_of(path.filename().string());
  return ending == ".txt" || ending == ".tsv" || ending == ".lst";
}

PictureFiles read_list(const base::FileSystem& files, const base::Path& path, bool with_labels) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31U;
  const std::string text = base::read_as<base::DatasetError>([&] {
    static_cast<void>(base::InputFile(path));  // refuses devices and pipes, which may have no end
    return files.read(path, kMostBytes);
  });
  const std::vector<Line> lines = parse_lines(text, path);
  PictureFiles list;
  list.set.source = path.string();
  list.root = path.parent_path();
  for (const Line& line : lines) list.names.emplace_back(line.path);
  if (with_labels && lines.front().label) add_labels(lines, path, list);
  return list;
}

std::string pack(const PictureFiles& list) {
  FieldWriter fields;
  add(fields, list.set);
  fields.add(list.root.string());
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    fields.add(list.names[i]);
    if (list.set.has_labels) fields.add(list.labels[i]);
  }
  return fields.text();
}

PictureFiles unpack_list(const std::string& text) {
  FieldReader fields(text);
  PictureFiles list;
  take(fields, list.set);
  list.root = fields.text();
  while (!fields.done()) {
    list.names.push_back(fields.text());
    if (list.set.has_labels) list.labels.push_back(fields.number());
  }
  return list;
}

}  // namespace ddpm::data::prepare
