#include "checkpoint/config.h"

#include "base/error.h"

namespace ddpm::checkpoint {

void describe(config::Section& section, CheckpointConfig& c) {
  section.key("every_steps", c.every_steps, "Optimizer steps between checkpoints; one is always written at the end.",
              {.min = 1});
  section.key(
      "keep_latest", c.keep_latest,
      "How many of the newest checkpoints stay; two stay in any case, so that one that is damaged has a predecessor.",
      {.min = 1});
  section.key("keep_every", c.keep_every, "Checkpoints of steps that this number divides stay for ever (0: none).",
              {.min = 0});
  section.key("async", c.async,
              "Write while training continues, from a copy of the state in host memory; otherwise training waits.");
  section.key("resume", c.resume,
              "\"auto\": continue from the newest valid checkpoint if there is one; \"never\": refuse "
              "a folder that has one; any other value: the checkpoint folder to continue from. Repeating the path "
              "continues from the newest checkpoint that the run has written since, and says so.");
}

void validate(const CheckpointConfig& c) {
  if (!c.resume.empty()) return;
  throw base::ConfigError("checkpoint.resume = \"\"; wanted: \"auto\", \"never\" or a checkpoint folder");
}

}  // namespace ddpm::checkpoint
