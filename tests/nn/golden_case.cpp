#include "nn/golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include "base/random.h"
#include "config/resolve.h"
#include "support/test_stream.h"

namespace ddpm::nn::test {
namespace {

using Step = uint64_t;
constexpr Step kWeights = 0;
constexpr Step kImage = 1;
constexpr Step kTarget = 2;
constexpr Step kTime = 3;
constexpr Step kLabel = 4;
constexpr uint32_t kTimesteps = 1000;

base::RandomSequence sequence(uint64_t seed, Step step, int64_t position) {
  return {seed, ddpm::test::kStream, step, static_cast<uint64_t>(position)};
}

at::Tensor uniform(uint64_t seed, Step step, int64_t position, at::IntArrayRef shape) {
  at::Tensor out = at::empty(shape, at::kFloat);
  sequence(seed, step, position)
      .fill_uniform({out.mutable_data_ptr<float>(), static_cast<std::size_t>(out.numel())}, -1.0F, 1.0F);
  return out;
}

at::Tensor uniform_batch(uint64_t seed, Step step, int64_t n, at::IntArrayRef shape) {
  std::vector<at::Tensor> images;
  for (int64_t i = 0; i < n; ++i) images.push_back(uniform(seed, step, i, shape));
  return at::stack(images);
}

at::Tensor integers(uint64_t seed, Step step, int64_t n, uint32_t below) {
  at::Tensor out = at::empty({n}, at::kLong);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(sequence(seed, step, i).below(below));
  return out;
}

uint32_t count_of(const base::Json& config, const char* key) {
  return config.at(key).is_null() ? kTimesteps : config.at(key).get<uint32_t>();
}

at::Tensor make_timesteps(const GoldenCase& g, int64_t n) {
  if (g.config.at("time_embedding_type") == "fourier") {
    return uniform_batch(g.seed, kTime, n, {1}).view({n}) + 1.25;
  }
  return integers(g.seed, kTime, n, count_of(g.config, "num_train_timesteps"));
}

at::Tensor make_class_labels(const GoldenCase& g, int64_t n) {
  const base::Json& type = g.config.at("class_embed_type");
  if (type == "identity") return uniform_batch(g.seed, kLabel, n, {g.config.at("time_embedding_dim").get<int64_t>()});
  if (type.is_null() && g.config.at("num_class_embeds").is_null()) return {};
  const char* key = g.config.at("num_class_embeds").is_null() ? "num_train_timesteps" : "num_class_embeds";
  const at::Tensor labels = integers(g.seed, kLabel, n, count_of(g.config, key));
  // A Fourier embedding takes the label's logarithm.
  return type == "timestep" && g.config.at("time_embedding_type") == "fourier" ? labels.clamp_min(1) : labels;
}

// A safetensors file of a trusted generator: 8 bytes of header length, JSON, data.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof length);
    std::string text(length, ' ');
    file.read(text.data(), static_cast<std::streamsize>(length));
    header_ = base::Json::parse(text);
    bytes_.resize(std::filesystem::file_size(path) - sizeof length - length);
    file.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }

  [[nodiscard]] std::string metadata(const char* key) const { return header_.at("__metadata__").at(key); }

  [[nodiscard]] std::string metadata(const char* key, const std::string& absent) const {
    return header_.at("__metadata__").value(key, absent);
  }

  [[nodiscard]] bool has(const char* name) const { return header_.contains(name); }
  [[nodiscard]] std::string dtype(const char* name) const { return header_.at(name).at("dtype"); }

  [[nodiscard]] at::Tensor tensor(const char* name) const {
    const base::Json& entry = header_.at(name);
    const at::ScalarType dtype = entry.at("dtype") == "F16" ? at::kHalf : at::kFloat;
    at::Tensor out = at::empty(entry.at("shape").get<std::vector<int64_t>>(), dtype);
    std::memcpy(out.mutable_data_ptr(), bytes_.data() + entry.at("data_offsets").at(0).get<std::size_t>(),
                out.nbytes());
    return out.to(at::kFloat);
  }

 private:
  base::Json header_;
  std::vector<char> bytes_;
};

