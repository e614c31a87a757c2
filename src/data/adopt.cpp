#include "data/adopt.h"

#include <algorithm>
#include <span>
#include <sstream>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/pulse.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/foreign_file.h"
#include "h5/file.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

/// Bytes of an array without chunks that have one digest: what a read at any place reads too much, at most twice.
constexpr uint32_t kDigestBlock = uint32_t{16} << 10U;
constexpr std::size_t kAtOnceBytes = std::size_t{8} << 20U;

/// What rank 0 finds in a file.
struct Listing {
  std::vector<AdoptedArray> arrays;
  std::vector<h5::DigestRun> runs;  // in the order of their places
};

/// An array that cannot be opened, such as text, belongs to the rest of the file.
std::optional<h5::Array> array_of(const h5::File& file, const std::string& name) {
  try {
    return file.array(name);
  } catch (const base::DatasetAccessError&) {
    throw;
  } catch (const DatasetError&) {
    return std::nullopt;
  }
}

Listing list_arrays(const Path& path) {
  Listing listing;
  const h5::Digests nothing({}, {}, 0, path.string());
  h5::File file = h5::File::open(path);
  file.compare_with(nothing);  // has arrays without chunks read as those of adopted files are
  for (const std::string& name : file.array_names()) {
    AdoptedArray array{.name = name};
    const auto number = static_cast<uint32_t>(listing.arrays.size());
    const std::optional<h5::Array> opened = array_of(file, name);
    const std::vector<h5::Extent> extents = opened ? opened->extents() : std::vector<h5::Extent>{};
    const bool chunked = opened && opened->chunk_bytes() > 0;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (extents[i].bytes == 0) continue;  // the chunk was never written
      array.bytes += extents[i].bytes;
      listing.runs.push_back({.offset = extents[i].offset,
                              .bytes = extents[i].bytes,
                              .number = i,
                              .block = chunked ? static_cast<uint32_t>(extents[i].bytes) : kDigestBlock,
                              .array = number});
    }
    array.compared_on_read = !extents.empty();
    listing.arrays.push_back(std::move(array));
  }
  file.close();
  std::ranges::sort(listing.runs, {}, &h5::DigestRun::offset);
  uint64_t digests = 0;
  for (h5::DigestRun& run : listing.runs) {
    run.first = digests;
    digests += h5::digests_of(run);
  }
  return listing;
}

uint64_t digests_in(std::span<const h5::DigestRun> runs) {
  return runs.empty() ? 0 : runs.back().first + h5::digests_of(runs.back());
}

/// Calls `each(number, run, offset, crc32c)` for the digests of a share.
template <typename Each>
void digest_runs(const base::InputFile& file, std::span<const h5::DigestRun> runs, Share share, const Each& each) {
  std::vector<std::byte> bytes;
  const auto past = std::ranges::upper_bound(runs, share.first, {}, &h5::DigestRun::first);
  for (auto run = past == runs.begin() ? past : std::prev(past); run != runs.end() && run->first < share.last; ++run) {
    const uint64_t end = std::min(share.last, run->first + h5::digests_of(*run));
    const uint64_t at_once = std::max<uint64_t>(kAtOnceBytes / run->block, 1);
    for (uint64_t number = std::max(share.first, run->first); number < end; number += at_once) {
      const uint64_t begin = (number - run->first) * run->block;
      bytes.resize(std::min((std::min(end, number + at_once) - number) * run->block, run->bytes - begin));
      file.read(run->offset + begin, bytes);
      uint64_t now = number;
      for (std::size_t at = 0; at < bytes.size(); at += run->block, ++now) {
        const auto block = std::span(bytes).subspan(at, std::min<std::size_t>(run->block, bytes.size() - at));
        each(now, *run, run->offset + begin + at, block.size(), base::crc32c(block));
      }
      base::pulse();
    }
  }
}

uint64_t bytes_of(std::span<const h5::DigestRun> runs, Share share) {
  uint64_t bytes = 0;
  for (const h5::DigestRun& run : runs) {
    const uint64_t first = std::max(share.first, run.first);
    const uint64_t last = std::min(share.last, run.first + h5::digests_of(run));
    if (first < last) bytes += std::min((last - first) * run.block, run.bytes);
  }
  return bytes;
}

/// The counts that all ranks need, of what rank 0 has listed.
Adoption counts_of(const Path& file, const Listing& listing) {
  const uint64_t size = base::InputFile(file).size();
  // Throws for arrays that share bytes.
  const h5::Digests whole(listing.runs, std::vector<uint32_t>(digests_in(listing.runs)), size, file.string());
  return {.file = file.filename().string(),
          .size = size,
          .arrays = listing.arrays,
          .runs = listing.runs.size(),
          .pieces = pieces_of(rest_of(listing.runs, size)),
          .digests = digests_in(listing.runs),
          .table_sha256 = std::string(kSha256Digits, '0')};
}

void write_sidecar(const Path& file, base::FileSystem& files, Adoption& adoption, std::span<const std::byte> table) {
  base::Sha256 digest;
  digest.update(table);
  adoption.table_sha256 = digest.hex();
  base::StagedPath made(files, adoption_of(file));
  const auto output = files.create_exclusive(made.path());
  output->write(to_text(adoption));
  output->write(table);
  output->sync();
  output->close();
  made.publish();
}

