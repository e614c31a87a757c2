// checkpoint::parse_safetensors_header. The first two bytes say how many bytes of data stand behind the header.
#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint64_t data_bytes = data[0] + 256U * data[1];
  try {
    const auto header =
        ddpm::checkpoint::parse_safetensors_header(ddpm::fuzz::text_of(data + 2, size - 2), data_bytes, "file");
    uint64_t reached = 0;
    for (const auto& entry : header.entries) {
      ddpm::fuzz::require(entry.begin == reached && entry.end >= entry.begin, "entries tile the data");
      reached = entry.end;
      uint64_t bytes = ddpm::base::size_of(entry.dtype);
      for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
      ddpm::fuzz::require(bytes == entry.size(), "an entry has the bytes of its shape");
      ddpm::fuzz::require(header.find(entry.name) == &entry, "names are unique");
    }
    ddpm::fuzz::require(reached == data_bytes, "entries cover the data");
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
