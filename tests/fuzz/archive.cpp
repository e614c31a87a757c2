// data::prepare::ArchiveFile: an archive is read to its end or refused, and no entry gives more bytes than were asked
// for.
#include "base/error.h"
#include "data/prepare/archive_file.h"
#include "data/prepare/webdataset.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMost = uint64_t{1} << 16U;
  const std::string_view all = ddpm::fuzz::text_of(data, size);
  const ddpm::fuzz::MemoryFile memory(all);
  static_cast<void>(ddpm::data::prepare::looks_like_archive(all));
  try {
    ddpm::data::prepare::ArchiveFile archive(memory.path());
    while (const auto entry = archive.next()) {
      ddpm::fuzz::require(!entry->name.starts_with('/'), "names are relative");
      ddpm::fuzz::require(entry->size >= -1, "a size is a number of bytes, or not told");
      const auto bytes = archive.read(kMost);
      if (!bytes) continue;
      ddpm::fuzz::require(bytes->size() <= kMost, "no more is read than was asked for");
      ddpm::fuzz::require(!archive.is_plain_tar() || archive.position() <= size, "a header lies in the file");
      for (const auto& label :
           {ddpm::data::prepare::label_of_cls(*bytes), ddpm::data::prepare::label_of_json(*bytes)}) {
        ddpm::fuzz::require(!label || *label >= 0, "a label is the number of a class");
      }
    }
  } catch (const ddpm::base::DatasetError&) {
  }
  return 0;
}
