#include <algorithm>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/named.h"
#include "report/html.h"
#include "report/sections.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

std::string tile(std::string_view name, std::string_view value) {
  return fmt::format("<div class=\"tile\"><span>{}</span><b>{}</b></div>\n", escaped(name), escaped(value));
}

std::string tiles(const RunFigures& run) {
  const Measures& m = run.measures;
  std::string html = tile("Step", m.total ? fmt::format("{} of {}", base::grouped(m.step), base::grouped(*m.total))
                                          : base::grouped(m.step));
  if (m.loss) html += tile("Loss lately", number_text(m.loss->level.value, 4));
  if (m.validation) html += tile("Best validation loss", number_text(m.validation->best, 4));
  if (m.images_per_second) html += tile("Images per second", rate_text(*m.images_per_second));
  if (m.phase == Phase::training && m.seconds_left) html += tile("Time left", duration_text(*m.seconds_left));
  if (run.account.starts > 0) html += tile("Time used", duration_text(run.account.seconds));
  return element("div", "tiles", html);
}

std::string progress(const Measures& m) {
  if (!m.total || *m.total <= 0) return "";
  const double share = std::clamp(static_cast<double>(m.step) / static_cast<double>(*m.total), 0.0, 1.0);
  return fmt::format(
      "<div class=\"track\" role=\"img\" aria-label=\"{0:.0f} % of the steps\">"
      "<i style=\"width:{0:.1f}%\"></i></div>\n",
      100.0 * share);
}

std::string findings(const Judgement& judgement) {
  std::string html;
  for (const Finding& finding : judgement.findings) {
    html += fmt::format("<li class=\"{}\"><b>{}.</b> {}</li>\n", base::name_of(finding.tone), escaped(finding.about),
                        escaped(finding.text));
  }
  return element("ul", "findings", "\n" + html);
}

std::string phase_text(const Measures& m) {
  switch (m.phase) {
    case Phase::training:
      return "training now";
    case Phase::finished:
      return "finished";
    case Phase::interrupted:
      return "not training, not finished";
  }
  return "";
}

std::string state_of(const RunRecord& record, const RunFigures& run) {
  const Finding& counsel = run.judgement.counsel;
  std::string html =
      fmt::format("<h3>{} <span class=\"soft\">{}</span></h3>\n", escaped(record.name), phase_text(run.measures));
  html += progress(run.measures);
  html += fmt::format("<div class=\"counsel {}\"><b>{}</b>{}</div>\n", base::name_of(counsel.tone),
                      escaped(counsel.about), escaped(counsel.text));
  return element("article", "card run", html + tiles(run) + findings(run.judgement));
}

}  // namespace

std::string section(std::string_view id, std::string_view title, std::string_view content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, escaped(title), content);
}

std::string run_heading(const Figures& figures, std::size_t run) {
  return figures.records.size() == 1 ? "" : element("h3", "", escaped(figures.records[run].name));
}

std::string state_section(const Figures& figures) {
  std::string html;
  const std::size_t damaged = figures.damage().size();
  if (damaged > 0) {
    html += fmt::format(
        "<div class=\"counsel bad\"><b>{} of these runs cannot be read</b>See <a href=\"#remarks\">the "
        "remarks</a>: what is said here leaves them out.</div>\n",
        damaged == 1 ? "A part" : "Parts");
  }
  for (std::size_t i = 0; i < figures.runs.size(); ++i) html += state_of(figures.records[i], figures.runs[i]);
  return section("state", "State", html);
}

}  // namespace ddpm::report
