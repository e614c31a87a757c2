// Glyphs of TrueType and OpenType files, drawn by FreeType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace ddpm::generate {

/// A code point of a font, and the font's glyph for it.
struct Glyph {
  uint32_t code = 0;
  uint16_t font = 0;  ///< in the order of the files' names
  uint32_t index = 0;
  friend auto operator<=>(const Glyph&, const Glyph&) = default;
};

/// The fonts of a folder, at one size. For one thread at a time.
class GlyphFonts {
 public:
  /// Opens the files DejaVu*.ttf at any depth of `folder`, or for "" those of the first folder in which systems keep
  /// them. Throws ConfigError when there is none, and DatasetError for one that cannot be read. `height` and `width` of
  /// the pictures; the fonts' em is three quarters of the shorter side.
  GlyphFonts(const base::FileSystem& files, const base::Path& folder, int64_t height, int64_t width);
  ~GlyphFonts();
  GlyphFonts(const GlyphFonts&) = delete;
  GlyphFonts& operator=(const GlyphFonts&) = delete;

  /// All glyphs that code points have, in the order of code points, then of fonts.
  [[nodiscard]] std::vector<Glyph> glyphs() const;
  /// "DejaVu Sans Bold" and so on, in the order of Glyph::font.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// SHA-256 of the names and bytes of all files, and of FreeType's version.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  /// FreeType's picture, 0 where there is no ink and 255 where there is nothing else: without hinting; the advance is
  /// centred between left and right, ascender and descender between top and bottom, both on whole pixels. Returns false
  /// for a glyph without ink and for one that does not fit.
  bool draw(const Glyph& glyph, std::span<std::byte> picture);

 private:
  struct Library;

  void open(const base::FileSystem& files, const base::Path& path);

  int64_t height_, width_;
  std::unique_ptr<Library> library_;
  std::vector<std::string> names_;
  std::string digest_;
};

}  // namespace ddpm::generate
