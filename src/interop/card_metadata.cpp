#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "base/lower_case.h"
#include "diffusion/config.h"
#include "interop/card_parts.h"
#include "nn/config.h"

namespace ddpm::interop {
namespace {

/// The identifiers, between spaces, that the hub takes as `license` (its documentation, hub/repositories-licenses). Any
/// other licence is "other" with a `license_name`.
constexpr std::string_view kHubLicenses =
    " afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m"
    " bigscience-bloom-rail-1.0 bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0"
    " c-uda cc cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0"
    " cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0"
    " cc0-1.0 cdla-permissive-1.0 cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m"
    " deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2"
    " fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 h-research intel-research isc lgpl"
    " lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 lppl-1.3c mit mpl-2.0 ms-pl"
    " ncsa odbl odc-by ofl-1.1 openmdw-1.0 openrail openrail++ osl-3.0 other pddl postgresql unknown unlicense"
    " wtfpl zlib ";

/// A name such as the hub takes for data sets and licences: letters, digits, dots and dashes, in lower case.
std::string slug(const std::string& text) {
  std::string result;
  for (const char c : base::lower_case(text)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (plain) {
      result += c;
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result.empty() ? "unnamed" : result;
}

/// A text of YAML: JSON's form, in double quotes, is one of YAML's.
std::string quoted(const std::string& text) {
  return base::Json(one_line(text)).dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

/// A number that YAML 1.1 does not take for a text: with a point, also before an exponent.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string license_lines(const CardConfig& stated) {
  const std::string id = stated.license.empty() ? "unknown" : base::lower_case(stated.license);
  const bool known = kHubLicenses.find(" " + id + " ") != std::string_view::npos;
  if (known && id.find(' ') == std::string::npos) return fmt::format("license: {}\n", id);
  return fmt::format("license: other\nlicense_name: {}\n", quoted(slug(id)));
}

std::string tag_lines(std::vector<std::string> tags, const std::vector<std::string>& stated) {
  for (const std::string& tag : stated) {
    if (!tag.empty() && std::ranges::find(tags, tag) == tags.end()) tags.push_back(tag);
  }
  std::string text = "tags:\n";
  for (const std::string& tag : tags) text += fmt::format("- {}\n", quoted(tag));
  return text;
}

std::string base_lines(const CardConfig& stated, std::string_view relation) {
  if (stated.base_model.empty()) return "";
  return fmt::format("base_model: {}\nbase_model_relation: {}\n", quoted(stated.base_model), relation);
}

/// The hub's `model-index`, by which it shows results: of a data set, which needs a name there.
std::string result_lines(const ModelCard& card, std::string_view task) {
  if (!card.validation || !std::isfinite(card.validation->loss)) return "";
  const std::string& set = card.validation->dataset;
  return fmt::format(
      "model-index:\n- name: {}\n  results:\n  - task:\n      type: {}\n    dataset:\n      name: {}\n      type: {}\n"
      "    metrics:\n    - type: loss\n      name: {}\n      value: {}\n",
      quoted(title_of(card)), task.empty() ? "other" : task, quoted(set), quoted(slug(set)), quoted("validation loss"),
      number_text(card.validation->loss));
}

}  // namespace

std::string_view task_of(const nn::UNet2DConfig& unet) {
  if (unet.dimensions != 2) return "";
  return unet.in_channels == unet.out_channels ? "unconditional-image-generation" : "image-to-image";
}

/// `datasets` is left out: the hub takes it for the names of data sets there, and ours are files.
std::string card_metadata(const ModelCard& card, const CardMetadata& metadata) {
  const auto& [library, task, tags, relation] = metadata;
  return fmt::format("---\nlibrary_name: {}\n{}{}{}{}{}---\n\n", library,
                     task.empty() ? "" : fmt::format("pipeline_tag: {}\n", task), license_lines(card.stated),
                     base_lines(card.stated, relation), tag_lines(tags, card.stated.tags), result_lines(card, task));
}

}  // namespace ddpm::interop
