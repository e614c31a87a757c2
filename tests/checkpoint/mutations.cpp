// Checkpoints changed at random: checkpoint_mutations [--count 10000] [--seed 1].
//
// A run folder holds steps 10 and 20. A file of step 20 (shard, manifest), or LATEST, is changed, then step 20 is
// opened by its path, and the newest readable one is looked for. A changed file of step 20 must make the first refuse
// and the second give step 10; whatever is loaded must have each bit that was saved.
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "support/fake_communicator.h"
#include "support/mutation.h"
#include "support/temporary_folder.h"

namespace ddpm::checkpoint {
namespace {

using test::Outcome;

struct Tensor {
  TensorSlice slice;
  std::vector<float> values;
};

/// What step `step` holds: each value differs from the other step's.
std::vector<Tensor> tensors_of(int64_t step) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {{"adam/step", {}},
                                                                            {"ema/time.weight", {5, 7}},
                                                                            {"model/conv_in.bias", {8}},
                                                                            {"model/conv_in.weight", {8, 3, 3, 3}}};
  std::vector<Tensor> tensors;
  for (const auto& [name, shape] : shapes) {
    TensorSlice slice = whole_slice(name, base::DType::f32, shape);
    std::vector<float> values(static_cast<std::size_t>(slice.flat.size()));
    std::iota(values.begin(), values.end(), static_cast<float>(step) * 1000.0F);
    tensors.push_back({std::move(slice), std::move(values)});
  }
  return tensors;
}

class Run {
 public:
  explicit Run(base::Path folder) : folder_(std::move(folder)) {
    for (const int64_t step : {10, 20}) {
      const std::vector<Tensor> tensors = tensors_of(step);
      SaveRequest request{.step = step, .state = {{"images_seen", step * 64}}, .config_hash = "c", .dataset_hash = "d"};
      for (const Tensor& t : tensors) request.slices.emplace_back(t.slice, std::as_bytes(std::span(t.values)));
      store_.save(std::move(request));
    }
  }

  /// Loads what an open or a search gave, and compares.
  bool has_its_values(const Checkpoint& checkpoint) {
    const int64_t step = checkpoint.manifest.step;
    const std::vector<Tensor> wanted = tensors_of(step);
    std::vector<Tensor> seen = wanted;
    std::vector<WantedSlice> slices;
    for (Tensor& t : seen) {
      std::fill(t.values.begin(), t.values.end(), -1.0F);
      slices.emplace_back(t.slice, std::as_writable_bytes(std::span(t.values)));
    }
    store_.load(checkpoint, slices);
    bool equal = checkpoint.manifest.state == base::Json{{"images_seen", step * 64}};
    for (std::size_t i = 0; i < seen.size(); ++i) {
      equal = equal && std::memcmp(seen[i].values.data(), wanted[i].values.data(), wanted[i].values.size() * 4) == 0;
    }
    return equal;
  }
  /// Checks the folder after a change of a file, which may be one of step 20.
  Outcome outcome(bool of_step_20) {
    bool refused = false;
    try {
      if (!has_its_values(store_.open(store_.directory(20)))) return Outcome::wrong;
    } catch (const base::Error& error) {
      if (error.code() != base::ExitCode::output) return Outcome::crashed;
      refused = true;
    }
    const auto found = store_.find();
    if (refused != of_step_20 || !found || found->manifest.step != (of_step_20 ? 10 : 20)) return Outcome::wrong;
    if (!has_its_values(*found)) return Outcome::wrong;
    return refused ? Outcome::detected : Outcome::harmless;
  }

 private:
  base::Path folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
  base::Logger log_{1, 2};  // of a rank that does not speak: each fall-back would be warned of
  test::TrafficCounts counts_;
  test::FakeCommunicator comm_{0, 1, counts_};
  CheckpointStore store_{*files_, comm_, folder_, log_};
};

int run(uint64_t count, uint64_t seed) {
  const test::TemporaryFolder folder;
  Run run(folder.path());
  const std::string step = (base::Path(kCheckpointsName) / step_folder_name(20)).string();
  const std::vector<std::string> names = {step + "/" + kManifestName, step + "/" + shard_name(0, 1), kLatestName};
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(test::read_text(folder.path() / name));
  test::Mutator mutator(seed);
  test::Tally tally;
  for (uint64_t trial = 0; trial < count; ++trial) {
    const std::size_t file = trial % 10 == 9 ? 2 : trial % 2;  // LATEST is a hint: every tenth time is enough
    const base::Path path = folder.path() / names[file];
    test::write_text(path, mutator.changed(texts[file], texts[mutator.below(texts.size())]));
    const auto load = [&] { return run.outcome(file < 2); };
    tally.add(path.filename().string(), test::in_a_process_of_its_own(load), trial);
    test::write_text(path, texts[file]);
  }
  return tally.report();
}

}  // namespace
}  // namespace ddpm::checkpoint

int main(int argc, char** argv) {
  using ddpm::test::option;
  return ddpm::checkpoint::run(option(argc, argv, "--count", 10000), option(argc, argv, "--seed", 1));
}
