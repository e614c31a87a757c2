#include "generate/glyphs.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/named.h"
#include "base/pulse.h"
#include "base/sha256.h"
#include "generate/character_ranges.h"
#include "generate/draws.h"

namespace ddpm::generate {

Glyphs::Glyphs(const base::FileSystem& files, const base::Path& folder, int64_t height, int64_t width,
               GlyphClass classes, std::string characters, uint64_t seed)
    : height_(checked_grid({height, width}, kGrid).front()),
      width_(width),
      classes_(classes),
      characters_(std::move(characters)),
      seed_(seed),
      fonts_(files, folder, height, width) {
  find_distinct();
  if (distinct_.empty()) {
    throw base::ConfigError("--size {}x{}: no glyph{} has ink and fits", height, width,
                            characters_.empty() ? "" : fmt::format(" of the characters \"{}\"", characters_));
  }
  order_.emplace(seed, kOrderStream, 0, 0, distinct_.size());
}

void Glyphs::find_distinct() {
  std::vector<std::byte> picture(static_cast<std::size_t>(height_ * width_));
  std::unordered_set<std::string> seen;
  const std::vector<uint32_t> wanted = characters_.empty() ? std::vector<uint32_t>{} : code_points_of(characters_);
  for (const Glyph& glyph : fonts_.glyphs()) {
    base::pulse();
    if (!wanted.empty() && !std::ranges::binary_search(wanted, glyph.code)) continue;
    if (!fonts_.draw(glyph, picture)) {
      ++unfit_;
      continue;
    }
    base::Sha256 digest;
    digest.update(picture);
    if (!seen.insert(digest.hex()).second) {
      ++repeated_;
      continue;
    }
    distinct_.push_back(glyph);
    if (codes_.empty() || codes_.back() != glyph.code) codes_.push_back(glyph.code);
  }
}

const Glyph& Glyphs::glyph(int64_t sample) const { return distinct_[(*order_)(static_cast<uint64_t>(sample))]; }

data::Field Glyphs::image_field() const {
  return make_image_field({height_, width_}, base::DType::u8,
                          {{.name = "ink", .unit = "", .transform = data::Normalization::of(base::DType::u8)}});
}

base::OrderedJson Glyphs::description() const {
  base::OrderedJson json = {
      {"kind", "glyphs"},        {"sides", {height_, width_}},      {"class", base::name_of(classes_)},
      {"fonts", fonts_.names()}, {"fonts_sha256", fonts_.digest()}, {"distinct_glyphs", available()}};
  if (!characters_.empty()) json["characters"] = characters_;
  return json;
}

std::vector<std::string> Glyphs::class_names() const {
  if (classes_ == GlyphClass::none) return {};
  if (classes_ == GlyphClass::font) return fonts_.names();
  std::vector<std::string> names;
  for (const uint32_t code : codes_) names.push_back(fmt::format("U+{:04X}", code));
  return names;
}

int64_t Glyphs::label(int64_t sample) const {
  const Glyph& shown = glyph(sample);
  if (classes_ == GlyphClass::font) return shown.font;
  return std::ranges::lower_bound(codes_, shown.code) - codes_.begin();
}

void Glyphs::make(int64_t sample, std::span<std::byte> image) { fonts_.draw(glyph(sample), image); }

}  // namespace ddpm::generate
