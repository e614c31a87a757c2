#include "doctor/links.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/clock.h"
#include "comm/collectives.h"
#include "comm/message_tags.h"
#include "doctor/tournament.h"

namespace ddpm::doctor {
namespace {

constexpr int kSmallMessages = 20;
constexpr int kLargeMessages = 4;
/// Returns half of the shortest time of `repeats` trips of `bytes` to `other` and back, after one that warms up.
/// `first` sends first.
double one_way(comm::Communicator& comm, int other, bool first, std::vector<std::byte>& bytes, int repeats) {
  const comm::Buffer buffer{bytes.data(), std::ssize(bytes), base::DType::u8};
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i <= repeats; ++i) {
    const auto start = base::Clock::now();
    if (first) {
      comm.send(buffer, other, comm::tags::kLink).wait();
      comm.receive(buffer, other, comm::tags::kLink).wait();
    } else {
      comm.receive(buffer, other, comm::tags::kLink).wait();
      comm.send(buffer, other, comm::tags::kLink).wait();
    }
    const double seconds = base::seconds_since(start);
    if (i > 0) best = std::min(best, seconds / 2.0);
  }
  return best;
}

Link measure(comm::Communicator& comm, int other) {
  const int a = std::min(comm.rank(), other);
  const int b = std::max(comm.rank(), other);
  std::vector<std::byte> small(1);
  std::vector<std::byte> large(kLinkBytes);
  Link link{.a = a, .b = b};
  link.latency_s = one_way(comm, other, comm.rank() == a, small, kSmallMessages);
  link.bytes_per_second =
      static_cast<double>(kLinkBytes) / one_way(comm, other, comm.rank() == a, large, kLargeMessages);
  return link;
}

}  // namespace

std::vector<Link> measure_links(comm::Communicator& comm, const std::function<void(int64_t round)>& begin_round) {
  const int size = comm.size();
  const auto width = static_cast<std::size_t>(size);
  std::vector<double> own(2 * width);  // latency and bandwidth to each other rank
  for (int round = 0; round < tournament_rounds(size); ++round) {
    begin_round(round);
    const int other = opponent(size, round, comm.rank());
    if (other < 0) continue;
    const Link link = measure(comm, other);
    own[2 * static_cast<std::size_t>(other)] = link.latency_s;
    own[2 * static_cast<std::size_t>(other) + 1] = link.bytes_per_second;
  }
  const std::vector<double> all = comm::all_gather(comm, own);
  std::vector<Link> links;
  for (std::size_t a = 0; a < width; ++a) {
    for (std::size_t b = a + 1; b < width; ++b) {
      const std::size_t at = 2 * (a * width + b);
      links.push_back({static_cast<int>(a), static_cast<int>(b), all[at], all[at + 1]});
    }
  }
  return links;
}

Link measure_ends(comm::Communicator& comm) {
  const int last = comm.size() - 1;
  if (last == 0 || (comm.rank() != 0 && comm.rank() != last)) return {.a = 0, .b = last};
  return measure(comm, comm.rank() == 0 ? last : 0);
}

}  // namespace ddpm::doctor
