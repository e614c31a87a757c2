// A rank that says it has started, then waits far longer than its test.
#include <cstdio>

#include <unistd.h>

#include "comm/mpi_session.h"

int main(int argc, char** argv) {
  const ddpm::comm::MpiSession session(argc, argv);
  std::printf("%d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  sleep(300);
  return 0;
}
