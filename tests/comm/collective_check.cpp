// Checks that the ranks call the same collectives in the same order: a library that tests load before MPI, through
// MPI's profiling interface (every MPI_Name may be defined anew, and PMPI_Name is the original).
//
// Each communicator gets a duplicate, over which a number that stands for each call is compared: without waiting, so
// that ranks overlap as they do otherwise. Ranks that differ say what they called, and end the job; so does a rank
// whose call the others have not made within a minute, or $DDPM_COLLECTIVES_PATIENCE_S. The ring collectives of
// comm/ring_work.h are messages, which are not compared: they say themselves when one begins.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTimeToBeHeard = std::chrono::milliseconds(1000);
constexpr std::size_t kRemembered = 4;

/// A call whose number is on its way.
struct Check {
  std::string call;
  std::array<int64_t, 2> mine;  ///< the number and its complement: their minima say the least and the greatest
  std::array<int64_t, 2> least{};
  MPI_Request request = MPI_REQUEST_NULL;
  Clock::time_point since = Clock::now();
};

/// A communicator, and what was called on it.
struct Channel {
  std::string name;
  MPI_Comm shadow = MPI_COMM_NULL;
  int64_t calls = 0;
  std::list<Check> open;         ///< the oldest first; a request points into its element
  std::deque<std::string> last;  ///< calls that were made, the newest last
};

std::recursive_mutex mutex;
int key = MPI_KEYVAL_INVALID;
std::list<std::unique_ptr<Channel>> channels;
std::map<MPI_File, Channel*> files;
std::map<MPI_Win, Channel*> windows;
std::map<MPI_Op, std::string> own_operations;  ///< by what they call
int64_t checked = 0;
int64_t communicators = 0;

std::chrono::duration<double> patience() {
  const char* seconds = std::getenv("DDPM_COLLECTIVES_PATIENCE_S");
  return std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 60.0);
}

[[noreturn]] void end(const Channel& channel, const Check& check, const char* problem) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string before;
  for (const std::string& call : channel.last) before += (before.empty() ? "" : "; ") + call;
  std::fprintf(stderr, "collectives: rank %d %s: %s on %s; before it: %s\n", rank, problem, check.call.c_str(),
               channel.name.c_str(), before.empty() ? "none" : before.c_str());
  std::this_thread::sleep_for(kTimeToBeHeard);  // for the other ranks to say theirs
  PMPI_Abort(MPI_COMM_WORLD, 86);
  std::_Exit(86);
}

/// FNV-1a, without the sign.
int64_t number_of(std::string_view text) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return static_cast<int64_t>(hash >> 1U);
}

void look(Channel& channel) {
  while (!channel.open.empty()) {
    Check& check = channel.open.front();
    int done = 0;
    PMPI_Test(&check.request, &done, MPI_STATUS_IGNORE);
    if (done == 0) {
      if (Clock::now() - check.since > patience()) end(channel, check, "waits for others that do not come");
      return;
    }
    if (check.least[0] != ~check.least[1]) end(channel, check, "differs from others");
    channel.last.push_back(check.call);
    if (channel.last.size() > kRemembered) channel.last.pop_front();
    channel.open.pop_front();
    ++checked;
  }
}

void look() {
  const std::lock_guard lock(mutex);
  for (const auto& channel : channels) look(*channel);
}

void drain(Channel& channel) {
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      look(channel);
      if (channel.open.empty()) return;
    }
    sched_yield();
  }
}

/// An operation that fails may do so because ranks differ: the numbers that say so are on their way.
void look_after_failure() {
  const auto begin = Clock::now();
  while (Clock::now() - begin < kTimeToBeHeard) {
    look();
    sched_yield();
  }
}

Channel* channel_of(MPI_Comm comm) {
  if (key == MPI_KEYVAL_INVALID) return nullptr;
  void* value = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, key, static_cast<void*>(&value), &found);
  return found != 0 ? static_cast<Channel*>(value) : nullptr;
}

int forget(MPI_Comm /*comm*/, int /*key*/, void* value, void* /*extra*/) {
  const std::lock_guard lock(mutex);
  auto* channel = static_cast<Channel*>(value);
  PMPI_Comm_free(&channel->shadow);
  std::erase_if(files, [&](const auto& file) { return file.second == channel; });
  std::erase_if(windows, [&](const auto& window) { return window.second == channel; });
  std::erase_if(channels, [&](const auto& one) { return one.get() == channel; });
  return MPI_SUCCESS;
}

