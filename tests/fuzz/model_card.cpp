// interop::model_card_text of texts that an author, a data set or a machine may have: none of them ends the metadata, a
// heading or a row early.
#include <array>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/json.h"
#include "diffusion/config.h"
#include "fuzz/fuzz.h"
#include "interop/card_text.h"
#include "nn/config.h"

namespace {

using ddpm::fuzz::require;

/// The input cut at bytes 0x1f; what is beyond the last piece is empty.
std::array<std::string, 12> pieces_of(std::string_view text) {
  std::array<std::string, 12> pieces;
  std::size_t at = 0;
  for (const char c : text) {
    if (c == '\x1f') {
      if (++at == pieces.size()) break;
    } else {
      pieces[at] += c;
    }
  }
  return pieces;
}

/// A line of the metadata: a key, or an element of a list, with nothing, a plain word, a number or a text in quotes.
void check_metadata(const std::string& line) {
  for (const char c : line)
    require(static_cast<unsigned char>(c) >= ' ', "a line of metadata has no control characters");
  const std::size_t begin = line.find_first_not_of(" -");
  require(begin != std::string::npos, "a line of metadata says something");
  const std::size_t quote = line.find('"');
  if (quote == std::string::npos) return;
  require(ddpm::base::Json::accept(line.substr(quote)), "what is in quotes is one text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddpm;
  const auto text = pieces_of(fuzz::text_of(data, size));
  double loss = 0.0;
  std::memcpy(&loss, text[11].data(), std::min(sizeof(loss), text[11].size()));
  interop::ModelCard card{.title = text[0],
                          .dataset = text[1],
                          .earlier_datasets = text[2],
                          .weights = text[3],
                          .hardware = text[4],
                          .versions = text[5],
                          .program_version = "1",
                          .class_names = {text[6]}};
  card.stated = {
      .title = "", .license = text[7], .authors = {text[8]}, .tags = {text[9], text[10]}, .dataset_license = text[8]};
  card.statistics = {{text[6], loss, 0.0, -loss, loss}};
  card.validation = interop::CardValidation{loss, text[10]};
  const nn::UNet2DConfig unet;
  const base::Json normalization = base::Json::object();
  const interop::WrittenModel model{.unet = unet,
                                    .scheduler = diffusion::SchedulerConfig(),
                                    .weights = {},
                                    .normalization = normalization,
                                    .card = card};
  std::istringstream lines(interop::model_card_text(model));
  std::string line;
  require(std::getline(lines, line) && line == "---", "the card begins with its metadata");
  while (std::getline(lines, line) && line != "---") check_metadata(line);
  int titles = 0;
  int headings = 0;
  bool code = false;
  while (std::getline(lines, line)) {
    if (line.starts_with("```")) code = !code;
    require(line != "---", "the metadata ends once");
    titles += !code && line.starts_with("# ") ? 1 : 0;
    headings += !code && line.starts_with("## ") ? 1 : 0;
  }
  require(titles == 1 && headings == 3 && !code, "the headings are the card's own");
  return 0;
}