/// Has every rank fill its share of the table, and gives all of them the whole.
void fill_table(comm::Communicator& comm, const Path& file, const Adoption& adoption, const comm::SharedBytes& table,
                const base::ProgressReport& progress) {
  comm::agree(comm, [&] {
    base::read_as<DatasetError>([&] {
      AdoptionTable parts(table.bytes(), adoption);
      const base::InputFile input(file);
      const Share share = share_of(adoption.digests, comm);
      const auto total = static_cast<int64_t>(bytes_of(parts.runs, share));
      int64_t done = 0;
      digest_runs(
          input, parts.runs, share,
          [&](uint64_t number, const h5::DigestRun& /*run*/, uint64_t /*offset*/, uint64_t bytes, uint32_t sum) {
            parts.sums[number] = sum;
            done += static_cast<int64_t>(bytes);
            progress(done, total);
          });
      const Share pieces = share_of(adoption.pieces, comm);
      std::ranges::copy(digest_rest(input, rest_of(parts.runs, adoption.size), pieces),
                        parts.pieces.begin() + static_cast<std::ptrdiff_t>(pieces.first * kSha256Digits));
    });
  });
}

/// Which rank has written which part of a table.
std::vector<comm::WrittenBytes> written_parts(const comm::Communicator& comm, const Adoption& adoption) {
  std::vector<comm::WrittenBytes> parts;
  const auto pieces_begin = static_cast<int64_t>(adoption.runs * sizeof(h5::DigestRun));
  const auto sums_begin = pieces_begin + static_cast<int64_t>(adoption.pieces * kSha256Digits);
  const auto size = static_cast<uint64_t>(comm.size());
  for (uint64_t rank = 0; rank < size; ++rank) {
    const auto add = [&](int64_t begin, uint64_t count, std::size_t bytes) {
      const auto at = [&](uint64_t r) { return begin + static_cast<int64_t>(count * r / size * bytes); };
      parts.push_back({.begin = at(rank), .end = at(rank + 1), .writer = static_cast<int>(rank)});
    };
    add(pieces_begin, adoption.pieces, kSha256Digits);
    add(sums_begin, adoption.digests, sizeof(uint32_t));
  }
  return parts;
}

}  // namespace

Adoption adopt(comm::Communicator& comm, const Path& file, base::FileSystem& files,
               const base::ProgressReport& progress) {
  std::optional<OpenedFile> before;
  Listing listing;
  const std::string text = comm::agree_on_root(comm, [&] {
    before = OpenedFile::of(file);
    try_all_arrays(file);
    listing = list_arrays(file);
    return base::read_as<DatasetError>([&] { return to_text(counts_of(file, listing)); });
  });
  Adoption adoption = parse_adoption(text, file.string());
  comm::SharedBytes table(comm, static_cast<int64_t>(adoption.table_bytes()));
  if (comm.rank() == 0) std::ranges::copy(listing.runs, AdoptionTable(table.bytes(), adoption).runs.begin());
  const comm::WrittenBytes runs{
      .begin = 0, .end = static_cast<int64_t>(adoption.runs * sizeof(h5::DigestRun)), .writer = 0};
  table.spread({&runs, 1});
  fill_table(comm, file, adoption, table, progress);
  table.spread(written_parts(comm, adoption));
  comm::do_on_root(comm, [&] {
    before->expect_unchanged(file);
    write_sidecar(file, files, adoption, table.bytes());
  });
  table.close();
  return adoption;
}

std::vector<std::string> verify_adopted(comm::Communicator& comm, const Path& file, const AdoptedFile& adopted,
                                        const base::ProgressReport& progress) {
  constexpr int64_t kMostLines = 20;
  std::string mine;
  int64_t damaged = 0;
  const Adoption& adoption = adopted.adoption();
  comm::agree(comm, [&] {
    base::read_as<DatasetError>([&] {
      const Share share = share_of(adoption.digests, comm);
      const std::span<const h5::DigestRun> runs = adopted.digests().runs();
      const auto total = static_cast<int64_t>(bytes_of(runs, share));
      int64_t done = 0;
      digest_runs(base::InputFile(file), runs, share,
                  [&](uint64_t number, const h5::DigestRun& run, uint64_t offset, uint64_t bytes, uint32_t sum) {
                    done += static_cast<int64_t>(bytes);
                    progress(done, total);
                    const uint32_t wanted = adopted.digests().sums()[number];
                    if (sum == wanted || ++damaged > kMostLines) return;
                    mine += fmt::format("{}:{}{}: {} bytes at byte {} have the CRC-32C {:08x}, and had {:08x}\n",
                                        file.string(), adoption.arrays.at(run.array).name,
                                        run.block == run.bytes ? fmt::format(", chunk {}", run.number) : "", bytes,
                                        offset, sum, wanted);
                  });
    });
  });
  std::vector<std::string> lines;
  for (const std::string& part : comm::all_gather(comm, mine)) {
    std::istringstream all(part);
    for (std::string line; std::getline(all, line);) lines.push_back(line);
  }
  damaged = comm::all_reduce(comm, damaged, comm::ReduceOp::sum);
  const int64_t named = std::min(kMostLines, std::ssize(lines));
  lines.resize(static_cast<std::size_t>(named));
  if (damaged > named) lines.push_back(fmt::format("and {} more", damaged - named));
  return lines;
}

}  // namespace ddpm::data
