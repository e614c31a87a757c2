#include "data/prepare/archive_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstddef>
#include <exception>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>  // newlocale, which is POSIX

#include "base/error.h"
#include "base/file_error.h"
#include "data/prepare/npz.h"

namespace ddpm::data::prepare {
namespace {

/// What libarchive reads from. An exception may not pass through its frames, so it is kept here.
struct Input {
  explicit Input(base::Path path) : file(std::move(path)), buffer(kBlock) {}

  static constexpr std::size_t kBlock = std::size_t{1} << 14U;
  base::InputFile file;
  std::vector<std::byte> buffer;
  uint64_t at = 0;
  std::exception_ptr error;
};

Input& input_of(void* data) { return *static_cast<Input*>(data); }

la_ssize_t read_block(archive* reader, void* data, const void** bytes) {
  Input& input = input_of(data);
  try {
    const std::size_t count = input.file.read_up_to(input.at, input.buffer);
    input.at += count;
    *bytes = input.buffer.data();
    return static_cast<la_ssize_t>(count);
  } catch (...) {
    input.error = std::current_exception();
    archive_set_error(reader, EIO, "cannot be read");
    return ARCHIVE_FATAL;
  }
}

la_int64_t skip(archive* /*reader*/, void* data, la_int64_t wanted) {
  Input& input = input_of(data);
  const uint64_t left = input.file.size() - std::min(input.at, input.file.size());
  const uint64_t count = std::min(static_cast<uint64_t>(std::max<la_int64_t>(wanted, 0)), left);
  input.at += count;
  return static_cast<la_int64_t>(count);
}

la_int64_t seek(archive* /*reader*/, void* data, la_int64_t offset, int whence) {
  Input& input = input_of(data);
  const auto size = static_cast<la_int64_t>(input.file.size());
  if (whence == SEEK_CUR) offset += static_cast<la_int64_t>(input.at);
  if (whence == SEEK_END) offset += size;
  input.at = static_cast<uint64_t>(std::clamp<la_int64_t>(offset, 0, size));
  return static_cast<la_int64_t>(input.at);
}

/// libarchive converts names to the thread's locale. While this lives, that is UTF-8: names come as they are.
class Utf8Names {
 public:
  explicit Utf8Names(locale_t names) : before_(uselocale(names)) {}
  ~Utf8Names() { uselocale(before_); }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  locale_t before_;
};

/// Formats and filters one by one: "all" would run other programs for some of them.
void support(archive* reader) {
  archive_read_support_format_tar(reader);
  archive_read_support_format_zip(reader);
  archive_read_support_filter_gzip(reader);
  archive_read_support_filter_bzip2(reader);
  archive_read_support_filter_xz(reader);
  archive_read_support_filter_zstd(reader);
  archive_read_support_filter_lz4(reader);
}

std::string plain_name(std::string_view name) {
  while (name.starts_with("./") || name.starts_with("/")) name.remove_prefix(name.front() == '/' ? 1 : 2);
  return std::string(name);
}

struct FreeReader {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

struct FreeLocale {
  void operator()(locale_t locale) const { freelocale(locale); }
};

}  // namespace

struct ArchiveFile::State {
  explicit State(base::Path path) : input(std::move(path)) {}

  Input input;
  std::unique_ptr<std::remove_pointer_t<locale_t>, FreeLocale> names;
  std::unique_ptr<archive, FreeReader> reader;
  archive_entry* entry = nullptr;  // the reader's current entry, which the reader owns

  /// Whether it is an archive of this format that is not packed as a whole.
  [[nodiscard]] bool is_plain(int format) const {
    return (archive_format(reader.get()) & ARCHIVE_FORMAT_BASE_MASK) == format &&
           archive_filter_code(reader.get(), 0) == ARCHIVE_FILTER_NONE;
  }

  /// A tar file that was cut between two entries reads as one of fewer entries: its end tells.
  void expect_end_of_tar() const {
    constexpr uint64_t kBlock = 512;
    std::array<std::byte, kBlock> last{};
    base::read_as<base::DatasetError>(
        [&] { input.file.read_up_to(std::max(input.file.size(), kBlock) - kBlock, last); });
    if (std::ranges::all_of(last, [](std::byte byte) { return byte == std::byte{0}; })) return;
    throw base::DatasetError("{}: the archive was cut: it does not end with the blocks of zeros that close a tar file",
                             input.file.path().string());
  }

