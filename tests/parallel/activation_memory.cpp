// Prints what activation checkpointing saves and costs, for the model of diffusers' train_unconditional.py at 64
// pixels:
//
//   parallel_activation_memory [IMAGES] [no | bf16] [REPEATS]
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "nn/train_unconditional.h"
#include "parallel/activation_count.h"
#include "parallel/allocation_peak.h"

namespace {

using namespace ddpm;

/// Forward and backward; parameters' gradients go as they come, as in training.
struct Pass {
  const nn::UNet2D& unet;
  at::Tensor x;
  at::Tensor timesteps;

  /// Processor time, which other work on the machine changes little.
  double seconds(nn::UnitExecutor& executor) const {
    const std::clock_t start = std::clock();
    unet.forward(x, timesteps, {}, {.training = true}, nn::whole_image(), executor).square().mean().backward();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t images = argc > 1 ? std::atoi(argv[1]) : 4;
  const at::ScalarType dtype = argc > 2 && std::string(argv[2]) == "bf16" ? at::kBFloat16 : at::kFloat;
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 3;
  const nn::UNet2D unet(nn::test::train_unconditional());
  allocate(unet.parameters(), dtype);
  initialize(unet.parameters(), 0);
  for (const nn::Parameter* p : unet.parameters())
    p->value.set_requires_grad(true).mutable_grad() = at::zeros_like(p->value);
  const Pass pass{unet, at::zeros({images, 3, 64, 64}), at::zeros({images}, at::kLong)};

  struct Row {
    parallel::ActivationCheckpointing kept;
    int64_t peak = 0;
    double seconds = 1e9;
  };
  std::vector<Row> rows = {{parallel::ActivationCheckpointing::none},
                           {parallel::ActivationCheckpointing::attention},
                           {parallel::ActivationCheckpointing::blocks}};
  for (int i = 0; i < repeats; ++i) {
    for (Row& row : rows) {
      parallel::ActivationCheckpointer checkpointer(row.kept);
      const test::AllocationPeak measured;
      row.seconds = std::min(row.seconds, pass.seconds(checkpointer));
      row.peak = measured.bytes();
    }
  }
  fmt::print("{:12} {:>12} {:>12} {:>12} {:>9}\n", "kept", "saved MB", "peak MB", "counted MB", "CPU s");
  for (const Row& row : rows) {
    const auto count = count_activations(unet.config(), dtype, {.images = images, .height = 64, .width = 64}, row.kept);
    const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    fmt::print("{:12} {:12.1f} {:12.1f} {:12.1f} {:9.2f}\n", base::name_of(row.kept), megabytes(count.saved()),
               megabytes(row.peak), megabytes(count.peak()), row.seconds);
  }
}
