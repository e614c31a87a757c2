#include "comm/mpi_calls.h"

#include <cstddef>
#include <utility>

#include <mpi.h>
#include <unistd.h>

namespace ddpm::test {
MpiCalls& mpi_calls() {
  static MpiCalls calls;
  return calls;
}
std::map<std::string, std::string>& environment_at_start() {
  static std::map<std::string, std::string> variables;
  return variables;
}
}  // namespace ddpm::test

using ddpm::test::mpi_calls;

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string pair = *at;
    const std::size_t equals = pair.find('=');
    if (equals != std::string::npos) {
      ddpm::test::environment_at_start()[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
  }
  return PMPI_Init_thread(argc, argv, wanted, provided);
}
int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  if (const int code = std::exchange(mpi_calls().fail_next_all_reduce, MPI_SUCCESS); code != MPI_SUCCESS) return code;
  ++mpi_calls().all_reduce;
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
int MPI_Ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  ++mpi_calls().reduce_scatter;
  return PMPI_Ireduce_scatter_block(in, out, count, type, op, comm, request);
}
int MPI_Ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  ++mpi_calls().reduce;
  return PMPI_Ireduce(in, out, count, type, op, root, comm, request);
}
int MPI_Iallgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request* request) {
  ++mpi_calls().all_gather;
  return PMPI_Iallgather(in, in_count, in_type, out, out_count, out_type, comm, request);
}
int MPI_Ibcast(void* in_out, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  ++mpi_calls().broadcast;
  return PMPI_Ibcast(in_out, count, type, root, comm, request);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++mpi_calls().communicators;
  return PMPI_Comm_split(comm, color, key, part);
}
int MPI_Isend(const void* in, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++mpi_calls().send;
  return PMPI_Isend(in, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* out, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  ++mpi_calls().receive;
  return PMPI_Irecv(out, count, type, from, tag, comm, request);
}

}  // extern "C"
