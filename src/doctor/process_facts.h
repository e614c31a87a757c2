// What one process knows of itself and its host: what `ddpm env` prints and `ddpm doctor` gathers from every rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/launch.h"
#include "device/device_library.h"
#include "doctor/host_facts.h"

namespace ddpm::doctor {

struct ProcessFacts {
  std::string host;
  std::string launcher;  ///< see comm::launcher_name()
  int64_t pid = 0;
  /// ddpm, program (SHA-256 of the file), libtorch, libtorch_of_build, mpi, hdf5, cpu_capability, and where a GPU is
  /// visible cuda, cuda_of_driver and nccl: of the libraries that this process has mapped.
  std::map<std::string, std::string> versions;
  std::string libtorch_file;  ///< the mapped one
  std::map<std::string, std::string> environment;
  std::string library_path_problem;              ///< see working_directory_in()
  std::map<std::string, std::string> nccl_file;  ///< settings of NCCL's files, which `environment` overrides
  std::string nccl_plugin;  ///< the library through which NCCL would reach its network; "" if there is none
  std::map<std::string, int64_t> limits;  ///< soft ones of setrlimit(2), in its units; -1: unlimited
  std::vector<int> cpus;                  ///< affinity mask, ascending
  int64_t allocated_cpus = 0;             ///< that Slurm gave the job on this host; 0: unknown
  int threads = 1;                        ///< that training would use
  std::string gpu_problem;                ///< why no GPU can be used; "" where one can, or nobody expects any
  device::DeviceFacts gpus;
  HostFacts machine;
};

/// Variables that change what the program, LibTorch, OpenMP, MPI, NCCL or HDF5 do: "OMP_NUM_THREADS", "NCCL_*" ...
bool is_of_interest(std::string_view variable);
/// Whether ranks of one job may well have different values of this variable: "CUDA_VISIBLE_DEVICES".
bool may_differ(std::string_view variable);

/// Whether the dynamic linker, told to look for libraries in `places` (LD_LIBRARY_PATH), also looks in the working
/// directory: "an empty element", "the relative element 'lib'", or "" if it does not.
std::string working_directory_in(std::string_view places);

/// SHA-256 of the program's file, which is read once; "unreadable" where it cannot be.
const std::string& program_hash();

/// Returns the facts of this process, after MPI_Init; what cannot be found out is left empty. The caller adds what this
/// folder does not know (LibTorch, HDF5), `host` and `threads`. Opens libddpm_cuda.so where an NVIDIA driver is loaded.
ProcessFacts process_facts();

}  // namespace ddpm::doctor
