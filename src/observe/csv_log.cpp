#include "observe/csv_log.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddpm::observe {
namespace {

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

/// Takes the whole lines of `text`, without their ends.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    lines.push_back(text.substr(0, end));
  return lines;
}

}  // namespace

void CsvLog::begin(std::span<const StepMetrics> rows) {
  reopen();
  columns_.clear();
  std::vector<std::vector<std::string>> table;
  table.reserve(rows.size());
  for (const StepMetrics& metrics : rows) {
    std::vector<std::string> fresh;
    table.push_back(row_of(metrics, fresh));
    columns_.insert(columns_.end(), fresh.begin(), fresh.end());
  }
  std::string text;
  if (!columns_.empty()) text = fmt::format("{}\n", fmt::join(columns_, ","));
  for (std::vector<std::string>& row : table) {
    row.resize(columns_.size());
    text += fmt::format("{}\n", fmt::join(row, ","));
  }
  const bool exists = files().exists(path());
  if (exists && files().read(path(), kMostLogBytes) == text) return;
  if (!text.empty()) return base::write_atomically(files(), path(), text);
  if (exists) files().remove(path());
}

std::vector<std::string> CsvLog::row_of(const StepMetrics& metrics, std::vector<std::string>& fresh) const {
  std::vector<std::string> row(columns_.size());
  for (const auto& [name, value] : cells_of(metrics)) {
    const std::string column = cell(name);
    const auto at = static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
    if (at < columns_.size()) {
      row[at] = value;
    } else {
      fresh.push_back(column);
      row.push_back(value);
    }
  }
  return row;
}

void CsvLog::append(const StepMetrics& metrics) {
  std::vector<std::string> fresh;
  const std::vector<std::string> row = row_of(metrics, fresh);
  if (!fresh.empty()) add_columns(fresh);
  append_line(fmt::format("{}", fmt::join(row, ",")));
}

void CsvLog::add_columns(std::span<const std::string> names) {
  const bool first = columns_.empty();
  columns_.insert(columns_.end(), names.begin(), names.end());
  std::string text = fmt::format("{}\n", fmt::join(columns_, ","));
  if (!first && files().exists(path())) {
    const std::string before = files().read(path(), kMostLogBytes);
    const std::vector<std::string_view> lines = lines_of(before);
    for (std::size_t i = 1; i < lines.size(); ++i) text.append(lines[i]).append(names.size(), ',').push_back('\n');
  }
  base::write_atomically(files(), path(), text);
  reopen();
}

}  // namespace ddpm::observe
