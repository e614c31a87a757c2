// Runs at another number of threads as long as it lives.
#pragma once

#include <ATen/Parallel.h>

namespace ddpm::nn::test {

class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace ddpm::nn::test
