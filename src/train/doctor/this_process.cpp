#include "train/doctor/this_process.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include "h5/library_version.h"
#include "train/threads.h"

namespace ddpm::train::doctor {

ProcessFacts this_process(const comm::MpiSession& session) {
  ProcessFacts facts = process_facts();
  facts.versions["libtorch"] = TORCH_VERSION;
  facts.versions["hdf5"] = h5::library_version();
  facts.versions["cpu_capability"] = at::get_cpu_capability();
  facts.threads =
      threads_per_rank(0, affinity_cpu_count(), host_cpu_count(), session.local_size(), comm::process_environment());
  return facts;
}

}  // namespace ddpm::train::doctor
