#include "comm/mpi_handles.h"

#include <array>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace ddpm::comm {
namespace {

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

int world_rank() {
  int initialized = 0;
  int rank = 0;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || initialized == 0) return 0;
  return MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS ? rank : 0;
}

}  // namespace

void check_mpi(int code, const char* operation) {
  if (code == MPI_SUCCESS) return;
  throw base::CommunicationError("{} failed on rank {}: {}", operation, world_rank(), error_text(code));
}

bool may_release_mpi(const char* what) {
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) return true;
  base::Logger(0, 1).error("an {} outlived MPI_Finalize: destroy communicators before the session ends", what);
  return false;
}

void log_failed_release(int code, const char* operation) {
  if (code != MPI_SUCCESS)
    base::Logger(0, 1).error("{} failed on rank {}: {}", operation, world_rank(), error_text(code));
}

Datatype Datatype::contiguous(int count, MPI_Datatype element) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(count, element, &type), "MPI_Type_contiguous");
  Datatype owner(type);
  check_mpi(MPI_Type_commit(&owner.type_), "MPI_Type_commit");
  return owner;
}

Datatype Datatype::strided(int count, MPI_Datatype element, MPI_Aint extent) {
  const Datatype block = contiguous(count, element);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_resized(block.get(), 0, extent, &type), "MPI_Type_create_resized");
  Datatype owner(type);
  check_mpi(MPI_Type_commit(&owner.type_), "MPI_Type_commit");
  return owner;
}

}  // namespace ddpm::comm
