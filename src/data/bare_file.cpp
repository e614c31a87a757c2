#include "data/bare_file.h"

#include <algorithm>

namespace ddpm::data {

std::unique_ptr<Rows>& BareFile::rows_of(const Field& field) {
  return rows.at(
      static_cast<std::size_t>(std::ranges::find(info.fields, field.path, &Field::path) - info.fields.begin()));
}

}  // namespace ddpm::data
