#include "comm/shared_bytes.h"

#include <algorithm>
#include <new>
#include <vector>

#include <sys/statvfs.h>

#include "base/check.h"
#include "base/machine_memory.h"
#include "comm/collectives.h"
#include "comm/mpi_communicator.h"

namespace ddpm::comm {
namespace {

/// Whether MPI has room for `bytes` where it puts shared memory. A file system that is full later ends a process that
/// touches its memory. Nor may all of what a process may have at most be for that.
bool has_room(int64_t bytes) {
  const auto limit = base::process_memory_limit();
  if (limit && bytes > *limit / 2) return false;
  struct statvfs facts {};
  if (statvfs("/dev/shm", &facts) != 0) return false;
  return static_cast<uint64_t>(bytes) <= static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize / 2;
}

MPI_Comm ranks_of_host(MPI_Comm all, int rank) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  return host;
}

/// The first ranks of all hosts, one rank alone on the others.
MPI_Comm first_ranks(MPI_Comm all, int rank, bool first) {
  MPI_Comm some = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(all, first ? 0 : rank + 1, rank, &some), "MPI_Comm_split");
  return some;
}

void free_communicator(const MpiCommunicator& comm) {
  MPI_Comm handle = comm.handle();
  check_mpi(MPI_Comm_free(&handle), "MPI_Comm_free");
}

}  // namespace

/// The memory of this rank's host.
struct SharedBytes::Window {
  Window(Communicator& comm, MPI_Comm all, int64_t bytes)
      : host(ranks_of_host(all, comm.rank())), firsts(first_ranks(all, comm.rank(), host.rank() == 0)) {
    void* own = nullptr;
    const MPI_Aint size = host.rank() == 0 ? static_cast<MPI_Aint>(bytes) : 0;
    check_mpi(MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, host.handle(), &own, &handle), "MPI_Win_allocate_shared");
    check_mpi(MPI_Win_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    MPI_Aint all_bytes = 0;
    int unit = 0;
    check_mpi(MPI_Win_shared_query(handle, 0, &all_bytes, &unit, &memory), "MPI_Win_shared_query");
    check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, handle), "MPI_Win_lock_all");
    int64_t number = firsts.rank();
    host.broadcast({&number, 1, base::DType::i64}, 0).wait();
    hosts.resize(static_cast<std::size_t>(comm.size()));
    comm.all_gather({&number, 1, base::DType::i64}, {hosts.data(), std::ssize(hosts), base::DType::i64}).wait();
  }

  /// What any rank of the host wrote before is what each of them reads afterwards.
  void meet() {
    check_mpi(MPI_Win_sync(handle), "MPI_Win_sync");
    host.barrier().wait();
    check_mpi(MPI_Win_sync(handle), "MPI_Win_sync");
  }

  void close() {
    check_mpi(MPI_Win_unlock_all(handle), "MPI_Win_unlock_all");
    check_mpi(MPI_Win_free(&handle), "MPI_Win_free");
    free_communicator(firsts);
    free_communicator(host);
  }

  MpiCommunicator host;
  MpiCommunicator firsts;      // the first rank of each host; of no use on other ranks
  std::vector<int64_t> hosts;  // by rank: the number of its host's first rank in `firsts`
  MPI_Win handle = MPI_WIN_NULL;
  void* memory = nullptr;
};

SharedBytes::SharedBytes(Communicator& comm, int64_t bytes, int64_t worth_sharing, std::optional<int64_t> own_bytes)
    : comm_(&comm) {
  DDPM_CHECK(bytes >= 0, "{} bytes", bytes);
  const auto size = static_cast<std::size_t>(bytes);
  const auto* mpi = dynamic_cast<const MpiCommunicator*>(&comm);
  const bool wanted = mpi != nullptr && comm.size() > 1 && bytes >= worth_sharing;
  if (wanted && all_reduce(comm, int64_t{has_room(bytes)}, ReduceOp::min) > 0) {
    window_ = std::make_unique<Window>(comm, mpi->handle(), bytes);
    bytes_ = {static_cast<std::byte*>(window_->memory), size};
  } else {
    const auto own = static_cast<std::size_t>(own_bytes.value_or(bytes));
    copy_.reset(static_cast<std::byte*>(std::calloc(std::max<std::size_t>(own, 1), 1)));
    if (!copy_) throw std::bad_alloc();
    bytes_ = {copy_.get(), own};
  }
}

SharedBytes::~SharedBytes() = default;
SharedBytes::SharedBytes(SharedBytes&&) noexcept = default;
SharedBytes& SharedBytes::operator=(SharedBytes&&) noexcept = default;

std::span<std::byte> SharedBytes::bytes() const { return bytes_; }

void SharedBytes::spread(std::span<const WrittenBytes> parts) {
  if (!window_) return spread_copies(parts);
  window_->meet();
  if (window_->host.rank() == 0) {
    for (const WrittenBytes& part : parts) {
      const auto from = static_cast<int>(window_->hosts[static_cast<std::size_t>(part.writer)]);
      window_->firsts.broadcast({bytes_.data() + part.begin, part.end - part.begin, base::DType::u8}, from).wait();
    }
  }
  window_->meet();
}

void SharedBytes::spread_copies(std::span<const WrittenBytes> parts) {
  for (const WrittenBytes& part : parts) {
    comm_->broadcast({bytes_.data() + part.begin, part.end - part.begin, base::DType::u8}, part.writer).wait();
  }
}

void SharedBytes::close() {
  if (window_) window_->close();
  window_.reset();
  copy_.reset();
  bytes_ = {};
}

}  // namespace ddpm::comm