/// Collective over `comm`, which was just made.
void watch(MPI_Comm comm, const std::string& made_by) {
  int between = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &between) != MPI_SUCCESS || between != 0) return;
  auto channel = std::make_unique<Channel>();
  PMPI_Comm_dup(comm, &channel->shadow);
  PMPI_Comm_set_errhandler(channel->shadow, MPI_ERRORS_RETURN);
  int size = 0;
  PMPI_Comm_size(comm, &size);
  const std::lock_guard lock(mutex);
  channel->name = made_by + " (communicator " + std::to_string(++communicators) + " of this rank, " +
                  std::to_string(size) + " ranks)";
  PMPI_Comm_set_attr(comm, key, channel.get());
  channels.push_back(std::move(channel));
}

void note(Channel* channel, const std::string& call) {
  if (channel == nullptr) return;
  const std::lock_guard lock(mutex);
  look(*channel);
  Check& check = channel->open.emplace_back();
  check.call = "call " + std::to_string(++channel->calls) + ", " + call;
  const int64_t number = number_of(check.call);
  check.mine = {number, ~number};
  PMPI_Iallreduce(check.mine.data(), check.least.data(), 2, MPI_INT64_T, MPI_MIN, channel->shadow, &check.request);
}
void note(MPI_Comm comm, const std::string& call) { note(channel_of(comm), call); }

/// For calls that may not return where another rank does not make them.
void note_and_wait(Channel* channel, const std::string& call) {
  note(channel, call);
  if (channel != nullptr) drain(*channel);
}
void note_and_wait(MPI_Comm comm, const std::string& call) { note_and_wait(channel_of(comm), call); }

std::string type_name(MPI_Datatype type) {
  std::array<char, MPI_MAX_OBJECT_NAME> name{};
  int length = 0;
  PMPI_Type_get_name(type, name.data(), &length);
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "a type of its own";
}
std::string op_name(MPI_Op op) {
  if (op == MPI_SUM) return "sum";
  if (op == MPI_MIN) return "min";
  if (op == MPI_MAX) return "max";
  if (op == MPI_LAND) return "and";
  if (op == MPI_LOR) return "or";
  const std::lock_guard lock(mutex);
  const auto own = own_operations.find(op);
  return own == own_operations.end() ? "another operation" : own->second;
}

std::string text_of(const char* name, int64_t count, MPI_Datatype type, const std::string& more = "") {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return std::string(name) + "(" + std::to_string(count) + " of " + type_name(type) + ", " + std::to_string(bytes) +
         " bytes" + more + ")";
}
std::string with_root(int root) { return ", root " + std::to_string(root); }
std::string with_op(MPI_Op op) { return ", " + op_name(op); }

/// The communicator that a file or a window was made with goes on with its calls.
template <class Handle>
Channel* channel_in(const std::map<Handle, Channel*>& made, Handle handle) {
  const std::lock_guard lock(mutex);
  const auto found = made.find(handle);
  return found == made.end() ? nullptr : found->second;
}
Channel* channel_of_file(MPI_File file) { return channel_in(files, file); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are MPI's.
extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  if (result != MPI_SUCCESS) return result;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, nullptr);
  watch(MPI_COMM_WORLD, "the world");
  return result;
}

int MPI_Finalize() {
  if (Channel* world = channel_of(MPI_COMM_WORLD)) {
    note_and_wait(world, "MPI_Finalize");
    PMPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  }
  if (const char* path = std::getenv("DDPM_COLLECTIVES_COUNTED")) {
    if (std::FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%lld\n", static_cast<long long>(checked));
      std::fclose(file);
    }
  }
  return PMPI_Finalize();
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  look();
  const int result = PMPI_Test(request, flag, status);
  if (result != MPI_SUCCESS) look_after_failure();
  return result;
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  for (int done = 0;;) {
    const int result = PMPI_Test(request, &done, status);
    if (result != MPI_SUCCESS) look_after_failure();
    if (result != MPI_SUCCESS || done != 0) return result;
    look();
    sched_yield();
  }
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  note_and_wait(comm, "MPI_Comm_dup");
  const int result = PMPI_Comm_dup(comm, made);
  if (result == MPI_SUCCESS) watch(*made, "a duplicate");
  return result;
}
int MPI_Comm_split(MPI_Comm comm, int color, int order, MPI_Comm* made) {
  note_and_wait(comm, "MPI_Comm_split");
  const int result = PMPI_Comm_split(comm, color, order, made);
  if (result == MPI_SUCCESS) watch(*made, "a part");
  return result;
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int order, MPI_Info info, MPI_Comm* made) {
  note_and_wait(comm, "MPI_Comm_split_type");
  const int result = PMPI_Comm_split_type(comm, type, order, info, made);
  if (result == MPI_SUCCESS) watch(*made, "the ranks of a node");
  return result;
}
int MPI_Comm_free(MPI_Comm* comm) {
  note_and_wait(*comm, "MPI_Comm_free");
  return PMPI_Comm_free(comm);
}

