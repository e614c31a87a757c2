#include "comm/reach.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <mpi.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/end_ranks.h"
#include "comm/mpi_handles.h"
#include "comm/node_names.h"

namespace ddpm::comm {
namespace {

using base::Clock;
using Seconds = std::chrono::duration<double>;

enum class Tag : int { name = 1, firsts, hello, unheard, verdict };
constexpr std::size_t kNameBytes = 512;
using Name = std::array<char, kNameBytes>;  // what host_lines() says

/// Sends and receives that are under way.
class Messages {
 public:
  void send(const void* data, std::size_t count, MPI_Datatype type, int to, Tag tag) {
    check_mpi(MPI_Isend(data, static_cast<int>(count), type, to, static_cast<int>(tag), MPI_COMM_WORLD,
                        &requests_.emplace_back()),
              "MPI_Isend");
  }
  void receive(void* data, std::size_t count, MPI_Datatype type, int from, Tag tag) {
    check_mpi(MPI_Irecv(data, static_cast<int>(count), type, from, static_cast<int>(tag), MPI_COMM_WORLD,
                        &requests_.emplace_back()),
              "MPI_Irecv");
  }

  /// Until all are done, or the time is over. Which are done, in the order of the calls.
  std::vector<bool> wait(Seconds patience) {
    const auto start = Clock::now();
    std::vector<bool> done(requests_.size());
    for (;;) {
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        int complete = 0;
        check_mpi(MPI_Test(&requests_[i], &complete, MPI_STATUS_IGNORE), "MPI_Test");
        done[i] = complete != 0;  // true also for a request that was complete before
      }
      if (std::ranges::find(done, false) == done.end() || Clock::now() - start > patience) return done;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// However long it takes: whoever waits so is ended by rank 0, or by the deadline of the start.
  void wait() { wait(Seconds::max()); }

 private:
  std::vector<MPI_Request> requests_;
};

/// A byte to each of some ranks, and one from each. Messages that never come stay under way as long as this lives.
class Greetings {
 public:
  Greetings(const std::vector<int>& ranks, int own) : heard_(ranks.size()) {
    for (const int rank : ranks) {
      if (rank == own) continue;
      received_.receive(&heard_[others_.size()], 1, MPI_CHAR, rank, Tag::hello);
      sent_.send(&kByte, 1, MPI_CHAR, rank, Tag::hello);
      others_.push_back(rank);
    }
  }

  /// The ranks that are not heard within `patience`.
  std::vector<int> unheard(Seconds patience) {
    const std::vector<bool> done = received_.wait(patience);
    std::vector<int> unheard;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (!done[i]) unheard.push_back(others_[i]);
    }
    return unheard;
  }
  /// When all are heard everywhere.
  void finish() { sent_.wait(); }

 private:
  static constexpr char kByte = 1;
  std::vector<char> heard_;
  std::vector<int> others_;
  Messages sent_;
  Messages received_;
};

/// What rank 0 knows of the others. It ends the job where it is, not by an exception: buffers of messages that are
/// still under way stay.
class FirstHost {
 public:
  FirstHost(int size, Seconds patience) : size_(size), patience_(patience) {}

  /// The first rank of each host, in the order of ranks.
  std::vector<int> hear_names() {
    std::vector<Name> names(static_cast<std::size_t>(size_));
    Messages received;
    for (int rank = 1; rank < size_; ++rank) {
      received.receive(names[static_cast<std::size_t>(rank)].data(), kNameBytes, MPI_CHAR, rank, Tag::name);
    }
    const std::vector<bool> heard = received.wait(patience_);
    const auto silent = std::ranges::find(heard, false);
    if (silent != heard.end()) {
      end_start(base::CommunicationError(
          "hears nothing of rank {}{} within {} s: not reachable, or running another command",
          silent - heard.begin() + 1, std::ranges::count(heard, false) > 1 ? " and others" : "", patience_.count()));
    }
    host_lines().copy(names[0].data(), kNameBytes - 1);
    std::vector<std::string> lines;
    lines.reserve(names.size());
    for (const Name& name : names) lines.emplace_back(name.data());
    const std::vector<std::string> nodes = node_names(lines);
    std::vector<int> firsts;
    std::set<std::string> known;
    for (int rank = 0; rank < size_; ++rank) {
      const std::string& node = nodes[static_cast<std::size_t>(rank)];
      if (!known.insert(node).second) continue;
      firsts.push_back(rank);
      hosts_.push_back(node);
    }
    return firsts;
  }

