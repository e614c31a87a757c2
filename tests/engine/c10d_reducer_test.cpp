// The gradients of one step, reduced over the ranks by us and by PyTorch's c10d::Reducer (what DistributedDataParallel
// is made of), of the same UNet with the same weights, images and noise.
#include <map>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "comm/mpi_communicator.h"
#include "denoise/denoising_loss.h"
#include "diffusion/formulation.h"
#include "engine/c10d_group.h"
#include "engine/sharded_training.h"
#include "layout/batch_layout.h"
#include "nn/unet2d.h"
#include "parallel/parameter_arena.h"
#include "support/mpi_test.h"

namespace ddpm::engine::test {
namespace {

constexpr int64_t kMicroSize = 2;         // 3 micro-batches on 2 ranks, 2 on 3
constexpr int64_t kBucketBytes = 20'000;  // several buckets

comm::Communicator& world() { return ddpm::test::world(); }

struct NamedGradient {
  std::string name;
  at::Tensor values;  ///< in the order of ParameterArena::flatten
};

/// DistributedDataParallel's buckets: cut by size from the first parameter on, sent from the last.
std::vector<std::vector<std::size_t>> buckets_of(const std::vector<at::Tensor>& parameters) {
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kBucketBytes, kBucketBytes}));
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

/// One step as DistributedDataParallel does it: micro-batches but the last add to .grad (no_sync), and in the last
/// one's backward the reducer averages over the ranks.
std::vector<NamedGradient> gradients_of_c10d() {
  const nn::UNet2D unet(tiny_unet());
  nn::allocate(unet.parameters(), at::kFloat);
  nn::initialize(unet.parameters(), kWeightSeed);
  std::vector<at::Tensor> values;
  for (const nn::Parameter* parameter : unet.parameters()) values.push_back(parameter->value.set_requires_grad(true));
  const auto duplicate = world().duplicate();
  const auto buckets = buckets_of(values);
  EXPECT_GT(buckets.size(), 3U);
  c10d::Reducer reducer(values, buckets, make_c10d_group(comm::mpi_handle(*duplicate)),
                        std::vector<bool>(values.size(), false), kBucketBytes, /*find_unused_parameters=*/false,
                        /*gradient_as_bucket_view=*/false, {}, kBucketBytes, /*skip_all_reduce_unused_params=*/false,
                        /*use_python_reducer=*/false, {});

  const diffusion::DiffusionConfig diffusion;
  const diffusion::ForwardProcess process(diffusion);
  nn::UnitExecutor direct;
  const denoise::DenoisingLoss denoising{unet, process, kNoiseSeed, direct};
  PartTimer parts;
  const auto layout = layout::BatchLayout::make(kGlobalSize, kMicroSize, world().size());
  for (int64_t micro = 0; micro < layout.accumulation_steps(); ++micro) {
    const layout::Range positions = layout.positions(world().rank(), micro);
    if (micro + 1 == layout.accumulation_steps()) reducer.prepare_for_backward({});
    denoising.forward_backward({.step = 0,
                                .positions = positions,
                                .step_on_device = at::zeros({}, at::kLong),
                                .x0 = images(0, positions, unet.config().sample_size.front())},
                               at::full({}, 1.0 / kGlobalSize), parts);
  }

  std::vector<NamedGradient> gradients;
  for (const nn::Parameter* parameter : unet.parameters()) {
    const parallel::ArenaEntry entry{.name = parameter->name, .shape = parameter->shape, .range = {}};
    const at::Tensor mean = parallel::ParameterArena::flatten(parameter->value.grad());
    gradients.push_back({parameter->name, mean * world().size()});
  }
  return gradients;
}

/// The largest relative distance of a parameter's gradient, ‖ours − c10d's‖ / ‖c10d's‖.
double worst_distance(const TrainingCase& chosen, const std::vector<NamedGradient>& wanted) {
  const at::Tensor ours = train(chosen, world(), 1).gradients;
  double worst = 0.0;
  int64_t begin = 0;
  for (const NamedGradient& gradient : wanted) {
    const int64_t count = gradient.values.numel();
    const double distance = relative_distance(ours.narrow(0, begin, count), gradient.values);
    EXPECT_LE(distance, 1e-6) << gradient.name;
    worst = std::max(worst, distance);
    begin += count;
  }
  EXPECT_EQ(begin, ours.numel());
  return worst;
}

TEST(C10dReducer, SumsTheSameGradients) {
  const std::vector<NamedGradient> wanted = gradients_of_c10d();
  for (int64_t stage = 0; stage <= 3; ++stage) {
    for (const bool overlap : {true, false}) {
      TrainingCase chosen;
      chosen.parallel.zero_stage = stage;
      chosen.parallel.overlap = overlap;
      chosen.parallel.bucket_mib = 0.02;
      chosen.micro_size = kMicroSize;
      SCOPED_TRACE(chosen.text());
      const double worst = worst_distance(chosen, wanted);
      if (world().rank() == 0) printf("%s: %.1e\n", chosen.text().c_str(), worst);
    }
  }
}

}  // namespace
}  // namespace ddpm::engine::test
