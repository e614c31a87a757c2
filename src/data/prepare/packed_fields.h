// Texts and numbers in one text, so that one rank can look at the source and all know what it found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "data/prepare/endings.h"
#include "data/prepare/image_source.h"
#include "data/prepare/pictures.h"

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
    const std::size_t begin = std::exchange(at_, end + 1);
    return std::string(text_.substr(begin, end - begin));
  }
  int64_t number() { return std::stoll(text()); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// What was not taken from a source, and back.
inline void add(FieldWriter& fields, const std::vector<Skipped>& left_out, const EndingCounts& other_files) {
  fields.add(std::ssize(other_files));
  for (const auto& [ending, count] : other_files) {
    fields.add(ending);
    fields.add(count);
  }
  fields.add(std::ssize(left_out));
  for (const Skipped& skipped : left_out) {
    fields.add(skipped.path);
    fields.add(skipped.reason);
  }
}
inline void take(FieldReader& fields, std::vector<Skipped>& left_out, EndingCounts& other_files) {
  for (int64_t endings = fields.number(); endings > 0; --endings) {
    const std::string ending = fields.text();
    other_files[ending] = fields.number();
  }
  left_out.resize(static_cast<std::size_t>(fields.number()));
  for (Skipped& skipped : left_out) {
    skipped.path = fields.text();
    skipped.reason = fields.text();
  }
}

/// What the pictures of a source have in common, and back.
inline void add(FieldWriter& fields, const PictureSet& set) {
  fields.add(set.source);
  fields.add(static_cast<int64_t>(set.dtype));
  fields.add(int64_t{set.has_labels});
  fields.add(set.classes);
  fields.add(std::ssize(set.class_names));
  for (const std::string& name : set.class_names) fields.add(name);
  add(fields, set.left_out, set.other_files);
}
inline void take(FieldReader& fields, PictureSet& set) {
  set.source = fields.text();
  set.dtype = static_cast<base::DType>(fields.number());
  set.has_labels = fields.number() != 0;
  set.classes = fields.number();
  set.class_names.resize(static_cast<std::size_t>(fields.number()));
  for (std::string& name : set.class_names) name = fields.text();
  take(fields, set.left_out, set.other_files);
}

}  // namespace ddpm::data::prepare
