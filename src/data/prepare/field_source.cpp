#include "data/prepare/field_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

using base::DatasetError;

class JoinedSource final : public FieldSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<FieldSource>> parts) : parts_(std::move(parts)) {
    const FieldSource& first = *parts_.front();
    for (const auto& part : parts_) {
      if (part->fields() != first.fields() || part->set_fields() != first.set_fields()) {
        throw DatasetError("{}: its fields are not those of {}: names, shapes, types or variables differ", part->name(),
                           first.name());
      }
      if (part->class_names() != first.class_names()) {
        throw DatasetError("{}: its class names are not those of {}", part->name(), first.name());
      }
      for (std::size_t f = 0; f < first.set_fields().size(); ++f) {
        if (part->read_set(f) == parts_.front()->read_set(f)) continue;
        throw DatasetError("{}: its {} is not that of {}, which all images share", part->name(),
                           first.set_fields()[f].name, first.name());
      }
      begins_.push_back(size_);
      size_ += part->size();
    }
  }

  [[nodiscard]] std::string name() const override {
    return fmt::format("{} and {} more", parts_.front()->name(), parts_.size() - 1);
  }
  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return parts_.front()->fields(); }
  [[nodiscard]] const std::vector<Field>& set_fields() const override { return parts_.front()->set_fields(); }
  [[nodiscard]] std::vector<std::string> class_names() const override { return parts_.front()->class_names(); }
  void identify(base::Sha256& digest) const override {
    for (const auto& part : parts_) part->identify(digest);
  }

  void read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) override {
    auto part = static_cast<std::size_t>(std::ranges::upper_bound(begins_, first) - begins_.begin()) - 1;
    for (; count > 0; ++part) {
      const int64_t inside = first - begins_[part];
      const int64_t n = std::min(count, parts_[part]->size() - inside);
      const std::size_t bytes = static_cast<std::size_t>(n) * fields()[field].bytes();
      if (n > 0) parts_[part]->read(field, inside, n, out.first(bytes));
      out = out.subspan(bytes);
      first += n;
      count -= n;
    }
  }
  std::vector<std::byte> read_set(std::size_t field) override { return parts_.front()->read_set(field); }
  void close(comm::Communicator& comm) override {
    for (const auto& part : parts_) part->close(comm);
  }

 private:
  std::vector<std::unique_ptr<FieldSource>> parts_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<FieldSource> join_sources(std::vector<std::unique_ptr<FieldSource>> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace ddpm::data::prepare
