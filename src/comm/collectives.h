// Blocking helpers over a host communicator, and agreement on success.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace ddpm::comm {

// All of them are collective over `comm`, and throw base::CommunicationError where a rank cannot be reached.

/// Each of `values` becomes what `op` makes of the ranks' values in its place, of which all ranks give as many.
void all_reduce(Communicator& comm, std::span<double> values, ReduceOp op);
void all_reduce(Communicator& comm, std::span<int64_t> values, ReduceOp op);
/// What `op` makes of the ranks' values, on every rank.
double all_reduce(Communicator& comm, double value, ReduceOp op);
int64_t all_reduce(Communicator& comm, int64_t value, ReduceOp op);

/// `text` of `root`, on every rank.
std::string broadcast(Communicator& comm, std::string text, int root = 0);
/// Everybody's text, in rank order, on every rank.
std::vector<std::string> all_gather(Communicator& comm, const std::string& text);
/// Everybody's text, in rank order, on `root`; nothing elsewhere. Only `root` needs memory for them.
std::vector<std::string> gather(Communicator& comm, std::string text, int root = 0);
/// Everybody's values, as many of each rank, one rank's after the other's.
std::vector<double> all_gather(Communicator& comm, std::span<const double> values);
/// Returns when every rank has called it.
void barrier(Communicator& comm);

/// Throws base::CommunicationError on all ranks, naming the odd ones, unless all of them give the same `text` (a hash).
/// `what` says of what: "configuration".
void expect_same(Communicator& comm, const std::string& what, const std::string& text);

/// An error that every rank of a communicator threw together. The lowest rank that failed (`failed_rank`) prints the
/// line, the others end quietly with the same code.
class AgreedError : public base::Error {
 public:
  AgreedError(base::ExitCode code, const std::string& what, int failed_rank, bool speaks,
              bool is_access_failure = false)
      : Error(code, what), failed_rank_(failed_rank), speaks_(speaks), is_access_failure_(is_access_failure) {}
  [[nodiscard]] int failed_rank() const { return failed_rank_; }
  /// Whether this rank is the one that should print the message.
  [[nodiscard]] bool speaks() const { return speaks_; }
  /// Whether it says nothing of a file, which could not be used just then (base/file_error.h).
  [[nodiscard]] bool is_access_failure() const { return is_access_failure_; }

 private:
  int failed_rank_;
  bool speaks_;
  bool is_access_failure_;
};

/// Runs `work` on every rank (it must make no collective call), then agrees: if it threw on any rank, all ranks throw
/// AgreedError with the code and text of the lowest rank that failed. For file, HDF5 and parsing calls, which fail on
/// one rank only.
void agree(Communicator& comm, const std::function<void()>& work);

/// Runs `work` on `root` only, agrees on its success and gives its text to every rank.
std::string agree_on_root(Communicator& comm, const std::function<std::string()>& work, int root = 0);
/// Runs `work` on rank 0 only, and agrees on its success.
void do_on_root(Communicator& comm, const std::function<void()>& work);
/// Runs `work` on rank 0 only, agrees on its success and gives its number to every rank.
int64_t number_on_root(Communicator& comm, const std::function<int64_t()>& work);
/// Asks rank 0 only, agrees on success and gives the answer to every rank.
bool ask_root(Communicator& comm, const std::function<bool()>& question);

}  // namespace ddpm::comm
