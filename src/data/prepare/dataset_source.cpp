#include "data/prepare/dataset_source.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file_error.h"
#include "base/input_file.h"
#include "base/named.h"
#include "data/prepare/archive_file.h"

namespace ddpm::data::prepare {
namespace {

using base::DatasetError;

class DatasetSource final : public FieldSource {
 public:
  explicit DatasetSource(Dataset dataset)
      : dataset_(std::move(dataset)), fields_(dataset_.fields()), set_fields_(dataset_.set_fields()) {
    if (!dataset_.info().shards.front().sha256.empty()) return;
    for (auto* fields : {&fields_, &set_fields_}) {
      for (Field& field : *fields) {
        field.name = field.role == FieldRole::image ? "images" : base::name_of(field.role);
        field.path = "/" + field.name;
      }
    }
  }

  [[nodiscard]] std::string name() const override { return dataset_.path().string(); }
  [[nodiscard]] int64_t size() const override { return dataset_.size(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] const std::vector<Field>& set_fields() const override { return set_fields_; }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return dataset_.labels().empty() ? std::vector<std::string>{} : dataset_.info().class_names;
  }
  void identify(base::Sha256& digest) const override {
    digest.update(dataset_.content_hash() + "\n");
    for (const Path& file : dataset_.files()) {
      const base::FileStamp stamp = base::read_as<DatasetError>([&] { return base::look_at(file).stamp; });
      digest.update(fmt::format("{} {} {} {}\n", file.string(), stamp.size, stamp.seconds, stamp.nanoseconds));
    }
  }

  void read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) override {
    if (fields_.at(field).is_read_in_blocks()) {
      dataset_.read_unconfirmed(field, first, count, out);
      dataset_.expect_unchanged();
    } else {
      const std::size_t bytes = fields_[field].bytes();
      const auto from = dataset_.held_values(field).subspan(static_cast<std::size_t>(first) * bytes, out.size());
      std::ranges::copy(from, out.begin());
    }
  }
  std::vector<std::byte> read_set(std::size_t field) override {
    const std::span<const std::byte> values = dataset_.set_values(field);
    return {values.begin(), values.end()};
  }
  void close(comm::Communicator& comm) override { dataset_.close(comm); }

 private:
  Dataset dataset_;
  std::vector<Field> fields_;
  std::vector<Field> set_fields_;
};

}  // namespace

bool looks_like_dataset(const base::Path& path) {
  return base::read_as<DatasetError>([&] {
    if (base::kind_of(path) == base::FileKind::folder) return base::is_there(path / kDescriptionFile);
    constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
    // A file that is named so is refused as what its name says that it is.
    const std::string ending = path.extension().string();
    if (ending == ".h5" || ending == ".hdf5" || ending == ".nc") return true;
    constexpr uint64_t kLastPlace = uint64_t{1} << 20U;  // behind a user block: 512, 1024, 2048, ...
    const base::InputFile file(path);
    std::string head(kArchiveSign, '\0');
    file.read_up_to(0, std::as_writable_bytes(std::span(head)));
    if (looks_like_archive(head)) return false;  // whose first file may be HDF5, where a user block would end
    for (uint64_t at = 0; at <= kLastPlace; at = std::max<uint64_t>(512, 2 * at)) {
      std::array<std::byte, kSignature.size()> begin{};
      const std::size_t count = file.read_up_to(at, begin);
      if (std::string_view(reinterpret_cast<const char*>(begin.data()), count) == kSignature) return true;
      if (count == 0) return false;
    }
    return false;
  });
}

std::unique_ptr<FieldSource> open_dataset(comm::Communicator& comm, const base::Path& path,
                                          const DatasetOptions& options) {
  return std::make_unique<DatasetSource>(Dataset::open(comm, path, options));
}

std::unique_ptr<FieldSource> open_foreign(comm::Communicator& comm, const std::vector<base::Path>& paths,
                                          const DatasetOptions& options) {
  std::vector<Dataset::Source> sources;
  sources.reserve(paths.size());
  for (const base::Path& path : paths) sources.push_back({.path = path});
  return std::make_unique<DatasetSource>(Dataset::open(comm, sources, options));
}

}  // namespace ddpm::data::prepare
