#include "comm/clock_offset.h"

#include <cstddef>
#include <iterator>
#include <limits>

#include "base/clock.h"
#include "comm/message_tags.h"

namespace ddpm::comm {
namespace {

constexpr int kQuestions = 16;

ClockOffset ask_time(Communicator& comm, int other, double (*clock)()) {
  ClockOffset best{.offset_s = 0.0, .uncertainty_s = std::numeric_limits<double>::max()};
  for (int i = 0; i < kQuestions; ++i) {
    double theirs = 0.0;
    const double asked = clock();
    const auto start = base::Clock::now();
    comm.send({&theirs, 1, base::DType::f64}, other, tags::kClock).wait();
    comm.receive({&theirs, 1, base::DType::f64}, other, tags::kClock).wait();
    const double waited = base::seconds_since(start);
    if (waited / 2.0 < best.uncertainty_s) best = {theirs - (asked + waited / 2.0), waited / 2.0};
  }
  return best;
}

void tell_time(Communicator& comm, double (*clock)()) {
  for (int i = 0; i < kQuestions; ++i) {
    double value = 0.0;
    comm.receive({&value, 1, base::DType::f64}, 0, tags::kClock).wait();
    value = clock();
    comm.send({&value, 1, base::DType::f64}, 0, tags::kClock).wait();
  }
}

}  // namespace

std::vector<ClockOffset> measure_clocks(Communicator& comm, double (*clock)()) {
  std::vector<double> flat(2 * static_cast<std::size_t>(comm.size()));
  if (comm.rank() == 0) {
    for (int other = 1; other < comm.size(); ++other) {
      const ClockOffset offset = ask_time(comm, other, clock);
      flat[2 * static_cast<std::size_t>(other)] = offset.offset_s;
      flat[2 * static_cast<std::size_t>(other) + 1] = offset.uncertainty_s;
    }
  } else {
    tell_time(comm, clock);
  }
  comm.broadcast({flat.data(), std::ssize(flat), base::DType::f64}, 0).wait();
  std::vector<ClockOffset> offsets;
  for (std::size_t i = 0; i < flat.size(); i += 2) offsets.push_back({flat[i], flat[i + 1]});
  return offsets;
}

}  // namespace ddpm::comm
