#include "base/sole_writer.h"

#include "base/error.h"

namespace ddpm::base {

SoleWriter::SoleWriter(FileSystem& files, const Path& target)
    : lock_(files, target.parent_path() / fmt::format(".{}.lock", target.filename().string()), Hold::alone) {
  if (!lock_.held()) {
    throw OutputError("{}: another process is writing it, and holds {}; wait for its end, or name another place",
                      target.string(), lock_.place().filename().string());
  }
  unfinished_.emplace(files, lock_.place());
}

}  // namespace ddpm::base
