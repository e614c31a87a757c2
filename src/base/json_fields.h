// Strict access to the JSON objects of untrusted files: every miss is an OutputError that names file, place and key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "base/named.h"

namespace ddpm::base {

class JsonFields {
 public:
  enum class Others : uint8_t { refused, ignored };
  /// `place` begins each message: "…/MANIFEST.json: tensors[3]". Throws unless `json` is an object with `keys`, and no
  /// other ones where they are refused.
  JsonFields(const base::Json& json, std::string place, const std::vector<std::string_view>& keys,
             Others others = Others::refused);
  /// Keys of `optional` may also be there, and no other ones; otherwise as above.
  JsonFields(const base::Json& json, std::string place, const std::vector<std::string_view>& keys,
             const std::vector<std::string_view>& optional);

  /// Whether a key is there.
  [[nodiscard]] bool has(std::string_view key) const { return json_.contains(key); }
  [[nodiscard]] const std::string& text(std::string_view key) const;
  /// A non-negative integer that fits 63 bits.
  [[nodiscard]] int64_t integer(std::string_view key) const;
  /// Returns an integer in [least, most] and throws for any other one.
  [[nodiscard]] int64_t integer(std::string_view key, int64_t least, int64_t most) const;
  [[nodiscard]] double number(std::string_view key) const;
  /// A number in [least, most].
  [[nodiscard]] double number(std::string_view key, double least, double most) const;
  [[nodiscard]] std::vector<int64_t> integers(std::string_view key) const;
  [[nodiscard]] const base::Json& array(std::string_view key) const;
  [[nodiscard]] const base::Json& object(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key) const;
  /// A SHA-256 in lower-case hexadecimal.
  [[nodiscard]] const std::string& digest(std::string_view key) const;
  [[nodiscard]] base::DType dtype(std::string_view key) const;
  /// The value of E that the text of `key` names.
  template <base::Named E>
  [[nodiscard]] E named(std::string_view key) const {
    const auto value = base::find_named<E>(text(key));
    if (!value) fail_unnamed(key, base::all_names<E>());
    return *value;
  }
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  void expect(const std::vector<std::string_view>& keys) const;
  [[nodiscard]] const base::Json& at(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, std::string_view wanted) const;
  [[noreturn]] void fail_unnamed(std::string_view key, const std::vector<std::string>& names) const;

  const base::Json& json_;
  std::string place_;
};

/// base::parse_json with its failure as OutputError: "origin: reason".
base::Json parse_json_file(std::string_view text, const std::string& origin, const JsonLimits& limits);
base::Json parse_json_file(std::string_view text, const std::string& origin, uint64_t max_bytes);

/// A non-negative integer that fits 63 bits; throws OutputError "place is …" otherwise.
int64_t to_integer(const base::Json& json, const std::string& place);

/// An array of texts; throws OutputError "place: it holds …" otherwise.
std::vector<std::string> to_texts(const base::Json& json, const std::string& place);

}  // namespace ddpm::base
