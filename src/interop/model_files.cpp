#include "interop/model_files.h"

#include "base/input_file.h"
#include "base/json_fields.h"

namespace ddpm::interop {

base::Json read_json(const base::Path& path, uint64_t most_bytes) {
  const std::string text = base::posix_file_system()->read(path, most_bytes);
  return base::parse_json_file(text, path.string(), most_bytes);
}

}  // namespace ddpm::interop
