// The files of a model folder or of a folder of adapters, read as the program reads them: whatever they hold, the only
// error is OutputError (exit code 4), and weights that are accepted have the shapes of the model. The input is a row of
// files: a byte that names one, two bytes with its length, and its content.
#include <functional>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "interop/diffusers_reader.h"
#include "interop/peft_config.h"
#include "nn/config.h"
#include "support/temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using ddpm::interop::UNetWeights;

constexpr std::string_view kFiles[] = {
    "unet/config.json",
    "scheduler/scheduler_config.json",
    "model_index.json",
    "class_names.json",
    "normalization.json",
    "unet/diffusion_pytorch_model.safetensors",
    "unet/diffusion_pytorch_model.safetensors.index.json",
    "unet/a.safetensors",
    "unet/b.safetensors",
    "adapter_config.json",
    "adapter_model.safetensors",
};

/// Writes the files of the input into the folder.
void write_files(std::string_view input, const fs::path& folder) {
  fs::create_directories(folder / "unet");
  fs::create_directories(folder / "scheduler");
  while (input.size() >= 3) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    const std::string_view file = kFiles[byte(0) % std::size(kFiles)];
    const std::size_t length = byte(1) + 256U * byte(2);
    input.remove_prefix(3);
    const std::string_view content = input.substr(0, length);
    ddpm::test::write_text(folder / file, content);
    input.remove_prefix(content.size());
  }
}

void refused_or_read(const std::function<void()>& read) {
  try {
    read();
  } catch (const ddpm::base::OutputError&) {
  }
}

void read_all(const UNetWeights& weights, const ddpm::interop::ExpectedShapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    std::size_t bytes = weights.dtype_of(name) == at::kDouble ? 8 : weights.dtype_of(name) == at::kFloat ? 4 : 2;
    for (const int64_t side : shape) bytes *= static_cast<std::size_t>(side);
    ddpm::fuzz::require(weights.read(name).nbytes() == bytes, "a weight is as large as the model wants it");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace interop = ddpm::interop;
  const ddpm::test::TemporaryFolder folder;
  const fs::path& path = folder.path();
  write_files(ddpm::fuzz::text_of(data, size), path);
  const interop::ExpectedShapes shapes = {{"conv_in.weight", {2, 3}}, {"down.attentions.0.to_q.weight", {3}}};
  const interop::ExpectedShapes adapters = {{"to_q.lora_A.weight", {2, 3}}};
  refused_or_read([&] { interop::read_model_config(path); });
  refused_or_read([&] { interop::read_scheduler(path); });
  refused_or_read([&] { interop::read_class_names(path); });
  refused_or_read([&] { interop::read_normalization(path); });
  refused_or_read([&] { read_all(UNetWeights(path, shapes), shapes); });
  refused_or_read([&] { interop::read_peft_config(path); });
  refused_or_read([&] { read_all(UNetWeights::of_adapters(path, adapters), adapters); });
  return 0;
}
