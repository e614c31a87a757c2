// Which file system a folder lies on.
#pragma once

#include <string>
#include <string_view>

#include "base/file_system.h"

namespace ddpm::doctor {

struct Mount {
  std::string point;    ///< "/scratch"
  std::string type;     ///< "lustre", "nfs4", "ext4" ...; "" where it is not known
  std::string source;   ///< "server:/export"
  std::string options;  ///< "rw,relatime"
};

/// The mount that holds the absolute `path`, among those of `mountinfo`, the text of /proc/self/mountinfo (see
/// proc(5)): the one with the longest fitting point, of equal ones the last.
Mount find_mount(std::string_view mountinfo, const base::Path& path);

}  // namespace ddpm::doctor
