#include "cli/report.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "report/figures.h"
#include "report/page.h"

namespace ddpm::cli {
namespace {

struct ReportArguments {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path output;
  report::ProposalOptions proposal;
  report::PictureLimits pictures;
  bool json = false;
};

/// Throws OutputError for a file that another program, or a person, has written.
void expect_replaceable(const base::FileSystem& files, const base::Path& output) {
  const base::Path folder = base::parent_of(base::plain_path(output));
  if (!files.exists(folder)) {
    throw base::OutputError("--output {}: the folder {} does not exist", output.string(), folder.string());
  }
  const base::FileKind kind = base::kind_of(output);
  if (kind == base::FileKind::absent) return;
  std::string head(report::kPageHeadBytes, '\0');
  if (kind == base::FileKind::regular) {
    const base::InputFile file(output);
    head.resize(file.read_up_to(0, std::as_writable_bytes(std::span(head))));
    if (report::is_page(head)) return;
  }
  throw base::OutputError(
      "--output {}: is there already, and is not a report; wanted: a new name, or an earlier report's",
      output.string());
}

report::Figures read_figures(const ReportArguments& options, const Context& context) {
  std::vector<report::RunRecord> records;
  std::vector<base::Path> seen;
  for (const base::Path& run : options.runs) {
    const base::Path whole = base::plain_path(std::filesystem::absolute(run));
    if (std::ranges::find(seen, whole) != seen.end()) continue;  // named twice, as a pattern and a name do
    seen.push_back(whole);
    records.push_back(report::read_run(context.files, run, options.pictures));
  }
  return report::figures_of(std::move(records), options.proposal, base::unix_seconds());
}

/// A line for each run: whether to stop it.
std::string text_of(const report::Figures& figures) {
  std::string text;
  for (std::size_t i = 0; i < figures.runs.size(); ++i) {
    const report::Finding& counsel = figures.runs[i].judgement.counsel;
    text += fmt::format("{}: {}. {}\n", figures.records[i].name, counsel.about, counsel.text);
  }
  return text;
}

/// Throws OutputError where a part of a run could not be read. The page is written then, without that part.
void expect_whole(const report::Figures& figures) {
  constexpr std::size_t kMostNamed = 3;
  const std::vector<std::string> damage = figures.damage();
  if (damage.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostNamed, damage.size()); ++i) text += (i == 0 ? "" : "; ") + damage[i];
  if (damage.size() > kMostNamed)
    text += fmt::format("; and {} more, which the page names", damage.size() - kMostNamed);
  throw base::OutputError("{}; the report leaves this out", text);
}

void run_report(const ReportArguments& options, Context& context) {
  comm::Communicator& world = context.session.world();
  report::Figures figures;
  comm::do_on_root(world, [&] {
    if (!options.output.empty()) expect_replaceable(context.files, options.output);
    figures = read_figures(options, context);
    if (options.output.empty()) return;
    const std::string page = report::to_page(figures);
    base::write_atomically(context.files, options.output, page);
    context.log.info("{}: {} of {}", options.output.string(), base::counted(page.size(), "byte"),
                     base::counted(figures.runs.size(), "run"));
  });
  print(context, options.json ? dump(report::to_json(figures)) : text_of(figures));
  comm::do_on_root(world, [&] { expect_whole(figures); });
}

}  // namespace

void add_report_command(const Subcommand& program, Command& command) {
  constexpr int64_t kMostPictures = 1'000;
  auto options = std::make_shared<ReportArguments>();
  const Subcommand report = program.add_subcommand("report", "One page about runs, also while they train");
  report.add("RUN", &options->runs, "Folders of runs").required();
  const Option output = report.add("--output", &options->output, "The page, an HTML file that needs no network");
  report.add_flag("--json", options->json,
                  "Print the page's figures as one JSON object; without --output there is no page");
  const Option carbon =
      report.add("--carbon", &options->proposal.grams_per_kwh, "Grams of CO2 per kWh of the site's electricity");
  carbon.accept(NumberRange{0.0, 1e5});
  const Option images =
      report.add("--images", &options->proposal.images,
                 "Images of the training that a proposal for computing time is for; the run's own if not given");
  images.accept(IntegerRange{1, int64_t{1} << 50});
  report.add("--pictures", &options->pictures.count, "Pictures of samples of each run, at most")
      .accept(IntegerRange{0, kMostPictures})
      .show_default();
  report.footer(
      "Without --json, stdout has a line for each run: whether to stop it. docs/report.md says how it is judged.");
  report.on_chosen([options, output, &command] {
    if (!options->json) output.expect_given();
    command.run = [options](Context& context) { run_report(*options, context); };
  });
}

}  // namespace ddpm::cli
