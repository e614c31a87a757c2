#include "data/adopted_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "comm/collectives.h"

namespace ddpm::data {

using base::DatasetError;
using base::OrderedJson;

namespace {

static_assert(std::endian::native == std::endian::little && sizeof(h5::DigestRun) == 40,
              "runs are taken from the file as they lie");

constexpr const char* kAdoptionFormat = "ddpm-adopted-file";
constexpr int64_t kAdoptionVersion = 1;
constexpr uint64_t kMaxLineBytes = uint64_t{64} << 20U;
constexpr int64_t kMaxBytes = int64_t{1} << 60;
constexpr int64_t kMaxEntries = int64_t{1} << 40;

OrderedJson described(const Adoption& adoption) {
  OrderedJson arrays = OrderedJson::array();
  for (const AdoptedArray& array : adoption.arrays) {
    arrays.push_back({{"name", array.name}, {"bytes", array.bytes}, {"compared_on_read", array.compared_on_read}});
  }
  return {{"format", kAdoptionFormat}, {"version", kAdoptionVersion}, {"file", adoption.file},
          {"size", adoption.size},     {"arrays", std::move(arrays)}, {"runs", adoption.runs},
          {"pieces", adoption.pieces}, {"digests", adoption.digests}, {"table_sha256", adoption.table_sha256}};
}

/// A name may hold bytes that are no text.
std::string dumped(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

std::string sha256_of(std::span<const std::byte> bytes) {
  base::Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

/// The first line, with its end.
std::string first_line(const base::InputFile& file) {
  std::string text;
  constexpr std::size_t kStep = std::size_t{64} << 10U;
  while (text.find('\n') == std::string::npos) {
    const std::size_t had = text.size();
    text.resize(had + kStep);
    const std::size_t got = file.read_up_to(had, std::as_writable_bytes(std::span(text).subspan(had)));
    text.resize(had + got);
    if (got == 0 || text.size() > kMaxLineBytes) {
      throw DatasetError("{}: it is not what `ddpm data adopt` writes; adopt the file again", file.path().string());
    }
  }
  return text.substr(0, text.find('\n') + 1);
}

/// A link counts, also one to nothing: digests that cannot be read are none that were never made.
bool has_entry(const Path& path) {
  return base::read_as<DatasetError>([&] { return base::is_there(path); }) || base::link_target(path);
}

/// Where the digests of `file` lie: beside it, or beside what it is a link to; empty where nobody has adopted it.
Path find_adoption(const Path& file) {
  if (Path beside = adoption_of(file); has_entry(beside)) return beside;
  std::error_code error;
  const Path target = std::filesystem::canonical(file, error);
  if (Path beside = adoption_of(target); !error && has_entry(beside)) return beside;
  return {};
}

/// The first line of a file that adopt has written, whose table is whole.
std::string text_of(const Path& sidecar) {
  return base::read_as<DatasetError>([&] {
    const base::InputFile file(sidecar);
    std::string text = first_line(file);
    const uint64_t wanted = text.size() + parse_adoption(text, sidecar.string()).table_bytes();
    if (file.size() == wanted) return text;
    throw DatasetError("{}: it has {} bytes, {} were written; adopt the file again", sidecar.string(), file.size(),
                       wanted);
  });
}

/// What HDF5 may read is not what it was.
[[noreturn]] void refuse_changed(const Path& file, const std::string& what) {
  throw DatasetError(
      "{}: {}; it is damaged, or was changed since it was adopted: if it should be so, run `ddpm data "
      "adopt {}` again",
      file.string(), what, file.string());
}

/// What `json`, the first line of a file of sums, says. Throws OutputError (base/json_fields.h) or DatasetError.
Adoption adoption_in(const base::Json& json, const std::string& origin) {
  const base::JsonFields root(
      json, origin,
      {"format", "version", "file", "size", "arrays", "runs", "pieces", "digests", "table_sha256", "checksum"});
  if (root.text("format") != kAdoptionFormat || root.integer("version", 0, kMaxEntries) != kAdoptionVersion) {
    throw DatasetError("{}: format {} version {} is not known, {} version {} is; adopt the file again", origin,
                       root.text("format"), root.integer("version", 0, kMaxEntries), kAdoptionFormat, kAdoptionVersion);
  }
  const auto count = [&](const char* key) { return static_cast<uint64_t>(root.integer(key, 0, kMaxEntries)); };
  Adoption adoption{.file = root.text("file"),
                    .size = static_cast<uint64_t>(root.integer("size", 0, kMaxBytes)),
                    .arrays = {},
                    .runs = count("runs"),
                    .pieces = count("pieces"),
                    .digests = count("digests"),
                    .table_sha256 = root.digest("table_sha256")};
  for (const base::Json& item : root.array("arrays")) {
    const base::JsonFields array(item, origin + ": arrays", {"name", "bytes", "compared_on_read"});
    adoption.arrays.push_back({.name = array.text("name"),
                               .bytes = static_cast<uint64_t>(array.integer("bytes", 0, kMaxBytes)),
                               .compared_on_read = array.boolean("compared_on_read")});
  }
  const std::string found = base::sha256_hex(dumped(described(adoption)));
  if (found == root.digest("checksum")) return adoption;
  throw DatasetError("{}: the SHA-256 of its first line is {}, {} was written; adopt the file again", origin, found,
                     root.digest("checksum"));
}

}  // namespace

Path adoption_of(const Path& file) { return file.string() + ".ddpm"; }

uint64_t Adoption::table_bytes() const {
  return runs * sizeof(h5::DigestRun) + pieces * kSha256Digits + digests * sizeof(uint32_t);
}

std::string to_text(const Adoption& adoption) {
  OrderedJson json = described(adoption);
  json["checksum"] = base::sha256_hex(dumped(json));
  std::string text = dumped(json);
  const std::size_t whole = (text.size() / kAdoptionTextBytes + 1) * kAdoptionTextBytes;
  text.resize(whole - 1, ' ');
  return text + '\n';
}

Adoption parse_adoption(std::string_view text, const std::string& origin) {
  base::Json json;
  try {
    json = base::parse_json(text, {.max_bytes = kMaxLineBytes, .max_depth = 4});
  } catch (const std::invalid_argument& error) {
    throw DatasetError("{}: {}; adopt the file again", origin, error.what());
  }
  return base::read_as<DatasetError>([&] { return adoption_in(json, origin); });
}

AdoptionTable::AdoptionTable(std::span<std::byte> bytes, const Adoption& adoption)
    : runs(reinterpret_cast<h5::DigestRun*>(bytes.data()), adoption.runs) {
  bytes = bytes.subspan(runs.size_bytes());
  pieces = {reinterpret_cast<char*>(bytes.data()), adoption.pieces * kSha256Digits};
  bytes = bytes.subspan(pieces.size_bytes());
  sums = {reinterpret_cast<uint32_t*>(bytes.data()), adoption.digests};
}

Share share_of(uint64_t count, const comm::Communicator& comm) {
  const auto size = static_cast<uint64_t>(comm.size());
  const auto rank = static_cast<uint64_t>(comm.rank());
  return {.first = count * rank / size, .last = count * (rank + 1) / size};
}

std::vector<h5::Extent> rest_of(std::span<const h5::DigestRun> runs, uint64_t file_bytes) {
  std::vector<h5::Extent> rest;
  uint64_t end = 0;
  for (const h5::DigestRun& run : runs) {
    if (run.offset > end) rest.push_back({.offset = end, .bytes = run.offset - end});
    end = run.offset + run.bytes;
  }
  if (file_bytes > end) rest.push_back({.offset = end, .bytes = file_bytes - end});
  return rest;
}

uint64_t pieces_of(std::span<const h5::Extent> rest) {
  uint64_t bytes = 0;
  for (const h5::Extent& part : rest) bytes += part.bytes;
  return (bytes + kRestPiece - 1) / kRestPiece;
}

std::string digest_rest(const base::InputFile& file, std::span<const h5::Extent> rest, Share pieces) {
  std::string digests;
  std::vector<std::byte> piece(kRestPiece);
  std::size_t filled = 0;
  uint64_t skip = pieces.first * kRestPiece;  // bytes of the rest that lie before the first piece
  const auto finish = [&] {
    digests += sha256_of(std::span(piece).first(filled));
    filled = 0;
  };
  for (h5::Extent part : rest) {
    const uint64_t skipped = std::min(skip, part.bytes);
    skip -= skipped;
    part = {.offset = part.offset + skipped, .bytes = part.bytes - skipped};
    while (part.bytes > 0 && digests.size() < (pieces.last - pieces.first) * kSha256Digits) {
      const auto n = static_cast<std::size_t>(std::min<uint64_t>(part.bytes, kRestPiece - filled));
      file.read(part.offset, std::span(piece).subspan(filled, n));
      part = {.offset = part.offset + n, .bytes = part.bytes - n};
      filled += n;
      if (filled == kRestPiece) finish();
    }
  }
  if (filled > 0 && digests.size() < (pieces.last - pieces.first) * kSha256Digits) finish();
  return digests;
}

AdoptedFile::AdoptedFile(comm::Communicator& comm, Adoption adoption)
    : adoption_(std::move(adoption)), table_(comm, static_cast<int64_t>(adoption_.table_bytes())) {}

std::optional<AdoptedFile> AdoptedFile::open(comm::Communicator& comm, const Path& file) {
  const Path sidecar = comm::agree_on_root(comm, [&] { return find_adoption(file).string(); });
  if (sidecar.empty()) return std::nullopt;
  const std::string text = comm::agree_on_root(comm, [&] { return text_of(sidecar); });
  AdoptedFile adopted(comm, parse_adoption(text, sidecar.string()));
  adopted.load(comm, sidecar, text.size());
  adopted.compare_rest(comm, file);
  return adopted;
}

void AdoptedFile::load(comm::Communicator& comm, const Path& sidecar, std::size_t begin) {
  comm::do_on_root(comm, [&] {
    base::read_as<DatasetError>([&] { base::InputFile(sidecar).read(begin, table_.bytes()); });
    const std::string found = sha256_of(table_.bytes());
    if (found != adoption_.table_sha256) {
      throw DatasetError("{}: the SHA-256 of its table is {}, {} was written; adopt the file again", sidecar.string(),
                         found, adoption_.table_sha256);
    }
  });
  const comm::WrittenBytes all{.begin = 0, .end = static_cast<int64_t>(adoption_.table_bytes()), .writer = 0};
  table_.spread({&all, 1});
  comm::agree(comm, [&] {
    const AdoptionTable table(table_.bytes(), adoption_);
    digests_ = std::make_unique<h5::Digests>(table.runs, table.sums, adoption_.size, sidecar.string());
    const uint64_t wanted = pieces_of(rest_of(table.runs, adoption_.size));
    if (adoption_.pieces == wanted) return;
    throw DatasetError("{}: it has {} digests of the rest of the file, {} are wanted; adopt the file again",
                       sidecar.string(), adoption_.pieces, wanted);
  });
}

void AdoptedFile::compare_rest(comm::Communicator& comm, const Path& file) const {
  comm::agree(comm, [&] {
    base::read_as<DatasetError>([&] {
      const base::InputFile input(file);
      if (input.size() != adoption_.size) {
        refuse_changed(file, fmt::format("it has {} bytes, and had {}", input.size(), adoption_.size));
      }
      const AdoptionTable table(table_.bytes(), adoption_);
      const std::vector<h5::Extent> rest = rest_of(table.runs, adoption_.size);
      const auto [first, last] = share_of(adoption_.pieces, comm);
      const std::string found = digest_rest(input, rest, {first, last});
      const std::string_view wanted(table.pieces.data(), table.pieces.size());
      if (found == wanted.substr(first * kSha256Digits, (last - first) * kSha256Digits)) return;
      refuse_changed(file, "what describes its arrays has another SHA-256 than it had");
    });
  });
}

}  // namespace ddpm::data
