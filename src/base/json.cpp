#include "base/json.h"

#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/shortened.h"

namespace ddpm::base {
namespace {

constexpr std::size_t kLongestExcerpt = 80;
constexpr std::size_t kLongestReason = 300;
constexpr std::size_t kLongestShownText = 512;

// Reads characters and leaves the place of the last one where the builder can see it.
class Cursor {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the standard library's names
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  Cursor(const char* at, const char** shared) : at_(at), shared_(shared) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *shared_ = ++at_;
    return *this;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at_ == b.at_; }
  friend bool operator!=(const Cursor& a, const Cursor& b) { return !(a == b); }

 private:
  const char* at_;
  const char** shared_;
};

// Builds the value from parse events, so that limits stop the parser before memory is spent.
template <typename AnyJson>
class Builder : public nlohmann::json_sax<AnyJson> {
 public:
  using Sax = nlohmann::json_sax<AnyJson>;
  using string_t = typename Sax::string_t;  // NOLINT(readability-identifier-naming): the library's name

  /// Called with the root and the list for each object that ends a list's item, where the list stands in the root.
  using ItemEnd = std::function<void(const AnyJson& root, const std::string& key, AnyJson& list)>;

  Builder(const char* begin, const JsonLimits& limits, ItemEnd item_end)
      : begin_(begin), at_(begin), limits_(limits), item_end_(std::move(item_end)) {}

  const char** shared_position() { return &at_; }
  AnyJson take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(typename Sax::number_integer_t value) override { return add(value); }
  bool number_unsigned(typename Sax::number_unsigned_t value) override { return add(value); }
  bool number_float(typename Sax::number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(typename Sax::binary_t& /*value*/) override {
    fail("binary value");
    return false;
  }
  bool start_object(std::size_t /*count*/) override { return open(AnyJson::object()); }
  bool start_array(std::size_t /*count*/) override { return open(AnyJson::array()); }
  bool end_object() override {
    close();
    if (item_end_ && open_.size() == 2 && open_.back()->is_array()) item_end_(root_, list_key_, *open_.back());
    return true;
  }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) fail(fmt::format("duplicate key \"{}\"", shortened(name, kLongestExcerpt)));
    key_ = std::move(name);
    if (open_.size() == 1) list_key_ = key_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    // The library quotes what it read last, which may be a string as long as the file, after a number of its own.
    const std::string reason = error.what();
    const std::size_t number = reason.find("] ");
    const std::size_t begin = reason.starts_with('[') && number != std::string::npos ? number + 2 : 0;
    throw std::invalid_argument(fmt::format("byte {}: {}", position, shortened(reason.substr(begin), kLongestReason)));
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument(fmt::format("byte {}: {}", at_ - begin_, reason));
  }

  template <typename T>
  AnyJson* place(T&& value) {
    if (++values_ > limits_.max_values) fail(fmt::format("more than {} values", limits_.max_values));
    if (open_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    AnyJson& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::forward<T>(value));
    return &(parent[key_] = std::forward<T>(value));
  }

  template <typename T>
  bool add(T&& value) {
    place(std::forward<T>(value));
    return true;
  }

  bool open(AnyJson container) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth) {
      fail(fmt::format("nested more than {} levels deep", limits_.max_depth));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const char* begin_;
  const char* at_;
  JsonLimits limits_;
  std::size_t values_ = 0;
  AnyJson root_;
  std::string key_;
  std::string list_key_;  // the last key of the root
  ItemEnd item_end_;
  std::vector<AnyJson*> open_;  // a container's children move only while it is the innermost one, so these stay valid
};

template <typename AnyJson>
AnyJson parse(std::string_view text, const JsonLimits& limits, typename Builder<AnyJson>::ItemEnd item_end = {}) {
  if (text.size() > limits.max_bytes) {
    throw std::invalid_argument(
        fmt::format("{} bytes of JSON, at most {} are accepted", text.size(), limits.max_bytes));
  }
  // The library takes this byte for the end of the text, and would not look at what follows.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    throw std::invalid_argument(fmt::format("byte {}: syntax error, a zero byte", at));
  }
  Builder<AnyJson> builder(text.data(), limits, std::move(item_end));
  const char** position = builder.shared_position();
  AnyJson::sax_parse(Cursor(text.data(), position), Cursor(text.data() + text.size(), position), &builder);
  return builder.take();
}

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) { return parse<Json>(text, limits); }

Json parse_json_lists(std::string_view text, const JsonLimits& limits,
                      const std::map<std::string, JsonItemSink, std::less<>>& sinks) {
  return parse<Json>(text, limits, [&](const Json& root, const std::string& key, Json& list) {
    const auto sink = sinks.find(key);
    if (sink == sinks.end()) return;
    sink->second(root, list.back());
    list.erase(list.size() - 1);
  });
}

OrderedJson parse_ordered_json(std::string_view text, const JsonLimits& limits) {
  return parse<OrderedJson>(text, limits);
}

std::string excerpt(const Json& json) {
  return shortened(json.dump(-1, ' ', false, Json::error_handler_t::replace), kLongestExcerpt);
}

Json with_short_texts(Json json) {
  if (json.is_string()) return shortened(json.get<std::string>(), kLongestShownText);
  if (json.is_structured()) {
    for (Json& item : json) item = with_short_texts(std::move(item));
  }
  return json;
}

}  // namespace ddpm::base
