// Prints what activation checkpointing saves and costs, for the model of diffusers' train_unconditional.py at 64
// pixels:
//
//   parallel_activation_memory [IMAGES] [no | bf16] [REPEATS]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "parallel/activation_count.h"
#include "parallel/allocation_peak.h"

namespace {

using namespace ddpm;

nn::UNet2DConfig train_unconditional() {
  nn::UNet2DConfig c;
  c.block_out_channels = {128, 128, 256, 256, 512, 512};
  c.down_block_types = {"DownBlock2D", "DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"};
  return c;
}

/// Forward and backward; parameters' gradients go as they come, as in training.
struct Pass {
  const nn::UNet2D& unet;
  at::Tensor x;
  at::Tensor timesteps;

  double seconds(nn::UnitExecutor& executor) const {
    const auto start = std::chrono::steady_clock::now();
    unet.forward(x, timesteps, {}, {.training = true}, nn::whole_image(), executor).square().mean().backward();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t images = argc > 1 ? std::atoi(argv[1]) : 4;
  const at::ScalarType dtype = argc > 2 && std::string(argv[2]) == "bf16" ? at::kBFloat16 : at::kFloat;
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 3;
  const nn::UNet2D unet(train_unconditional());
  allocate(unet.parameters(), dtype);
  initialize(unet.parameters(), 0);
  for (const nn::Parameter* p : unet.parameters())
    p->value.set_requires_grad(true).mutable_grad() = at::zeros_like(p->value);
  const Pass pass{unet, at::zeros({images, 3, 64, 64}), at::zeros({images}, at::kLong)};

  fmt::print("{:12} {:>12} {:>12} {:>12} {:>9}\n", "kept", "saved MB", "peak MB", "counted MB", "s");
  for (const std::string kept : {"none", "attention", "blocks"}) {
    const auto what = parallel::parse_activation_checkpointing(kept);
    const auto count = count_activations(unet.config(), dtype, {.images = images, .height = 64, .width = 64}, what);
    parallel::ActivationCheckpointer checkpointer(what);
    const test::AllocationPeak measured;
    double seconds = pass.seconds(checkpointer);
    for (int i = 1; i < repeats; ++i) seconds = std::min(seconds, pass.seconds(checkpointer));
    const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    fmt::print("{:12} {:12.1f} {:12.1f} {:12.1f} {:9.2f}\n", kept, megabytes(count.saved()),
               megabytes(measured.bytes()), megabytes(count.peak()), seconds);
  }
}
