// All distinct glyphs of the DejaVu fonts: real pictures, many thousands of them, without a download.
//
// A picture that several code points or fonts share counts once, for the least code point, then the first font. So no
// two pictures of a set are equal. Classes are code points ("U+0041") or fonts ("DejaVu Sans Bold"), numbered in that
// order over all distinct glyphs.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/random.h"
#include "generate/generator.h"
#include "generate/glyph_fonts.h"
#include "generate/limits.h"

namespace ddpm::generate {

enum class GlyphClass : uint8_t { code_point, font, none };
constexpr auto names_of(GlyphClass /*type*/) { return std::to_array<std::string_view>({"code-point", "font", "none"}); }

class Glyphs final : public Generator {
 public:
  static constexpr GridLimits kGrid = {.least = 8, .most = 512, .most_axes = 2, .channels = 1};

  /// See GlyphFonts for the fonts, and code_points_of() for the characters, "" for all. The seed decides about the
  /// order of the glyphs. Throws ConfigError for a grid outside kGrid, and where no glyph fits.
  Glyphs(const base::FileSystem& files, const base::Path& folder, int64_t height, int64_t width, GlyphClass classes,
         std::string characters, uint64_t seed);

  [[nodiscard]] int64_t available() const { return std::ssize(distinct_); }
  /// Glyphs of the characters without ink or larger than the pictures, and those that look like an earlier one.
  [[nodiscard]] int64_t unfit() const { return unfit_; }
  [[nodiscard]] int64_t repeated() const { return repeated_; }

  [[nodiscard]] data::Field image_field() const override;
  [[nodiscard]] base::OrderedJson description() const override;
  [[nodiscard]] std::vector<std::string> class_names() const override;
  [[nodiscard]] int64_t label(int64_t sample) const override;
  void make(int64_t sample, std::span<std::byte> image) override;

 private:
  void find_distinct();
  [[nodiscard]] const Glyph& glyph(int64_t sample) const;

  int64_t height_, width_;
  GlyphClass classes_;
  std::string characters_;
  uint64_t seed_;
  GlyphFonts fonts_;
  std::vector<Glyph> distinct_;
  std::vector<uint32_t> codes_;  // the character codes in `distinct_`, each once and in rising order
  std::optional<base::Permutation> order_;
  int64_t unfit_ = 0;
  int64_t repeated_ = 0;
};

}  // namespace ddpm::generate
