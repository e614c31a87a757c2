#include "base/file_identity.h"

#include "base/file_error.h"

namespace ddpm::base {

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
  const FileFacts facts = look_at(path);
  if (facts.kind == FileKind::absent) return std::nullopt;
  return facts.identity;
}

bool is_displaced(const std::filesystem::path& path, const FileIdentity& known) {
  try {
    return identity_of(path) != known;
  } catch (const AccessError&) {
    return false;
  }
}

}  // namespace ddpm::base
