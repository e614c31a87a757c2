// The files of a model folder or of a folder of adapters, read as the program reads them: whatever they hold, the only
// error is OutputError (exit code 4), and weights that are accepted have the shapes of the model. The input is a row of
// files: a byte that names one, two bytes with its length, and its content.
#include <fstream>
#include <functional>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "interop/diffusers_reader.h"
#include "interop/peft_config.h"
#include "nn/config.h"

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

/// A folder with the files of the input, which are gone with it.
class Folder {
 public:
  explicit Folder(std::string_view input) : path_(fs::temp_directory_path() / "ddpm-fuzz-XXXXXX") {
    std::string name = path_.string();
    ddpm::fuzz::require(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    path_ = name;
    fs::create_directories(path_ / "unet");
    fs::create_directories(path_ / "scheduler");
    while (input.size() >= 3) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
      const std::string_view file = kFiles[byte(0) % std::size(kFiles)];
      const std::size_t length = byte(1) + 256U * byte(2);
      input.remove_prefix(3);
      const std::string_view content = input.substr(0, length);
      std::ofstream(path_ / file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
      input.remove_prefix(content.size());
    }
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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
  const Folder folder(ddpm::fuzz::text_of(data, size));
  const fs::path& path = folder.path();
  const interop::ExpectedShapes shapes = {{"conv_in.weight", {2, 3}}, {"down.attentions.0.to_q.weight", {3}}};
  const interop::ExpectedShapes adapters = {{"to_q.lora_A.weight", {2, 3}}};
  refused_or_read([&] { interop::read_model_config(path); });
  refused_or_read([&] { interop::expect_images(path); });
  refused_or_read([&] { interop::read_scheduler(path); });
  refused_or_read([&] { interop::read_class_names(path); });
  refused_or_read([&] { interop::read_normalization(path); });
  refused_or_read([&] { read_all(UNetWeights(path, shapes), shapes); });
  refused_or_read([&] { interop::read_peft_config(path); });
  refused_or_read([&] { read_all(UNetWeights::of_adapters(path, adapters), adapters); });
  return 0;
}
