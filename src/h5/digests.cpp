#include "h5/digests.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/error.h"

namespace ddpm::h5 {

Digests::Digests(std::span<const DigestRun> runs, std::span<const uint32_t> sums, uint64_t file_bytes,
                 std::string_view subject)
    : runs_(runs), sums_(sums) {
  uint64_t end = 0;
  uint64_t first = 0;
  for (const DigestRun& run : runs_) {
    const bool lies_well = run.offset >= end && run.offset <= file_bytes && run.bytes <= file_bytes - run.offset;
    if (!lies_well || run.block == 0 || run.bytes == 0 || run.first != first) {
      throw base::DatasetError("{}: it gives digests of {} bytes at byte {}, after byte {} of {} that are there",
                               subject, run.bytes, run.offset, end, file_bytes);
    }
    end = run.offset + run.bytes;
    first += digests_of(run);
  }
  if (first == sums_.size()) return;
  throw base::DatasetError("{}: it holds {} digests, {} are wanted", subject, sums_.size(), first);
}

bool Digests::holds(uint64_t offset) const {
  const auto after = std::ranges::upper_bound(runs_, offset, {}, &DigestRun::offset);
  return after != runs_.begin() && offset - std::prev(after)->offset < std::prev(after)->bytes;
}

const DigestRun& Digests::run_of(Extent wanted, std::string_view subject) const {
  const auto after = std::ranges::upper_bound(runs_, wanted.offset, {}, &DigestRun::offset);
  if (after != runs_.begin()) {
    const DigestRun& run = *std::prev(after);
    const uint64_t inside = wanted.offset - run.offset;
    if (inside <= run.bytes && wanted.bytes <= run.bytes - inside) return run;
  }
  throw base::DatasetError("{}: there are no digests of its {} bytes at byte {}; adopt the file again", subject,
                           wanted.bytes, wanted.offset);
}

Extent Digests::whole_blocks(Extent wanted, std::string_view subject) const {
  const DigestRun& run = run_of(wanted, subject);
  const uint64_t begin = (wanted.offset - run.offset) / run.block * run.block;
  const uint64_t blocks = (wanted.offset + wanted.bytes - run.offset + run.block - 1) / run.block;
  return {.offset = run.offset + begin, .bytes = std::min<uint64_t>(blocks * run.block, run.bytes) - begin};
}

void Digests::compare(uint64_t offset, std::span<const std::byte> bytes, std::string_view subject) const {
  const DigestRun& run = run_of({.offset = offset, .bytes = bytes.size()}, subject);
  const uint64_t end = offset + bytes.size() - run.offset;
  if ((offset - run.offset) % run.block != 0 || (end % run.block != 0 && end != run.bytes)) {
    throw base::DatasetError("{}: the digests at byte {} are of other pieces than its {} bytes; adopt the file again",
                             subject, offset, bytes.size());
  }
  for (uint64_t number = run.first + (offset - run.offset) / run.block; !bytes.empty(); ++number) {
    const auto block = bytes.first(std::min<std::size_t>(run.block, bytes.size()));
    const uint32_t found = base::crc32c(block);
    if (found != sums_[number]) {
      throw base::DatasetError(
          "{}: {} bytes at byte {} have the CRC-32C {:08x}, and had {:08x} when the file was adopted; it is damaged, "
          "or was changed since (then adopt it again)",
          subject, block.size(), offset, found, sums_[number]);
    }
    offset += block.size();
    bytes = bytes.subspan(block.size());
  }
}

}  // namespace ddpm::h5
