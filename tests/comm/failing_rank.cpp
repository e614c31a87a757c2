// Two ranks, of which one learns that its GPU's communication has failed while both wait for each other.
#include <string>

#include "comm/collectives.h"
#include "comm/session.h"
#include "comm/watchdog.h"

int main(int argc, char** argv) {
  ddpm::comm::MpiSession session(argc, argv);
  const ddpm::base::Logger log(session.rank(), session.size());
  const ddpm::comm::Watchdog watchdog(session, {}, log);
  if (session.rank() == 1) session.set_failure_check([] { return std::string("NCCL: remote process exited"); });
  session.world().send({&argc, 1, ddpm::base::DType::i32}, 1 - session.rank(), 7).wait();
  session.world().receive({&argc, 1, ddpm::base::DType::i32}, 1 - session.rank(), 8).wait();  // nobody sends it
  return 0;
}
