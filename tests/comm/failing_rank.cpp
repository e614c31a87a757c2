// failing_rank HOW: two ranks that wait for each other for ever. On rank 1 the watchdog, which asks for it, learns that
// the GPU's communication has failed (reports), or meets an error itself (throws, throws-odd).
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/mpi_session.h"
#include "comm/watchdog.h"

namespace {

std::string fail(const std::string& how) {
  if (how == "throws") throw ddpm::base::CommunicationError("NCCL: no answer");
  if (how == "throws-odd") throw std::runtime_error("out of something");
  return "NCCL: remote process exited";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "reports";
  ddpm::comm::MpiSession session(argc, argv);
  const ddpm::base::Logger log(session.rank(), session.size());
  const ddpm::comm::Watchdog watchdog(session, {}, log);
  if (session.rank() == 1) session.set_failure_check([how] { return fail(how); });
  session.world().send({&argc, 1, ddpm::base::DType::i32}, 1 - session.rank(), 7).wait();
  session.world().receive({&argc, 1, ddpm::base::DType::i32}, 1 - session.rank(), 8).wait();  // nobody sends it
  return 0;
}
