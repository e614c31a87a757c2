#include "doctor/number_ranges.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>

#include <fmt/format.h>

namespace ddpm::doctor {
namespace {

constexpr int kMostNumbers = 1 << 16;  // what one range may hold, so that a damaged file cannot fill the memory

/// Ranges of ascending numbers, each written by `one`.
std::string joined(const std::vector<int>& numbers, const std::function<std::string(int)>& one) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += one(numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", one(numbers[end - 1]));
    i = end;
  }
  return text;
}

/// Names of the form head + digits + tail, `width` digits wide.
struct Family {
  std::string head;
  std::string tail;
  std::size_t width = 0;  ///< 0: a name without a number
  std::vector<int> numbers;

  [[nodiscard]] bool same_form(const Family& other) const {
    return head == other.head && tail == other.tail && width == other.width;
  }
};

Family family_of(const std::string& name) {
  constexpr std::size_t kMostDigits = 9;  // what an int holds
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // The number of "node07.cluster2" is 07: a domain is the same for all hosts.
  const std::size_t first_part = std::min(name.find('.'), name.size());
  std::size_t end = first_part;
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  if (end == begin || end - begin > kMostDigits) return {.head = name, .tail = "", .width = 0, .numbers = {}};
  return {name.substr(0, begin), name.substr(end), end - begin, {std::stoi(name.substr(begin, end - begin))}};
}

std::string text_of(Family& family) {
  if (family.width == 0) return family.head;
  std::ranges::sort(family.numbers);
  family.numbers.erase(std::unique(family.numbers.begin(), family.numbers.end()), family.numbers.end());
  const std::string numbers =
      joined(family.numbers, [&](int number) { return fmt::format("{:0{}}", number, family.width); });
  const bool several = family.numbers.size() > 1;
  return fmt::format("{}{}{}{}{}", family.head, several ? "[" : "", numbers, several ? "]" : "", family.tail);
}

}  // namespace

std::string ranges_text(const std::vector<int>& numbers) {
  return joined(numbers, [](int number) { return std::to_string(number); });
}

std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    const auto head = std::from_chars(at, end, first);
    if (head.ec != std::errc()) return numbers;
    int last = first;
    at = head.ptr;
    if (at < end && *at == '-') {
      const auto tail = std::from_chars(at + 1, end, last);
      if (tail.ec != std::errc()) return numbers;
      at = tail.ptr;
    }
    for (int number = first; number <= last && number - first < kMostNumbers; ++number) numbers.push_back(number);
    if (at < end && *at != ',') return numbers;
    ++at;
  }
  return numbers;
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  std::vector<Family> families;
  for (const std::string& host : hosts) {
    const Family one = family_of(host);
    const auto found = std::ranges::find_if(families, [&](const Family& other) { return other.same_form(one); });
    if (found == families.end()) {
      families.push_back(one);
    } else {
      found->numbers.insert(found->numbers.end(), one.numbers.begin(), one.numbers.end());
    }
  }
  std::string text;
  for (Family& family : families) text += fmt::format("{}{}", text.empty() ? "" : ",", text_of(family));
  return text;
}

}  // namespace ddpm::doctor
