#include "generate/glyph_fonts.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <ft2build.h>
#include FT_FREETYPE_H

#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/sha256.h"

namespace ddpm::generate {
namespace {

/// Where systems keep the DejaVu fonts: Debian, Fedora, Arch, and folders that hold all fonts.
constexpr auto kFolders = std::to_array<const char*>(
    {"/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/dejavu", "/usr/share/fonts/TTF", "/usr/share/fonts"});
constexpr uint64_t kMostBytes = 64U << 20U;  // largest size of a font file
constexpr std::size_t kMostFonts = 1000;

bool is_font(const std::string& name) { return name.starts_with("DejaVu") && name.ends_with(".ttf"); }

/// The fonts' paths at any depth of `folder`, in the order of their names. Links to folders are not followed.
void find_fonts(const base::Path& folder, std::vector<base::Path>& found) {
  for (const base::FolderEntry& entry : base::folder_entries(folder)) {
    const base::Path path = folder / entry.name;
    if (entry.kind == base::FileKind::folder) {
      find_fonts(path, found);
    } else if (is_font(entry.name) && base::kind_of(path) == base::FileKind::regular && found.size() < kMostFonts) {
      found.push_back(path);
    }
  }
}

std::vector<base::Path> fonts_of(const base::Path& folder) {
  std::vector<base::Path> paths;
  if (!folder.empty()) {
    if (base::kind_of(folder) == base::FileKind::folder) find_fonts(folder, paths);
    if (!paths.empty()) return paths;
    throw base::ConfigError("--fonts {}: wanted a folder with files DejaVu*.ttf", folder.string());
  }
  for (const char* known : kFolders) {
    if (base::kind_of(known) == base::FileKind::folder) find_fonts(known, paths);
    if (!paths.empty()) return paths;
  }
  throw base::ConfigError(
      "--fonts: no files DejaVu*.ttf were found under /usr/share/fonts; wanted a folder that has them (Debian has "
      "them in the package fonts-dejavu)");
}

void require(FT_Error error, const std::string& what) {
  if (error != 0) throw base::DatasetError("{}: FreeType cannot read this font (error {})", what, error);
}

}  // namespace

struct GlyphFonts::Library {
  FT_Library handle = nullptr;
  std::vector<std::string> bytes;  // which the faces read from
  std::vector<FT_Face> faces;

  Library() { require(FT_Init_FreeType(&handle), "FreeType"); }
  ~Library() {
    for (const FT_Face face : faces) FT_Done_Face(face);
    FT_Done_FreeType(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

GlyphFonts::GlyphFonts(const base::FileSystem& files, const base::Path& folder, int64_t height, int64_t width)
    : height_(height), width_(width), library_(std::make_unique<Library>()) {
  std::vector<base::Path> paths;
  try {
    paths = fonts_of(folder);
    std::ranges::sort(paths, {}, [](const base::Path& path) { return std::pair(path.filename(), path); });
    library_->bytes.reserve(paths.size());
    for (const base::Path& path : paths) open(files, path);
  } catch (const base::OutputError& error) {
    throw base::DatasetError("{}", error.what());
  }
  base::Sha256 all;
  all.update(fmt::format("FreeType {}.{}.{}\n", FREETYPE_MAJOR, FREETYPE_MINOR, FREETYPE_PATCH));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    all.update(fmt::format("{} {}\n", paths[i].filename().string(), library_->bytes[i].size()));
    all.update(library_->bytes[i]);
  }
  digest_ = all.hex();
}

GlyphFonts::~GlyphFonts() = default;

void GlyphFonts::open(const base::FileSystem& files, const base::Path& path) {
  const std::string& bytes = library_->bytes.emplace_back(files.read(path, kMostBytes));
  FT_Face face = nullptr;
  require(FT_New_Memory_Face(library_->handle, reinterpret_cast<const FT_Byte*>(bytes.data()),
                             static_cast<FT_Long>(bytes.size()), 0, &face),
          path.string());
  library_->faces.push_back(face);
  require(FT_Select_Charmap(face, FT_ENCODING_UNICODE), path.string());
  require(FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(std::min(height_, width_) * 3 / 4)), path.string());
  names_.push_back(fmt::format("{} {}", face->family_name != nullptr ? face->family_name : "?",
                               face->style_name != nullptr ? face->style_name : "?"));
}

std::vector<Glyph> GlyphFonts::glyphs() const {
  std::vector<Glyph> all;
  for (std::size_t font = 0; font < library_->faces.size(); ++font) {
    FT_UInt index = 0;
    FT_ULong code = FT_Get_First_Char(library_->faces[font], &index);
    for (; index != 0; code = FT_Get_Next_Char(library_->faces[font], code, &index)) {
      all.push_back({static_cast<uint32_t>(code), static_cast<uint16_t>(font), index});
    }
  }
  std::ranges::sort(all);
  return all;
}

bool GlyphFonts::draw(const Glyph& glyph, std::span<std::byte> picture) {
  const FT_Face face = library_->faces[glyph.font];
  if (FT_Load_Glyph(face, glyph.index, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) != 0) return false;
  if (FT_Render_Glyph(face->glyph, FT_RENDER_MODE_NORMAL) != 0) return false;
  const FT_Bitmap& bitmap = face->glyph->bitmap;
  const int64_t advance = (face->glyph->advance.x + 32) >> 6;
  const int64_t baseline = (height_ + (face->size->metrics.ascender >> 6) + (face->size->metrics.descender >> 6)) / 2;
  const int64_t left = ((width_ - advance) >> 1) + face->glyph->bitmap_left;  // rounds down, also of wide glyphs
  const int64_t top = baseline - face->glyph->bitmap_top;
  const int64_t rows = bitmap.rows;
  const int64_t columns = bitmap.width;
  if (left < 0 || top < 0 || left + columns > width_ || top + rows > height_) return false;
  std::ranges::fill(picture, std::byte{0});
  uint8_t most = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const unsigned char* const from = bitmap.buffer + row * bitmap.pitch;
    std::memcpy(&picture[static_cast<std::size_t>((top + row) * width_ + left)], from, bitmap.width);
    for (int64_t column = 0; column < columns; ++column) most = std::max(most, from[column]);
  }
  return most > 0;
}

}  // namespace ddpm::generate
