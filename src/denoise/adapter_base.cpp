#include "denoise/adapter_base.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_fields.h"
#include "comm/collectives.h"
#include "denoise/shared_weights.h"
#include "denoise/unet_tensors.h"
#include "denoise/weight_digest.h"
#include "interop/diffusers_reader.h"
#include "interop/unet_json.h"

namespace ddpm::denoise {
namespace {

constexpr const char* kPath = "adapter_base";
constexpr const char* kSha256 = "adapter_base_sha256";

std::string absolute_text(const base::Path& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

void expect_same_function(const base::Path& path, const nn::UNet2DConfig& model) {
  const nn::UNet2DConfig base = interop::read_model_config(path);
  const auto inputs = interop::changed_inputs(base, model);
  if (!inputs.empty()) {
    throw base::OutputError(
        "{}: adapters (model.lora_rank) take no classes, channels or parameters that the model did not have: it has "
        "model.{}; wanted: the model's own, or training without model.lora_rank",
        path.string(), fmt::join(inputs, " and model."));
  }
  const auto changed = interop::changed_model_keys(base, model);
  if (changed.empty()) return;
  throw base::OutputError("{}: the model beside adapters has model.{}; wanted: that model as it is, since they are its",
                          path.string(), fmt::join(changed, " and model."));
}

void write_adapter_base(const AdapterBase& adapter_base, base::Json& state) {
  state[kPath] = adapter_base.path;
  state[kSha256] = adapter_base.sha256;
}

AdapterBase read_adapter_base(const base::Json& state, const std::string& origin) {
  const base::JsonFields values(state, origin, {}, base::JsonFields::Others::ignored);
  return {.path = values.text(kPath), .sha256 = values.text(kSha256)};
}

void expect_base(const base::Path& place, const std::string& option) {
  if (interop::is_model_folder(place)) return;
  throw base::OutputError(
      "{}: there is no model folder, and the adapters belong to the weights that lay there; wanted: {} with the place "
      "where they lie now{}",
      place.string(), option, interop::hub_hint(place));
}

void expect_use_of_base(const std::optional<base::Path>& asked, bool has_adapters, const base::Path& model) {
  if (!asked || has_adapters) return;
  throw base::ConfigError(
      "--base {}: {} has no adapters, whose weights would lie there; wanted: no such option, "
      "or a run with model.lora_rank",
      asked->string(), model.string());
}

AdapterBase read_base_weights(const base::Path& path, const nn::UNet2D& unet, comm::Communicator& world,
                              const std::function<void(const std::string& name, const at::Tensor& values)>& use) {
  comm::do_on_root(world, [&] { expect_same_function(path, unet.config()); });
  WeightDigest digest;  // filled on rank 0 alone
  const SharedWeights weights(path, expected_shapes(unet), world);
  weights.for_each([&](const std::string& name, const at::Tensor& values) {
    if (world.rank() == 0) digest.add(name, values);
    use(name, values);
  });
  return {.path = absolute_text(path), .sha256 = comm::agree_on_root(world, [&] { return digest.hex(); })};
}

void expect_same_base(const AdapterBase& remembered, const AdapterBase& read) {
  if (remembered.sha256 == read.sha256) return;
  throw base::OutputError(
      "{}: the adapters were trained beside other weights: SHA-256 {}, wanted {}; wanted: the model as it lay in {}",
      read.path, read.sha256, remembered.sha256, remembered.path);
}

AdapterMerger::AdapterMerger(const nn::UNet2D& unet, const AdapterValues& adapters) : adapters_(adapters) {
  for (const nn::AdaptableLayer* layer : unet.adapted()) by_weight_.emplace(layer->weight().name, layer->adapter());
}

at::Tensor AdapterMerger::merged(const std::string& name, const at::Tensor& weight) const {
  const auto found = by_weight_.find(name);
  if (found == by_weight_.end()) return weight;
  nn::Adapter adapter = *found->second;
  for (nn::Parameter* parameter : {&adapter.a, &adapter.b}) parameter->value = adapters_.at(parameter->name);
  return weight.to(at::kFloat) + nn::merged_difference(adapter, weight.sizes());
}

std::vector<interop::NamedTensor> merged_weights(const AdapterBase& remembered, const nn::UNet2D& unet,
                                                 const AdapterValues& adapters) {
  const interop::ExpectedShapes expected = expected_shapes(unet);
  expect_same_function(remembered.path, unet.config());
  const interop::UNetWeights file(remembered.path, expected);
  const AdapterMerger merger(unet, adapters);
  WeightDigest digest;
  std::vector<interop::NamedTensor> weights;
  for (const auto& [name, shape] : expected) {
    const at::Tensor read = file.read(name);
    digest.add(name, read);
    weights.emplace_back(name, merger.merged(name, read));
  }
  expect_same_base(remembered, {.path = remembered.path, .sha256 = digest.hex()});
  return weights;
}

}  // namespace ddpm::denoise
