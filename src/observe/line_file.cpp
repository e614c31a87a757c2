#include "observe/line_file.h"

#include <utility>

namespace ddpm::observe {

LineFile::LineFile(base::FileSystem& files, base::Path path) : files_(files), path_(std::move(path)) {}

void LineFile::append_line(std::string_view line) {
  if (!file_) {
    file_ = files_.open_append(path_);
    identity_ = base::identity_of(path_);
    // The name has to survive a crash as well as the lines.
    files_.sync_directory(path_.parent_path());
  }
  // One write per line: a reader that follows the file sees whole lines.
  file_->write(std::string(line) + "\n");
}

void LineFile::sync() {
  if (file_) file_->sync();
}

bool LineFile::displaced() const { return file_ && identity_ && base::is_displaced(path_, *identity_); }

}  // namespace ddpm::observe
