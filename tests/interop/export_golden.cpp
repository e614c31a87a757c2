// export_golden OUT NETWORKS: writes the model of each golden file (see nn/golden_case.h) as a model folder OUT/NAME,
// which make_golden.py --check-exports compares with diffusers' own model; and, knowing the size of its images, in all
// forms as NETWORKS/NAME, which networks_peer.py compares with our own forward.
#include <cstdlib>
#include <iostream>

#include "base/file_system.h"
#include "diffusion/config.h"
#include "interop/diffusers_writer.h"
#include "interop/network_case.h"
#include "nn/golden_case.h"

namespace ddpm::interop {
namespace {

void export_model(const std::filesystem::path& golden_file, const std::filesystem::path& folder) {
  const nn::test::GoldenCase golden = nn::test::read_golden(golden_file);
  const nn::UNet2D unet(nn::test::config_from_json(golden.config));
  nn::test::bind_weights(unet.parameters(), golden, at::kFloat);
  std::vector<NamedTensor> weights;
  for (const nn::Parameter* parameter : unet.parameters()) weights.emplace_back(parameter->name, parameter->value);
  const auto files = base::posix_file_system();
  const diffusion::SchedulerConfig scheduler;
  const base::Json normalization = {{"dtype", "uint8"}};
  const ModelCard card;
  write_diffusers_model(*files, folder / golden_file.stem(), {unet.config(), scheduler, weights, normalization, card});
}

void export_network(const std::filesystem::path& golden_file, const std::filesystem::path& folder) {
  const nn::test::GoldenCase golden = nn::test::read_golden(golden_file);
  nn::UNet2DConfig config = nn::test::config_from_json(golden.config);
  config.sample_size = {golden.x.size(2), golden.x.size(3)};
  const nn::UNet2D unet(config);
  nn::test::bind_weights(unet.parameters(), golden, at::kFloat);
  const auto files = base::posix_file_system();
  write_network_case(*files, folder / golden_file.stem(), unet, golden.x, golden.timesteps, golden.class_labels);
}

}  // namespace
}  // namespace ddpm::interop

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: export_golden OUT NETWORKS\n";
    return EXIT_FAILURE;
  }
  for (const char* folder : {argv[1], argv[2]}) std::filesystem::create_directories(folder);
  for (const std::filesystem::path& file : ddpm::nn::test::golden_files()) {
    ddpm::interop::export_model(file, argv[1]);
    ddpm::interop::export_network(file, argv[2]);
  }
  return EXIT_SUCCESS;
}
