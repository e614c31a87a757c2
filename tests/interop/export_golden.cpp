// export_golden OUT: writes the model of each golden file (see nn/golden_case.h) as a model folder OUT/NAME, which
// make_golden.py --check-exports compares with diffusers' own model.
#include <cstdlib>
#include <iostream>

#include "base/file_system.h"
#include "diffusion/config.h"
#include "interop/diffusers_writer.h"
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

}  // namespace
}  // namespace ddpm::interop

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: export_golden OUT\n";
    return EXIT_FAILURE;
  }
  std::filesystem::create_directories(argv[1]);
  for (const std::filesystem::path& file : ddpm::nn::test::golden_files()) ddpm::interop::export_model(file, argv[1]);
  return EXIT_SUCCESS;
}
