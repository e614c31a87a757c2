// Some steps of training a UNet on images, by train/denoising_step.h: on the host or on another device, launched or
// recorded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "data/shared_folder.h"
#include "device/device_graph.h"
#include "run/placement.h"
#include "train/denoising_step.h"
#include "train/unet_state.h"

namespace ddpm::engine::test {

inline constexpr int64_t kSteps = 5;        ///< two that are launched, and three of the recording
inline constexpr int64_t kScaledSteps = 7;  ///< of float16: the first ones overflow

struct StepCase {
  std::string precision = "no";
  int64_t steps = kSteps;
  std::string parallel = "";                               ///< keys of [parallel]
  std::string run = "";                                    ///< more keys of [run]
  std::unique_ptr<device::DeviceGraph> graph = {};         ///< null: operations are launched one by one
  at::Device device = at::kCPU;                            ///< where the model is
  std::unique_ptr<comm::Communicator> data_parallel = {};  ///< of its memory; null: that of the host
  std::function<void(train::UNetState& model, const run::Placement& place)> after_step = {};
  std::function<void(train::DenoisingStep& step)> between = {};  ///< after it, before the next step
};

struct Trained {
  at::Tensor weights;  ///< of this rank's first piece, on the host
  std::vector<double> losses;
  std::vector<double> norms;
  int64_t most_ahead = 0;
};

class StepCaseTest : public data::SharedFolderTest {
 protected:
  void SetUp() override;
  /// Steps of 8 images: two micro-batches of one rank, micro-batches of 2 of several. Collective.
  Trained train(StepCase chosen);
};

}  // namespace ddpm::engine::test
