#include "comm/heartbeat.h"

namespace ddpm::comm {
namespace {

constexpr int kBeatTag = 1;

}  // namespace

Beat Beat::of(const RankState& state, bool last) {
  Beat beat;
  state.phase.name.copy(beat.name.data(), beat.name.size() - 1);
  state.phase.key.copy(beat.key.data(), beat.key.size() - 1);
  beat.deadline_s = state.phase.deadline_s;
  beat.age_s = state.age_s;
  beat.job_age_s = state.job_age_s;
  beat.step = state.step;
  beat.sequence = state.sequence;
  beat.by_progress = state.phase.by_progress;
  beat.gone = state.phase.gone;
  beat.waiting = state.waiting;
  beat.failed = state.failed;
  beat.speaker = state.speaker;
  beat.last = last;
  return beat;
}

RankState Beat::state() const {
  return {.phase = {.name = name.data(),
                    .deadline_s = deadline_s,
                    .key = key.data(),
                    .by_progress = by_progress,
                    .gone = gone},
          .step = step,
          .sequence = sequence,
          .waiting = waiting,
          .age_s = age_s,
          .job_age_s = job_age_s,
          .failed = failed,
          .speaker = speaker};
}

Listener::Listener(MPI_Comm comm, int from, Phase start) : comm_(comm), from_(from), state_{.phase = std::move(start)} {
  listen();
}

Listener::~Listener() {
  if (MPI_Cancel(&request_) == MPI_SUCCESS) MPI_Request_free(&request_);
}

RankState Listener::state(const SeenTime& seen) {
  hear();
  const std::chrono::duration<double> age(state_.age_s);
  RankState state = state_;
  state.silent_s = seen.seconds(heard_);
  state.age_s = seen.seconds(heard_ - std::chrono::duration_cast<base::Clock::duration>(age)) - state.silent_s;
  return state;
}

void Listener::hear() {
  int arrived = 1;
  while (MPI_Test(&request_, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived != 0) {
    state_ = beat_.state();
    said_last_ = beat_.last;
    heard_ = base::Clock::now();
    listen();
  }
}

bool Listener::heard_last() {
  hear();
  return said_last_;
}

void Listener::listen() {
  check_mpi(MPI_Irecv(&beat_, sizeof(Beat), MPI_BYTE, from_, kBeatTag, comm_, &request_), "MPI_Irecv");
}

Sender::~Sender() {
  int complete = 1;
  if (request_ == MPI_REQUEST_NULL) return;
  if (MPI_Test(&request_, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && complete != 0) return;
  MPI_Request_free(&request_);
  static_cast<void>(beat_.release());  // MPI may still read it
}

bool Sender::say(const RankState& state, bool last) {
  if (!done()) return false;
  *beat_ = Beat::of(state, last);
  check_mpi(MPI_Issend(beat_.get(), sizeof(Beat), MPI_BYTE, to_, kBeatTag, comm_, &request_), "MPI_Issend");
  return true;
}

bool Sender::said_last() {
  if (!said_last_) said_last_ = say({.phase = Phase::nothing()}, /*last=*/true);
  return said_last_ && done();
}

bool Sender::done() {
  int complete = 1;
  check_mpi(MPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "MPI_Test");
  return complete != 0;
}

}  // namespace ddpm::comm
