// run_torchscript MODULE.pt CHANNELS SIDE: runs a TorchScript module with LibTorch alone, without anything of ddpm, on
// two images of ones, and prints the sum of what it predicts and the sum of the magnitudes.
#include <cstdlib>
#include <iostream>

#include <torch/script.h>

int main(int argc, char** argv) {
  if (argc != 4) return EXIT_FAILURE;
  torch::jit::Module module = torch::jit::load(argv[1]);
  const c10::InferenceMode inference;
  const int64_t side = std::atoll(argv[3]);
  const at::Tensor prediction =
      module.forward({at::ones({2, std::atoll(argv[2]), side, side}), at::tensor({3, 900}, at::kLong)}).toTensor();
  std::cout.precision(9);
  std::cout << prediction.sum().item<double>() << ' ' << prediction.abs().sum().item<double>() << '\n';
  return EXIT_SUCCESS;
}
