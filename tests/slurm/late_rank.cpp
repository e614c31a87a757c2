// A program whose last rank comes to its end some seconds after the others.
#include <chrono>
#include <thread>

#include "train/program.h"

int main(int argc, char** argv) {
  return ddpm::train::run_program(argc, argv, [](const ddpm::train::Runtime& runtime) {
    if (runtime.session.rank() == runtime.session.size() - 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  });
}
