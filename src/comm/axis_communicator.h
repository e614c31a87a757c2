// A communicator for the ranks along axes of a mesh.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "layout/mesh.h"

namespace ddpm::comm {

/// The group along `axes` that this rank is in; a rank's number there is its coordinate. A group of one costs nothing.
/// Collective over `all`, whose rank r is the mesh's.
std::unique_ptr<Communicator> axis_communicator(Communicator& all, const layout::Mesh& mesh, layout::Axes axes);

}  // namespace ddpm::comm
