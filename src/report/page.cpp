#include "report/page.h"

#include <array>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/version.h"
#include "report/assets.h"
#include "report/html.h"
#include "report/sections.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

constexpr std::string_view kBeginning = "<!DOCTYPE html>\n<!-- ddpm report 1 -->\n";

/// The browser itself is told to load nothing.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'";

std::string title_of(const Figures& figures) {
  return figures.records.size() == 1 ? "Training report: " + figures.records.front().name
                                     : "Training report: " + base::counted(figures.records.size(), "run");
}

struct PagePart {
  std::string html;
  const char* id;
  const char* name;
};

std::string head(const Figures& figures) {
  return fmt::format(
      "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n"
      "<style>\n{}\n{}</style>\n</head>\n",
      kPolicy, escaped(title_of(figures)), uplot_css(), page_css());
}

/// The curves' numbers, the library that draws them with its licence, and what asks it to.
std::string scripts(const Figures& figures) {
  const std::string curves = to_json(figures.charts).dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
  return fmt::format(
      "<script type=\"application/json\" id=\"curves\">{}</script>\n<script>\n/*!\nuPlot\n{}*/\n{}\n</script>\n"
      "<script>\n{}</script>\n",
      script_safe(curves), uplot_license(), uplot_js(), page_js());
}

}  // namespace

std::string to_page(const Figures& figures) {
  const std::array parts = {PagePart{state_section(figures), "state", "State"},
                            PagePart{curves_section(figures), "curves-of-runs", "Curves"},
                            PagePart{pictures_section(figures), "pictures", "Pictures"},
                            PagePart{evaluation_section(figures), "evaluation", "Evaluation"},
                            PagePart{configuration_section(figures), "configuration", "Configuration"},
                            PagePart{checkpoints_section(figures), "checkpoints", "Checkpoints"},
                            PagePart{use_section(figures), "use", "Use of the machine"},
                            PagePart{proposal_section(figures), "proposal", "For a proposal"},
                            PagePart{remarks_section(figures), "remarks", "Remarks"}};
  std::string links;
  std::string body;
  for (const PagePart& part : parts) {
    if (part.html.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>\n", part.id, part.name);
    body += part.html;
  }
  std::string page(kBeginning);
  page += head(figures);
  page += fmt::format(
      "<body>\n<header>\n<h1>{}</h1>\n<p class=\"soft\">As of {}, by ddpm {}.</p>\n<nav>\n{}</nav>\n</header>\n",
      escaped(title_of(figures)), time_text(figures.now), base::kVersion, links);
  page += element("main", "", "\n" + body);
  page += scripts(figures);
  return page + "</body>\n</html>\n";
}

bool is_page(std::string_view text) { return text.starts_with(kBeginning); }

}  // namespace ddpm::report