  [[noreturn]] void fail() {
    if (input.error) {
      base::read_as<base::DatasetError>([&] { std::rethrow_exception(std::exchange(input.error, nullptr)); });
    }
    if (archive_errno(reader.get()) == ENOMEM) throw std::bad_alloc();
    if (is_plain(ARCHIVE_FORMAT_ZIP)) expect_zip_end(input.file);  // a better message of one that was cut
    const char* message = archive_error_string(reader.get());
    throw base::DatasetError("{}: the archive is damaged: {}", input.file.path().string(),
                             message != nullptr ? message : "it cannot be read");
  }
};

ArchiveFile::ArchiveFile(base::Path path)
    : state_(base::read_as<base::DatasetError>([&] { return std::make_unique<State>(std::move(path)); })) {
  State& s = *state_;
  s.names.reset(newlocale(LC_CTYPE_MASK, "C.UTF-8", static_cast<locale_t>(nullptr)));
  s.reader.reset(archive_read_new());
  if (!s.reader) throw std::bad_alloc();
  support(s.reader.get());
  archive_read_set_seek_callback(s.reader.get(), seek);
  if (archive_read_open2(s.reader.get(), &s.input, nullptr, read_block, skip, nullptr) != ARCHIVE_OK) s.fail();
}

ArchiveFile::~ArchiveFile() = default;
ArchiveFile::ArchiveFile(ArchiveFile&&) noexcept = default;
ArchiveFile& ArchiveFile::operator=(ArchiveFile&&) noexcept = default;

const base::Path& ArchiveFile::path() const { return state_->input.file.path(); }
const base::FileStamp& ArchiveFile::stamp() const { return state_->input.file.stamp(); }

std::optional<ArchiveEntry> ArchiveFile::next() {
  State& s = *state_;
  const Utf8Names names(s.names ? s.names.get() : uselocale(static_cast<locale_t>(nullptr)));
  const int status = archive_read_next_header(s.reader.get(), &s.entry);
  if (s.input.error) s.fail();
  if (status == ARCHIVE_EOF) {
    if (is_plain_tar()) s.expect_end_of_tar();
    if (s.is_plain(ARCHIVE_FORMAT_ZIP)) expect_zip_end(s.input.file);
    return std::nullopt;
  }
  if (status != ARCHIVE_OK && status != ARCHIVE_WARN) s.fail();
  const char* name = archive_entry_pathname(s.entry);
  if (name == nullptr) {
    throw base::DatasetError("{}: the name of an entry at byte {} cannot be read", path().string(), position());
  }
  ArchiveEntry entry;
  entry.name = plain_name(name);
  entry.size = archive_entry_size_is_set(s.entry) != 0 ? archive_entry_size(s.entry) : -1;
  entry.regular = archive_entry_filetype(s.entry) == AE_IFREG && archive_entry_hardlink(s.entry) == nullptr &&
                  archive_entry_sparse_count(s.entry) == 0;
  entry.encrypted = archive_entry_is_data_encrypted(s.entry) != 0;
  return entry;
}

uint64_t ArchiveFile::position() const {
  return static_cast<uint64_t>(archive_read_header_position(state_->reader.get()));
}

bool ArchiveFile::is_plain_tar() const { return state_->is_plain(ARCHIVE_FORMAT_TAR); }

std::optional<std::string> ArchiveFile::read(uint64_t max_bytes) {
  constexpr std::size_t kPiece = std::size_t{1} << 18U;
  State& s = *state_;
  const bool told = archive_entry_size_is_set(s.entry) != 0;
  const uint64_t most = told ? static_cast<uint64_t>(archive_entry_size(s.entry)) : max_bytes;
  if (most > max_bytes) return std::nullopt;
  std::string bytes;
  for (std::size_t done = 0;;) {
    bytes.resize(std::min<uint64_t>(done + kPiece, most + 1));
    const la_ssize_t count = archive_read_data(s.reader.get(), &bytes[done], bytes.size() - done);
    if (count < 0 || s.input.error) s.fail();
    done += static_cast<std::size_t>(count);
    if (done > most && told) {
      throw base::DatasetError("{}: an entry unpacks to more than the {} bytes that it says", path().string(), most);
    }
    if (done > most) return std::nullopt;
    if (count == 0) {
      bytes.resize(done);
      return bytes;
    }
  }
}

bool looks_like_archive(std::string_view bytes) {
  constexpr std::size_t kTarMagicAt = 257;
  if (bytes.starts_with("PK\3\4") || bytes.starts_with("PK\5\6")) return true;
  return bytes.size() >= kArchiveSign && bytes.substr(kTarMagicAt, 5) == "ustar";
}

bool is_archive_name(const base::Path& path) {
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array<std::string_view, 9> kEndings = {".tar",     ".tgz",     ".tar.gz", ".tar.bz2", ".tar.xz",
                                                        ".tar.zst", ".tar.lz4", ".txz",    ".zip"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace ddpm::data::prepare
