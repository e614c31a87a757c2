// What a model sees of a set's images, for model_inputs_peer_test.py, where NumPy computes the same.
//
//   denoise_model_inputs SET OUTPUT none|standardize upright|flipped|turned PROBABILITY [HEIGHT WIDTH zeros|periodic]
//
// reads a folder, or an .h5 file with /images, /condition, /static, /parameters and /mask, as one batch at positions
// from 3 on of step 5 with seed 11, and writes OUTPUT/{x0,beside,parameters,kept,valid,losses}.npy. `losses` are those
// of the prediction sin(10 x0) - 0.25 of x0. With HEIGHT and WIDTH they are those of windows, which wrap if periodic.
// Turned images are mirrored both ways and turned by quarters; the first two variables of /images and /condition are
// vectors there.
#include <iostream>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/sin.h>

#include "base/named.h"
#include "comm/mpi_session.h"
#include "data/standardize.h"
#include "denoise/model_inputs.h"
#include "diffusion/loss.h"
#include "observe/npy.h"

namespace {

using namespace ddpm;

data::MicroBatch whole_set(const data::Dataset& set) {
  data::MicroBatch batch;
  batch.step = 5;
  batch.positions = {3, 3 + set.size()};
  batch.indices.resize(static_cast<std::size_t>(set.size()));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  batch.values = set.room_for(batch.indices);
  for (std::size_t f = 0; f < set.fields().size(); ++f) {
    if (set.fields()[f].is_read_in_blocks()) set.read_unconfirmed(f, 0, set.size(), batch.values[f]);
  }
  return batch;
}

void write(const std::string& folder, const char* name, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  const auto files = base::posix_file_system();
  observe::NpyWriter writer(*files, base::Path(folder) / (std::string(name) + ".npy"), values.sizes().vec());
  writer.append({values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  writer.commit();
}

denoise::Windows windows_of(const data::Dataset& set, const std::vector<std::string>& arguments) {
  if (arguments.size() == 5) return {};
  nn::UNet2DConfig model;
  model.padding = {arguments.at(7)};
  const auto patch = denoise::Patch::of(set.image(), {std::stoll(arguments.at(5)), std::stoll(arguments.at(6))}, model);
  return {patch, 11, base::Stream::patch, at::kCPU};
}

}  // namespace

int main(int argc, char** argv) {
  comm::MpiSession session(argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string& path = arguments.at(0);
  const std::string& output = arguments.at(1);
  data::DatasetOptions options;
  if (path.ends_with(".h5")) {
    options = {.condition = "/condition", .static_values = "/static", .parameters = "/parameters", .mask = "/mask"};
  }
  data::Dataset set = data::Dataset::open(session.world(), path, options);
  data::settle_transforms(session.world(), set, *base::find_named<data::Normalize>(arguments.at(2)));
  const bool turned = arguments.at(3) == "turned";
  const auto vectors =
      denoise::vectors_of(turned ? std::vector<std::string>{"channel 0, -channel 1"} : std::vector<std::string>{});
  const denoise::ModelInputs inputs(set, /*positions=*/true, at::kCPU, windows_of(set, arguments), vectors);
  const denoise::Augmentation augmentation{.seed = 11,
                                           .horizontal_flip = turned || arguments.at(3) == "flipped",
                                           .vertical_flip = turned,
                                           .quarter_turns = turned,
                                           .condition_dropout = std::stod(arguments.at(4))};
  const auto stored = denoise::stored_batch(whole_set(set), set.fields(), at::kCPU);
  const denoise::ModelBatch batch = inputs.batch(stored, augmentation);
  write(output, "x0", batch.x0);
  write(output, "beside", batch.beside);
  write(output, "parameters", batch.conditions.parameters);
  write(output, "kept", batch.conditions.parameters_kept);
  write(output, "valid", batch.valid);
  write(output, "losses", diffusion::per_sample_loss(at::sin(10 * batch.x0) - 0.25, batch.x0, batch.valid));
  set.close(session.world());
  session.finalize();
  return 0;
}
