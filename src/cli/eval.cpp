#include "cli/eval.h"

#include "cli/eval_fields.h"
#include "cli/eval_loss.h"
#include "cli/eval_samples.h"

namespace ddpm::cli {

void add_eval_command(const Subcommand& program, Command& command) {
  const Subcommand eval = program.add_subcommand("eval", "What a model is worth: numbers with intervals, and verdicts");
  eval.require_subcommand();
  eval.footer("All ranks share the work; the numbers are the same, to the last bit, on any number of ranks.");
  declare_eval_fields(eval, command);
  declare_eval_samples(eval, command);
  declare_eval_loss(eval, command);
}

}  // namespace ddpm::cli
