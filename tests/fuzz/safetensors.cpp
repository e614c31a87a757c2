// checkpoint::SafetensorsFile on a whole file: accepted entries tile the data and can be read.
#include "checkpoint/safetensors.h"

#include "base/error.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddpm::fuzz::MemoryFile memory(ddpm::fuzz::text_of(data, size));
  try {
    const ddpm::checkpoint::SafetensorsFile file(memory.path());
    uint64_t bytes = 0;
    for (const auto& entry : file.header().entries) {
      std::vector<std::byte> values(entry.size());
      file.read(entry, values);
      bytes += entry.size();
    }
    ddpm::fuzz::require(bytes <= size, "entries do not hold more than the file");
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
