#include "observe/csv_log.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddpm::observe {
namespace {

constexpr uint64_t kMaxTableBytes = uint64_t{4} << 30U;

/// A cell as RFC 4180 has it. A name never spans lines.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c == '\n' || c == '\r' ? ' ' : c;
  }
  return quoted + '"';
}

/// The cells of a line, as they are written.
std::vector<std::string> cells_of_line(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

/// The step of a row, which is its first cell.
std::optional<int64_t> step_of(std::string_view row) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), step);
  if (error != std::errc() || end == row.data() + row.size() || *end != ',') return std::nullopt;
  return step;
}

/// Takes the whole lines of `text`, without their ends.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    lines.push_back(text.substr(0, end));
  return lines;
}

}  // namespace

void CsvLog::begin(int64_t step, std::span<const StepMetrics> rows) {
  const std::string text = files().exists(path()) ? files().read(path(), kMaxTableBytes) : "";
  const std::vector<std::string_view> lines = lines_of(text);
  std::string kept;
  std::vector<int64_t> steps;
  if (!lines.empty() && lines.front().starts_with("step,")) {
    columns_ = cells_of_line(lines.front());
    kept = std::string(lines.front()) + "\n";
    for (const std::string_view line : std::span(lines).subspan(1)) {
      const std::optional<int64_t> at = step_of(line);
      if (!at || *at > step || (!steps.empty() && *at <= steps.back())) continue;
      steps.push_back(*at);
      kept.append(line).push_back('\n');
    }
  }
  if (std::ranges::equal(steps, rows, {}, {}, &StepMetrics::step)) {
    if (kept != text) base::write_atomically(files(), path(), kept);
    return;
  }
  columns_.clear();
  if (files().exists(path())) files().remove(path());
  for (const StepMetrics& metrics : rows) append(metrics);
}

void CsvLog::append(const StepMetrics& metrics) {
  const auto cells = cells_of(metrics);
  std::vector<std::string> fresh;
  std::vector<std::string> row(columns_.size());
  for (const auto& [name, value] : cells) {
    const std::string column = cell(name);
    const auto at = static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
    if (at < columns_.size()) {
      row[at] = value;
    } else {
      fresh.push_back(column);
      row.push_back(value);
    }
  }
  if (!fresh.empty()) add_columns(fresh);
  append_line(fmt::format("{}", fmt::join(row, ",")));
}

void CsvLog::add_columns(std::span<const std::string> names) {
  const bool first = columns_.empty();
  columns_.insert(columns_.end(), names.begin(), names.end());
  std::string text = fmt::format("{}\n", fmt::join(columns_, ","));
  if (!first && files().exists(path())) {
    const std::string before = files().read(path(), kMaxTableBytes);
    const std::vector<std::string_view> lines = lines_of(before);
    for (std::size_t i = 1; i < lines.size(); ++i) text.append(lines[i]).append(names.size(), ',').push_back('\n');
  }
  base::write_atomically(files(), path(), text);
  reopen();
}

}  // namespace ddpm::observe
