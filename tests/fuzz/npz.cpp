// data::prepare::list_npz and ArrayBytes: a member is read as far as its directory says, or refused.
#include "data/prepare/npz.h"

#include <algorithm>

#include "base/error.h"
#include "base/input_file.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMost = uint64_t{1} << 20U;
  const ddpm::fuzz::MemoryFile memory(ddpm::fuzz::text_of(data, size));
  try {
    for (const auto& member : ddpm::data::prepare::list_npz(ddpm::base::InputFile(memory.path()))) {
      ddpm::data::prepare::ArrayBytes bytes(memory.path(), member);
      ddpm::fuzz::require(member.deflated || member.size <= size, "a stored member lies in the archive");
      if (member.size > kMost) continue;
      std::vector<std::byte> all(member.size);
      ddpm::fuzz::require(bytes.read_up_to(0, all) == all.size(), "a member has the bytes that it says");
      std::vector<std::byte> half(member.size - member.size / 2);
      bytes.read_up_to(member.size / 2, half);
      ddpm::fuzz::require(std::equal(half.begin(), half.end(), all.begin() + static_cast<int64_t>(member.size / 2)),
                          "a second read gives the same");
      bytes.expect_whole();
    }
  } catch (const ddpm::base::DatasetError&) {
  }
  return 0;
}