void read_parameters(const SafetensorsFile& file, GoldenCase& g) {
  const at::Tensor gradients = file.tensor("gradients");
  const at::Tensor beyond = file.has("gradients_beyond") ? file.tensor("gradients_beyond") : at::empty({0, 0});
  g.exact = file.dtype("gradients") == "F32";
  const at::Tensor scales = file.tensor("gradient_scales");
  int64_t offset = 0;
  int64_t index = 0;
  for (const base::Json& entry : base::Json::parse(file.metadata("parameters"))) {
    const auto shape = entry.at(1).get<std::vector<int64_t>>();
    const int64_t elements = c10::multiply_integers(shape);
    const at::Tensor gradient = gradients.narrow(0, offset, elements).view(shape) * scales[index++];
    GoldenParameter& p = g.parameters[entry.at(0)];
    p = {shape, entry.at(2).get<bool>(), gradient, {}};
    for (int64_t i = 0; i < beyond.size(0); ++i) {
      p.beyond.push_back(beyond[i].narrow(0, offset, elements).view(shape));
    }
    offset += elements;
  }
}

// The value of a parameter, of unit gain: see make_golden.py.
at::Tensor weight_value(const std::string& name, const std::vector<int64_t>& shape, uint64_t seed, int64_t index) {
  const at::Tensor u = uniform(seed, kWeights, index, shape);
  if (shape.size() > 1) {
    const auto fan_in = static_cast<double>(c10::multiply_integers(shape.begin() + 1, shape.end()));
    return u * static_cast<float>(std::sqrt(3.0 / fan_in));
  }
  return name.ends_with("weight") ? u * 0.25F + 1.0F : u * 0.25F;
}

}  // namespace

GoldenCase read_golden(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  GoldenCase g;
  g.config = base::Json::parse(file.metadata("config"));
  g.seed = std::stoull(file.metadata("seed"));
  g.output = file.tensor("output");
  g.loss = file.tensor("loss").item<double>();
  read_parameters(file, g);
  const int64_t n = g.output.size(0);
  const int64_t height = g.output.size(2);
  const int64_t width = g.output.size(3);
  g.x = uniform_batch(g.seed, kImage, n, {g.config.at("in_channels").get<int64_t>(), height, width});
  g.target = uniform_batch(g.seed, kTarget, n, {g.config.at("out_channels").get<int64_t>(), height, width});
  g.timesteps = make_timesteps(g, n);
  g.class_labels = make_class_labels(g, n);
  return g;
}

std::vector<std::filesystem::path> golden_files(const std::string& extension) {
  const char* named = std::getenv("DDPM_GOLDEN");
  const std::filesystem::path folder = named != nullptr ? named : DDPM_TEST_DATA "/../nn/golden";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(extension)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

UNet2DConfig config_from_json(const base::Json& json) {
  const std::map<std::string, std::string> spelled_null = {
      {"attention_head_dim", "0"}, {"norm_num_groups", "0"}, {"mid_block_type", "\"\""}};
  std::string toml = "[model]\n";
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null())
      toml += fmt::format("{} = {}\n", key, value.dump());
    else if (spelled_null.contains(key))
      toml += fmt::format("{} = {}\n", key, spelled_null.at(key));
  }
  UNet2DConfig c;
  config::Schema schema;
  config::Section section = schema.section("model", "", config::Identity::fixed);
  describe(section, c);
  config::apply(schema, config::parse_toml(toml, "config.json"), "config.json");
  return c;
}

void bind_weights(std::span<Parameter* const> parameters, const GoldenCase& golden, const at::TensorOptions& options) {
  std::map<std::string, at::Tensor> values;
  int64_t index = 0;
  for (const auto& [name, parameter] : golden.parameters) {
    values[name] = weight_value(name, parameter.shape, golden.seed, index++);
  }
  allocate(parameters, options);
  for (Parameter* p : parameters) {
    p->value.copy_(part_of(values.at(p->name), p->split));
    p->value.set_requires_grad(p->role == base::ParameterRole::trained);
  }
}

}  // namespace ddpm::nn::test