  void listen(const std::vector<int>& firsts) {
    listening_ = Clock::now();
    unheard_.assign(firsts.size(), std::vector<int>(firsts.size() + 1));
    for (std::size_t host = 1; host < firsts.size(); ++host) {
      answers_.receive(unheard_[host].data(), unheard_[host].size(), MPI_INT, firsts[host], Tag::unheard);
    }
  }

  /// `own`: those that rank 0 itself does not hear. The others look at the same time, from listen() on.
  void judge(const std::vector<int>& firsts, const std::vector<int>& own) {
    const std::vector<bool> answered = answers_.wait(patience_ + Seconds(2.0) - (Clock::now() - listening_));
    std::set<std::pair<int, int>> pairs;
    const auto host_of = [&firsts](int rank) {
      return static_cast<int>(std::ranges::lower_bound(firsts, rank) - firsts.begin());
    };
    const auto add = [&pairs](int a, int b) { pairs.emplace(std::min(a, b), std::max(a, b)); };
    for (const int rank : own) add(0, host_of(rank));
    for (std::size_t host = 1; host < firsts.size(); ++host) {
      if (!answered[host - 1]) add(0, static_cast<int>(host));
      for (int i = 1; answered[host - 1] && i <= unheard_[host].front(); ++i) {
        add(static_cast<int>(host), host_of(unheard_[host][static_cast<std::size_t>(i)]));
      }
    }
    if (!pairs.empty()) {
      end_start(base::CommunicationError("{}", unreached_text({pairs.begin(), pairs.end()}, hosts_)));
    }
  }

 private:
  int size_;
  Seconds patience_;
  std::vector<std::string> hosts_;
  std::vector<std::vector<int>> unheard_;
  Messages answers_;
  Clock::time_point listening_;
};

void probe(Seconds patience) {
  int rank = 0;
  int size = 1;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size == 1) return;
  Messages messages;
  int verdict = 0;
  if (rank == 0) {
    FirstHost host(size, patience);
    const std::vector<int> firsts = host.hear_names();
    for (int to = 1; to < size; ++to) messages.send(firsts.data(), firsts.size(), MPI_INT, to, Tag::firsts);
    host.listen(firsts);
    Greetings greetings(firsts, rank);
    host.judge(firsts, greetings.unheard(patience));
    greetings.finish();
    for (int to = 1; to < size; ++to) messages.send(&verdict, 1, MPI_INT, to, Tag::verdict);
    messages.wait();
    return;
  }
  Name name{};
  host_lines().copy(name.data(), kNameBytes - 1);
  std::vector<int> firsts(static_cast<std::size_t>(size), -1);
  messages.send(name.data(), kNameBytes, MPI_CHAR, 0, Tag::name);
  messages.receive(firsts.data(), firsts.size(), MPI_INT, 0, Tag::firsts);
  messages.wait();
  std::erase(firsts, -1);
  std::optional<Greetings> greetings;
  std::vector<int> unheard;
  if (std::ranges::binary_search(firsts, rank)) {
    unheard = greetings.emplace(firsts, rank).unheard(patience);
    unheard.insert(unheard.begin(), static_cast<int>(unheard.size()));
    messages.send(unheard.data(), unheard.size(), MPI_INT, 0, Tag::unheard);
  }
  messages.receive(&verdict, 1, MPI_INT, 0, Tag::verdict);
  messages.wait();
  if (greetings) greetings->finish();
}

}  // namespace

void expect_reach(double timeout_s) {
  try {
    probe(Seconds(timeout_s));
  } catch (const base::Error& error) {
    end_start(error);
  }
}

std::string unreached_text(const std::vector<std::pair<int, int>>& pairs, const std::vector<std::string>& hosts) {
  constexpr std::size_t kNamed = 4;
  std::string text = "no message arrives between ";
  for (std::size_t i = 0; i < std::min(pairs.size(), kNamed); ++i) {
    text += fmt::format("{}{} and {}", i == 0 ? "" : ", ", hosts[static_cast<std::size_t>(pairs[i].first)],
                        hosts[static_cast<std::size_t>(pairs[i].second)]);
  }
  if (pairs.size() > kNamed) text += fmt::format(", and {} more pairs of hosts", pairs.size() - kNamed);
  return text;
}

}  // namespace ddpm::comm
