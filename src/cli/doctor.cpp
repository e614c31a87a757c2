#include "cli/doctor.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/named.h"
#include "base/standard_streams.h"
#include "base/terminal.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "comm/collectives.h"
#include "comm/launch.h"
#include "doctor/doctor.h"
#include "doctor/report.h"
#include "observe/progress_bar.h"

namespace ddpm::cli {
namespace {

struct DoctorArguments {
  std::string output = ".";
  bool json = false;
  double timeout_s = 60.0;
  int64_t max_mib = 64;
  int64_t file_mib = 16;
};

/// Uses colours on a terminal unless the user has switched them off (no-color.org). Behind a launcher it is unknown
/// whether there is a terminal: mpirun gives rank 0 one of its own, wherever the output goes.
bool in_colour() {
  if (comm::launched_rank(comm::process_environment())) return false;
  const char* none = std::getenv("NO_COLOR");
  return base::stdout_is_terminal() && (none == nullptr || *none == '\0');
}

std::string report_of(const doctor::Diagnosis& diagnosis, bool json) {
  if (json) return dump(doctor::json_of(diagnosis.survey, diagnosis.findings));
  if (diagnosis.survey.ranks.empty()) return doctor::findings_text(diagnosis.findings, in_colour());
  return doctor::text_of(diagnosis.survey, diagnosis.findings, in_colour());
}

/// "2 problems, 1 warning: run folder: ..."
std::string reason(const std::vector<doctor::Finding>& findings) {
  const auto problem = std::ranges::find(findings, doctor::Severity::problem, &doctor::Finding::severity);
  if (problem == findings.end()) return "";
  return fmt::format("doctor: {}: {}: {}", doctor::summary(findings), base::name_of(problem->area), problem->seen);
}

doctor::Diagnosis examine(const Context& context, const DoctorArguments& arguments) {
  const doctor::DoctorOptions options{.folder = arguments.output,
                                      .timeout_s = arguments.timeout_s,
                                      .reduction_bytes = arguments.max_mib << 20U,
                                      .file_bytes = arguments.file_mib << 20U};
  // The examination takes seconds, so without a terminal no progress is shown.
  const bool terminal = base::stderr_is_terminal();
  observe::ProgressBar bar(
      observe::progress_style(terminal ? observe::ProgressChoice::bar : observe::ProgressChoice::off,
                              context.log.speaks(), terminal),
      {.label = "doctor", .unit = "part", .total = doctor::kParts, .images_per_unit = 0});
  return doctor::examine(context, options, [&bar](int64_t done) { bar.update(done); });
}

void run_doctor(const DoctorArguments& arguments, Context& context) {
  const doctor::Diagnosis diagnosis = examine(context, arguments);
  print(context, context.session.rank() == 0 ? report_of(diagnosis, arguments.json) : "");
  if (diagnosis.code == base::ExitCode::done) return;
  throw comm::AgreedError(diagnosis.code, reason(diagnosis.findings), 0, context.session.rank() == 0);
}

}  // namespace

void add_doctor_command(const Subcommand& program, Command& command) {
  const Subcommand one =
      program.add_subcommand("doctor", "Preflight on the allocated nodes: ranks, binding, links, file system");
  const auto arguments = std::make_shared<DoctorArguments>();
  one.add("--output", &arguments->output, "The run folder whose file system is tested; it need not exist")
      .show_default();
  add_json_flag(one, arguments->json);
  one.add("--timeout", &arguments->timeout_s, "Seconds that a part may take before the late host is named")
      .accept(NumberRange{1.0, 86400.0})
      .show_default();
  one.add("--max-mib", &arguments->max_mib, "The largest all-reduce, in MiB")
      .accept(IntegerRange{1, 4096})
      .show_default();
  one.add("--file-mib", &arguments->file_mib, "What one rank of each host writes to the run folder, in MiB")
      .accept(IntegerRange{1, 1024})
      .show_default();
  one.footer(
      "Start it as the job will be: srun --mpi=pmix ddpm doctor --output runs/x. Leaves nothing behind. Exit code 0\n"
      "without a problem, 4 when the run folder has one, 5 when anything else has, or a rank hangs. "
      "See docs/doctor.md.");
  one.on_chosen([arguments, &command] {
    command = {.run = [arguments](Context& context) { run_doctor(*arguments, context); },
               .shares_work = true,
               .start = {.timeout_s = 3.0 * arguments->timeout_s + 5.0, .reach_timeout_s = arguments->timeout_s}};
  });
}

}  // namespace ddpm::cli
