#include "plan/make_starter.h"

#include "base/counted.h"
#include "base/error.h"
#include "engine/limits.h"
#include "plan/plan_request.h"
#include "plan/report.h"

namespace ddpm::plan {
namespace {

Request request_for(const base::FileSystem& files, const Starter& starter, const data::ImageFormat& image,
                    const StarterWishes& wishes) {
  train::Configuration configuration;
  configuration.load_text(files, toml_of(starter), "the new configuration");
  return plan_request(configuration.values(), configuration.values().model, image,
                      StoredSizes::whole(static_cast<int64_t>(image.bytes())),
                      {.nodes = starter.arrangement.nodes,
                       .ranks_per_node = starter.arrangement.ranks_per_node,
                       .machine = wishes.machine,
                       .memory_gib = wishes.memory_gib,
                       .on_host = wishes.on_host});
}

/// Micro-batches below this leave a processor idle.
constexpr int64_t kGoodMicro = 8;

/// Whether `found`, with a smaller micro-batch, is to be preferred to `best`: it does without a higher stage, or is
/// clearly faster.
bool preferred(const Candidate& found, const Candidate& best) {
  const bool plainer = found.arrangement.parallelism.zero_stage < best.arrangement.parallelism.zero_stage;
  return (plainer && found.arrangement.parallelism.micro_size >= kGoodMicro) ||
         found.time.total() < 0.9 * best.time.total();
}

/// The lowest stage that fits on all nodes, with the largest micro-batch that goes with it. None: sets `least` to the
/// bytes that a rank needs.
std::optional<Candidate> best_layout(Request request, int64_t& least) {
  constexpr int64_t kLargestMicro = 64;
  const int64_t share = request.given.parallelism.global_size / request.given.data_parallel_size();
  std::optional<Candidate> best;
  for (int64_t micro = fitting_micro_size(share, kLargestMicro); micro > 0;
       micro = micro == 1 ? 0 : fitting_micro_size(share, micro - 1)) {
    request.given.parallelism.micro_size = micro;
    const auto all = candidates(request);
    const Candidate* found = plainest(all, request.given.nodes);
    if (found != nullptr && (!best || preferred(*found, *best))) best = *found;
    least = all.back().memory.total();
  }
  return best;
}

StarterSize model_size(const StarterWishes& wishes) {
  return wishes.size.value_or(wishes.on_host ? StarterSize::small : StarterSize::medium);
}

/// The layout in the memory that there is, for which blocks are computed again in the backward pass where nothing else
/// suffices.
void choose_layout(const base::FileSystem& files, Starter& starter, const data::ImageFormat& image,
                   const StarterWishes& wishes) {
  int64_t least = 0;
  int64_t limit = 0;
  for (const bool recomputes : {false, true}) {
    starter.recomputes = recomputes;
    const Request request = request_for(files, starter, image, wishes);
    limit = request.limit_bytes.value_or(0);
    if (const auto best = best_layout(request, least)) {
      starter.arrangement = best->arrangement;
      return;
    }
  }
  const bool alone = starter.arrangement.ranks() == 1;
  throw base::ConfigError(
      "a rank needs {} even with micro_size = 1{} and activation_checkpointing = \"blocks\", but has {}; wanted: "
      "{}more memory, or for large images parallel.spatial_size, which cuts them over {}",
      size_text(least), alone ? "" : ", zero_stage = 3", size_text(limit),
      model_size(wishes) == StarterSize::small ? "" : "a smaller model (--model small) or ",
      alone ? "more ranks" : "ranks");
}

}  // namespace

void refuse_too_many_ranks(int64_t nodes, int64_t ranks_per_node) {
  if (nodes <= engine::kMaxBatch / ranks_per_node) return;
  throw base::ConfigError("--nodes {} × --gpus-per-node {} are {} ranks; at most {} can have an image of every step",
                          nodes, ranks_per_node, base::grouped(nodes * ranks_per_node),
                          base::grouped(engine::kMaxBatch));
}

Starter make_starter(const base::FileSystem& files, const StarterSet& set, const StarterWishes& wishes) {
  refuse_too_many_ranks(wishes.nodes, wishes.ranks_per_node);
  Starter starter{.images = {.path = set.path,
                             .count = set.count,
                             .height = set.image.height,
                             .width = set.image.width,
                             .channels = set.image.channels,
                             .classes = set.classes,
                             .float32 = set.image.dtype == base::DType::f32,
                             .depth = set.image.depth},
                  .model = starter_model(model_size(wishes), set.image.sides()),
                  .precision = wishes.precision,
                  .run_directory = wishes.run_directory,
                  .steps = wishes.steps};
  auto& a = starter.arrangement;
  a.nodes = wishes.nodes;
  a.ranks_per_node = wishes.ranks_per_node;
  a.mixed_precision = wishes.precision != optim::MixedPrecision::no;
  a.parallelism.global_size =
      wishes.global_size.value_or(starter_global_size(a.ranks(), set.count, wishes.on_host ? 32 : 128));
  const auto refusals = layout::refusals(a.parallelism, a.ranks());
  if (!refusals.empty()) throw base::ConfigError("{}", refusals.front());
  choose_layout(files, starter, set.image, wishes);
  return starter;
}

}  // namespace ddpm::plan
