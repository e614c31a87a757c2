// checkpoint::parse_manifest, with a fitting checksum put under what comes: what a careful forger would write. What is
// accepted covers each small tensor once, element by element, and reads back the same.
#include "checkpoint/manifest.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "fuzz/fuzz.h"

namespace {

using ddpm::checkpoint::ManifestTensor;

/// Marks each element of a slice, by its index in the global tensor.
void mark(const ddpm::checkpoint::TensorSlice& slice, std::vector<int>& seen) {
  for (int64_t e = slice.flat.begin; e < slice.flat.end; ++e) {
    int64_t rest = e;
    int64_t index = 0;
    int64_t stride = 1;
    for (std::size_t axis = slice.box.size(); axis-- > 0;) {
      index += (slice.box[axis].begin + rest % slice.box[axis].size()) * stride;
      rest /= slice.box[axis].size();
      stride *= slice.global_shape[axis];
    }
    ++seen.at(static_cast<std::size_t>(index));
  }
}

void check_cover(const ManifestTensor& tensor) {
  constexpr int64_t kSmall = 4096;
  const int64_t count = ddpm::checkpoint::element_count(tensor.shape, tensor.name);
  if (count > kSmall) return;
  std::vector<int> seen(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tensor.slices.size(); ++i) mark(tensor.slice(i), seen);
  ddpm::fuzz::require(std::ranges::all_of(seen, [](int times) { return times == 1; }), "each element is covered once");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(ddpm::fuzz::text_of(data, size));
  const std::string text = body + "\"sha256\": \"" + ddpm::base::sha256_hex(body) + "\"\n}\n";
  try {
    const auto manifest = ddpm::checkpoint::parse_manifest(text, "M");
    for (const auto& file : manifest.files) {
      ddpm::fuzz::require(file.name.find('/') == std::string::npos && file.name.front() != '.', "names are plain");
    }
    for (const ManifestTensor& tensor : manifest.tensors) check_cover(tensor);
    const std::string written = to_text(manifest);
    ddpm::fuzz::require(to_text(ddpm::checkpoint::parse_manifest(written, "M")) == written, "reads back the same");
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
