// A text file that names pictures, one a line, as the source of a dataset.
#pragma once

#include <string>

#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {

/// Whether a SOURCE of this name is such a list: it ends in .txt, .tsv or .lst.
bool is_list_name(const base::Path& path);

/// Reads `PATH` or `PATH<tab>LABEL` from each line that is not empty; a path that is not absolute begins in the list's
/// folder. Either all lines have a label or none. Labels that are all whole numbers are the classes themselves; others
/// are names, whose classes count in bytewise order. Without `with_labels` labels are not looked at.
///
/// The pictures are not looked at. Throws DatasetError, which names the line, for a list that is not so, and for one
/// that names none.
PictureFiles read_list(const base::FileSystem& files, const base::Path& path, bool with_labels);

/// A list as text and back, so that one rank can read it and all know.
std::string pack(const PictureFiles& list);
PictureFiles unpack_list(const std::string& text);

}  // namespace ddpm::data::prepare
