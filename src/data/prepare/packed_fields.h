// Texts and numbers in one text, so that one rank can look at the source and all know what it found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace ddpm::data::prepare {

/// Fields that hold no zero byte (paths cannot), each ended by one.
class FieldWriter {
 public:
  void add(std::string_view field) { text_.append(field).push_back('\0'); }
  void add(int64_t number) { add(std::string_view(std::to_string(number))); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The reverse. `text` is what a FieldWriter wrote, and outlives the reader.
class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : text_(text) {}
  [[nodiscard]] bool done() const { return at_ == text_.size(); }
  std::string text() {
    const std::size_t end = text_.find('\0', at_);
    DDPM_CHECK(end != std::string_view::npos, "fields of {} bytes end within one", text_.size());
    return std::string(text_.substr(std::exchange(at_, end + 1), end - at_));
  }
  int64_t number() { return std::stoll(text()); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace ddpm::data::prepare
