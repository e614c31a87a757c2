#include "run/config.h"

#include "base/error.h"
#include "engine/limits.h"

namespace ddpm::run {
namespace {

using config::Identity;

void describe(config::Section& section, RunConfig& c) {
  section
      .key("directory", c.directory,
           "The run folder: configuration, metrics, checkpoints and the finished model. The same command resumes the "
           "run that it finds there.",
           {.identity = Identity::may_change})
      .key("umask", c.umask,
           "Permissions that the run's new files and folders lack, as in the shell: with 077 only "
           "you may read them, with 027 your group too, with 022 everybody. user: the shell's own.",
           {.identity = Identity::may_change})
      .key("seed", c.seed, "Everything random is a function of this, the step and the position in the global batch.",
           {.min = 0})
      .key("device", c.device, "Where to compute; auto takes a GPU when there is one.",
           {.identity = Identity::may_change})
      .key("threads_per_rank", c.threads_per_rank,
           "Threads that a rank computes with. 0: its CPUs, limited by SLURM_CPUS_PER_TASK "
           "or, without it, OMP_NUM_THREADS.",
           {.min = 0, .max = 4096, .identity = Identity::may_change})
      .key("reproducible", c.reproducible,
           "Train equal weights, bit for bit, on 1, 2, 4, 8 ... ranks: gradients are summed over one fixed tree, after "
           "backward. Needs threads_per_rank, and powers of two.");
}

void describe(config::Section& section, BatchConfig& c) {
  section
      .key("global_size", c.global_size, "Images per optimizer step, over all ranks.",
           {.min = 1, .max = engine::kMaxBatch})
      .key("micro_size", c.micro_size,
           "Images per forward and backward pass on one rank. "
           "Accumulation steps follow: global_size / (micro_size × ranks).",
           {.min = 1, .max = engine::kMaxBatch, .identity = Identity::may_change});
}

/// A section of one struct.
template <typename Part>
void declare(config::Schema& schema, const char* name, const char* doc, Identity identity, Part& part) {
  config::Section section = schema.section(name, doc, identity);
  describe(section, part);
}

}  // namespace

void describe_run_and_batch(config::Schema& schema, CommonConfig& c) {
  declare(schema, "run", "The run as a whole.", Identity::fixed, c.run);
  declare(schema, "batch", "How many images (or samples, of a model of your own) make a step.", Identity::fixed,
          c.batch);
}

void describe_training(config::Schema& schema, CommonConfig& c) {
  declare(schema, "optimizer", "AdamW.", Identity::fixed, c.optimizer);
  declare(schema, "lr_schedule", "The learning rate over optimizer updates.", Identity::fixed, c.lr_schedule);
  declare(schema, "ema", "Exponential moving averages of the weights.", Identity::fixed, c.ema);
  declare(schema, "precision", "Compute dtype and loss scale.", Identity::fixed, c.precision);
  declare(schema, "parallel", "How ranks share the work.", Identity::may_change, c.parallel);
  declare(schema, "checkpoint", "When to save, and what to keep.", Identity::may_change, c.checkpoint);
  declare(schema, "fault", "When a run stops on request, and when it counts as hanging.", Identity::may_change,
          c.fault);
}

void validate(const CommonConfig& c) {
  if (c.run.directory.empty()) throw base::ConfigError("run.directory is not set: name the folder of the run");
  optim::validate(c.optimizer);
  optim::validate(c.lr_schedule, c.optimizer.learning_rate);
  optim::validate(c.ema);
  optim::validate(c.precision);
  checkpoint::validate(c.checkpoint);
  validate(c.fault);
}

}  // namespace ddpm::run
