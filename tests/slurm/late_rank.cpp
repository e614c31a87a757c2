// late_rank SECONDS: a program whose last rank comes to its end so much later than the others.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "run/run_program.h"

int main(int argc, char** argv) {
  const std::chrono::seconds late(argc > 1 ? std::atoi(argv[1]) : 0);
  return ddpm::run::run_program(argc, argv, [late](const ddpm::run::Runtime& runtime) {
    if (runtime.session.rank() == runtime.session.size() - 1) std::this_thread::sleep_for(late);
  });
}
