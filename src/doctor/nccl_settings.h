// What NCCL would find on this host besides the environment: its files of settings, and a plugin for the network.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "comm/launch.h"

namespace ddpm::doctor {

/// What NCCL's files set: $NCCL_CONF_FILE (or .nccl.conf of $HOME), and etc/nccl.conf below `root`, of which the first
/// counts. Variables of the environment win over all of them.
std::map<std::string, std::string> nccl_file_settings(const comm::Environment& environment, const base::Path& root);

/// The names under which NCCL looks for its network plugin where NCCL_NET_PLUGIN is `choice` ("" where it is not set).
std::vector<std::string> nccl_plugin_names(std::string_view choice);

/// The first library of these names that the dynamic linker would find: by its path, in `places` (LD_LIBRARY_PATH), or
/// in its cache (etc/ld.so.cache below `root`); "" if there is none.
std::string find_library(const std::vector<std::string>& names, std::string_view places, const base::Path& root);

}  // namespace ddpm::doctor
