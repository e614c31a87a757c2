#include "train/program.h"

#include <cstdio>
#include <exception>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/launch.h"

namespace ddpm::train {
namespace {

int run(const std::function<void(const Runtime&)>& body, comm::MpiSession& session) {
  const base::Logger log(session.rank(), session.size());
  const auto files = base::posix_file_system();
  try {
    body(Runtime{session, *files, log});
    session.finalize();
    return static_cast<int>(base::ExitCode::done);
  } catch (const comm::AgreedError& error) {
    // Tasks of a launcher that started single programs are each rank 0 of 1: one of them speaks.
    const bool first = comm::launched_as_first(comm::process_environment());
    if (error.speaks() && (session.size() > 1 || first)) log.error("{}", error.what());
    session.finalize();
    return static_cast<int>(error.code());
  } catch (const base::Error& error) {
    log.error("{}", error.what());
    session.abort(static_cast<int>(error.code()));
  } catch (const std::exception& error) {
    log.error("{}", error.what());
    session.abort(static_cast<int>(base::ExitCode::bug));
  }
}

}  // namespace

int run_program(int argc, char** argv, const std::function<void(const Runtime& runtime)>& body) {
  try {
    comm::check_can_start(comm::process_environment());
  } catch (const base::Error& error) {  // the same on every task
    if (comm::launched_as_first(comm::process_environment())) std::fprintf(stderr, "ddpm: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  try {
    comm::die_with_launcher();
    comm::MpiSession session(argc, argv);
    return run(body, session);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "ddpm: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace ddpm::train
