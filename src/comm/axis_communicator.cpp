#include "comm/axis_communicator.h"

#include "base/check.h"

namespace ddpm::comm {

std::unique_ptr<Communicator> axis_communicator(Communicator& all, const layout::Mesh& mesh, layout::Axes axes) {
  DDPM_CHECK(all.size() == mesh.size(), "{} ranks, a mesh of {}", all.size(), mesh.size());
  if (mesh.degree(axes) == 1) return all.alone();
  return all.split(static_cast<int>(mesh.group(all.rank(), axes)), static_cast<int>(mesh.coordinate(all.rank(), axes)));
}

}  // namespace ddpm::comm
