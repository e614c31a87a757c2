// A disk that does not remove some folders, as where a process of another host has one of their files open.
#pragma once

#include "base/error.h"
#include "support/forwarding_files.h"

namespace ddpm::test {

/// A folder with a file of this name cannot be removed.
inline constexpr const char* kStuck = "stuck";

class StickyFiles : public ForwardingFiles {
 public:
  void remove_all(const base::Path& path) override {
    if (sticks_ && exists(path / kStuck)) throw base::OutputError("{}: cannot remove: it sticks", path.string());
    ForwardingFiles::remove_all(path);
  }
  /// From now on everything can be removed.
  void let_go() { sticks_ = false; }

 private:
  bool sticks_ = true;
};

}  // namespace ddpm::test