int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* made) {
  const int result = PMPI_Op_create(function, commutes, made);
  Dl_info place{};
  if (result != MPI_SUCCESS || dladdr(reinterpret_cast<void*>(function), &place) == 0) return result;
  // Where the program lies in memory differs from rank to rank; where the function lies in the program does not.
  const auto offset = reinterpret_cast<std::uintptr_t>(function) - reinterpret_cast<std::uintptr_t>(place.dli_fbase);
  const std::lock_guard lock(mutex);
  own_operations[*made] = "an operation of its own at " + std::to_string(offset);
  return result;
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  note(comm, text_of("MPI_Iallreduce", count, type, with_op(op)));
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
int MPI_Ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  note(comm, text_of("MPI_Ireduce", count, type, with_op(op) + with_root(root)));
  return PMPI_Ireduce(in, out, count, type, op, root, comm, request);
}
int MPI_Ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  note(comm, text_of("MPI_Ireduce_scatter_block", count, type, with_op(op)));
  return PMPI_Ireduce_scatter_block(in, out, count, type, op, comm, request);
}
int MPI_Iallgather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request* request) {
  note(comm, text_of("MPI_Iallgather", count, type));
  return PMPI_Iallgather(in, count, type, out, out_count, out_type, comm, request);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  note(comm, text_of("MPI_Ibcast", count, type, with_root(root)));
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  note(comm, "MPI_Ibarrier");
  return PMPI_Ibarrier(comm, request);
}

void ddpm_ring_begins(MPI_Comm comm, const char* collective, int64_t count, MPI_Datatype type, MPI_Op op) {
  note(comm, text_of(collective, count, type, with_op(op)));
}

int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* memory, MPI_Win* window) {
  Channel* channel = channel_of(comm);
  note_and_wait(channel, "MPI_Win_allocate_shared");  // of sizes that may differ
  const int result = PMPI_Win_allocate_shared(size, unit, info, comm, memory, window);
  if (result == MPI_SUCCESS && channel != nullptr) {
    const std::lock_guard lock(mutex);
    windows[*window] = channel;
  }
  return result;
}
int MPI_Win_free(MPI_Win* window) {
  note_and_wait(channel_in(windows, *window), "MPI_Win_free");
  {
    const std::lock_guard lock(mutex);
    windows.erase(*window);
  }
  return PMPI_Win_free(window);
}

// HDF5's.
int MPI_Barrier(MPI_Comm comm) {
  note_and_wait(comm, "MPI_Barrier");
  return PMPI_Barrier(comm);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  note_and_wait(comm, text_of("MPI_Bcast", count, type, with_root(root)));
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  note_and_wait(comm, text_of("MPI_Allreduce", count, type, with_op(op)));
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  Channel* channel = channel_of(comm);
  note_and_wait(channel, "MPI_File_open");
  const int result = PMPI_File_open(comm, name, mode, info, file);
  if (result == MPI_SUCCESS && channel != nullptr) {
    const std::lock_guard lock(mutex);
    files[*file] = channel;
  }
  return result;
}
int MPI_File_close(MPI_File* file) {
  note_and_wait(channel_of_file(*file), "MPI_File_close");
  {
    const std::lock_guard lock(mutex);
    files.erase(*file);
  }
  return PMPI_File_close(file);
}
int MPI_File_set_size(MPI_File file, MPI_Offset size) {
  note_and_wait(channel_of_file(file), "MPI_File_set_size(" + std::to_string(size) + ")");
  return PMPI_File_set_size(file, size);
}
int MPI_File_write_at_all(MPI_File file, MPI_Offset at, const void* data, int count, MPI_Datatype type,
                          MPI_Status* status) {
  note_and_wait(channel_of_file(file), "MPI_File_write_at_all");
  return PMPI_File_write_at_all(file, at, data, count, type, status);
}
int MPI_File_read_at_all(MPI_File file, MPI_Offset at, void* data, int count, MPI_Datatype type, MPI_Status* status) {
  note_and_wait(channel_of_file(file), "MPI_File_read_at_all");
  return PMPI_File_read_at_all(file, at, data, count, type, status);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
