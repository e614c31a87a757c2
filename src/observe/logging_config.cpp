#include "observe/logging_config.h"

namespace ddpm::observe {

void declare_logging(config::Schema& schema, LoggingConfig& c) {
  config::Section section = schema.section("logging", "What is written while training.", config::Identity::may_change);
  section.key("every_steps", c.every_steps,
              "Log the metrics of every n-th optimizer step (and of the first, the last and validated ones)",
              {.min = 1});
  section.key("tensorboard", c.tensorboard, "Also write RUN/events for TensorBoard");
  section.key("csv", c.csv, "Also write RUN/metrics.csv: the rows of metrics.jsonl");
  section.key("norms", c.norms, "Also log the norms of gradient and weights of each block of the model");
  section.key("rank_files", c.rank_files,
              "Also write a file of messages and times of each rank, RUN/logs/rank-0000.log");
  section.key(
      "progress", c.progress,
      "Progress on stderr: a bar, plain lines, nothing, or auto: a bar when stderr is a terminal, lines otherwise");
}

}  // namespace ddpm::observe
