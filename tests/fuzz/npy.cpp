// observe::NpyReader: an accepted file has exactly the elements of its shape.
#include "observe/npy.h"

#include "base/error.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddpm::fuzz::MemoryFile memory(ddpm::fuzz::text_of(data, size));
  try {
    ddpm::observe::NpyReader reader(memory.path());
    uint64_t count = 1;
    for (const int64_t extent : reader.shape()) count *= static_cast<uint64_t>(extent);
    ddpm::fuzz::require(count <= size / sizeof(float), "the file holds its shape's elements");
    std::vector<float> elements(count);
    reader.read(0, elements);
  } catch (const ddpm::base::ConfigError&) {
  }
  return 0;
}
