#include "base/host_name.h"

#include <array>
#include <cstdlib>

#include <unistd.h>

namespace ddpm::base {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

std::string node_name() {
  const char* name = std::getenv("SLURMD_NODENAME");  // NOLINT(concurrency-mt-unsafe): nothing here changes it
  return name != nullptr && *name != '\0' ? name : host_name();
}

}  // namespace ddpm::base
