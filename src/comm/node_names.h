// What messages call the nodes that the ranks are on.
//
// Slurm's options, such as --exclude, take the names that Slurm knows nodes by, and Slurm tells them to what it starts
// (SLURMD_NODENAME). The mpiexec of MPICH hands its own environment on to the ranks of all hosts, so that all of them
// are told the name of the first node.
#pragma once

#include <string>
#include <vector>

namespace ddpm::comm {

/// What a rank tells the others of its host, a line each: gethostname(2), and SLURMD_NODENAME, empty where it is not
/// set.
std::string host_lines();

/// The name of each rank's node, of what host_lines() said on each rank: Slurm's name, unless hosts that differ have
/// the same one, or a rank has none. All ranks then take the names of their hosts.
std::vector<std::string> node_names(const std::vector<std::string>& lines);

}  // namespace ddpm::comm
