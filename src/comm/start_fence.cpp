#include "comm/start_fence.h"

#if DDPM_HAS_PMIX

#include <cstring>

#include <dlfcn.h>
#include <pmix.h>

#include "base/error.h"

namespace ddpm::comm {
namespace {

/// A function of the PMIx library in this process, if one is loaded. This program is not linked with it.
template <class Function>
Function* loaded(const char* name) {
  void* library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

void wait_for_all_starts(const Environment& environment) {
  if (!launched_by_srun(environment) || environment("SLURM_STEP_NUM_NODES") == "1") return;
  auto* fence = loaded<decltype(PMIx_Fence)>("PMIx_Fence");
  if (fence == nullptr) return;
  pmix_info_t collect = {};
  static_cast<void>(std::strncpy(collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN));
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  const pmix_status_t status = fence(nullptr, 0, &collect, 1);
  if (status == PMIX_SUCCESS) return;
  auto* text = loaded<decltype(PMIx_Error_string)>("PMIx_Error_string");
  throw base::CommunicationError("the ranks of srun did not meet after MPI_Init: PMIx_Fence returned {} ({})", status,
                                 text != nullptr ? text(status) : "an unknown error");
}

}  // namespace ddpm::comm

#else

namespace ddpm::comm {

void wait_for_all_starts(const Environment& /*environment*/) {}

}  // namespace ddpm::comm

#endif
