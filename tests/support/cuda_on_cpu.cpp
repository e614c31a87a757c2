#include "support/cuda_on_cpu.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <ucontext.h>
#ifdef DDPM_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): CUDA's

namespace ddpm::test::cuda {
namespace {

constexpr std::size_t kStack = 128 * 1024;
constexpr unsigned kMostThreads = 1024;       // of a block
constexpr unsigned kMostAlongYAndZ = 65'535;  // blocks

// What ThreadSanitizer is told, where it watches: which thread runs, and what is ordered. This file's own accesses are
// none of its business: it is compiled without.
#ifdef DDPM_THREAD_SANITIZER
void* new_thread() { return __tsan_create_fiber(0); }
void* running_thread() { return __tsan_get_current_fiber(); }
void go_on_as(void* thread) { __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync); }
void tell(char& point) { __tsan_release(&point); }
void hear(char& point) { __tsan_acquire(&point); }
#else
void* new_thread() { return nullptr; }
void* running_thread() { return nullptr; }
void go_on_as(void* /*thread*/) {}
void tell(char& /*point*/) {}
void hear(char& /*point*/) {}
#endif

enum class State : uint8_t { ready, at_block, at_warp, done };

struct Fiber {
  ucontext_t context{};
  // Not set to zero: of 32 pages that would be touched for each thread of each launch, kernels use one or two.
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);  // NOLINT(modernize-avoid-c-arrays)
  void* thread = new_thread();                                                     // as long as the program
  dim3 index;
  State state = State::ready;
  uint64_t given = 0;
  uint64_t seen[warpSize] = {};  ///< what the warp gave at its last exchange
};

/// So many of them, which serve one launch after the other.
std::span<Fiber> fibers(std::size_t count) {
  static std::vector<Fiber> all;
  all.reserve(kMostThreads);  // they stay where they are
  while (all.size() < count) all.emplace_back();
  return std::span(all).first(count);
}

[[noreturn]] void end_program(const char* why) {
  std::fprintf(stderr, "block (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z, why);
  std::abort();
}

/// The block that runs.
class Block {
 public:
  Block(dim3 size, const std::function<void()>& kernel)
      : kernel_(kernel), fibers_(fibers(size.x * size.y * size.z)), order_(fibers_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      fibers_[i].index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    }
  }

  void run() {
    disturb();
    for (Fiber& fiber : fibers_) {
      fiber.state = State::ready;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    current_block = this;
    tell(begin_);
    while (run_ready()) {
      if (!release_warp() && !release_block()) end_program("threads wait for each other in vain");
    }
    hear(end_);
    current_block = nullptr;
  }

  void wait_for_warp() { wait(State::at_warp); }
  void wait_for_block() {
    // A thread that has gone on may come to the next barrier before another one has left this one: they take turns.
    char& barrier = barriers_[released_ % 2];
    tell(barrier);
    wait(State::at_block);
    hear(barrier);
  }
  Fiber& running() { return *running_; }
  [[nodiscard]] int lane() const { return static_cast<int>((running_ - fibers_.data()) % warpSize); }

  static Block* current_block;

 private:
  static void enter() {
    Block& block = *current_block;
    hear(block.begin_);
    block.kernel_();
    tell(block.end_);
    block.running_->state = State::done;
  }

  void wait(State state) {
    Fiber& fiber = *running_;
    fiber.state = state;
    swapcontext(&fiber.context, &scheduler_);
  }

  /// The next block's threads run in another order.
  void disturb() {
    static std::mt19937 random;
    static unsigned blocks = 0;
    switch (blocks++ % 3) {
      case 0:
        std::ranges::sort(order_);
        break;
      case 1:
        std::ranges::reverse(order_);
        break;
      default:
        std::ranges::shuffle(order_, random);
    }
  }

  /// False when every fiber is done.
  bool run_ready() {
    bool alive = false;
    void* const scheduler = running_thread();
    for (const std::size_t i : order_) {
      Fiber& fiber = fibers_[i];
      if (fiber.state == State::ready) {
        running_ = &fiber;
        threadIdx = fiber.index;
        go_on_as(fiber.thread);
        swapcontext(&scheduler_, &fiber.context);
        go_on_as(scheduler);
      }
      alive = alive || fiber.state != State::done;
    }
    return alive;
  }

  bool release_warp() {
    bool released = false;
    for (std::size_t begin = 0; begin < fibers_.size(); begin += warpSize) {
      const std::size_t end = std::min(fibers_.size(), begin + warpSize);
      bool all = true;
      for (std::size_t i = begin; i < end; ++i) all = all && fibers_[i].state == State::at_warp;
      if (!all) continue;
      for (std::size_t i = begin; i < end; ++i) {
        for (std::size_t k = begin; k < end; ++k) fibers_[i].seen[k - begin] = fibers_[k].given;
        fibers_[i].state = State::ready;
      }
      released = true;
    }
    return released;
  }

  bool release_block() {
    for (const Fiber& fiber : fibers_) {
      if (fiber.state == State::at_warp) return false;
    }
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::at_block) fiber.state = State::ready;
    }
    ++released_;
    return true;
  }

  const std::function<void()>& kernel_;
  std::span<Fiber> fibers_;
  std::vector<std::size_t> order_;
  ucontext_t scheduler_{};
  Fiber* running_ = nullptr;
  unsigned released_ = 0;  // barriers
  char begin_ = 0, end_ = 0, barriers_[2] = {};
};

Block* Block::current_block = nullptr;

}  // namespace

void launch(dim3 grid, dim3 block, const std::function<void()>& kernel) {
  gridDim = grid;
  blockDim = block;
  blockIdx = {0, 0, 0};
  const unsigned threads_of_block = block.x * block.y * block.z;
  if (threads_of_block == 0 || threads_of_block > kMostThreads) end_program("a block has 1 to 1,024 threads");
  if (grid.x == 0 || grid.x > INT32_MAX || grid.y - 1 >= kMostAlongYAndZ || grid.z - 1 >= kMostAlongYAndZ) {
    end_program("a grid has 1 to 2,147,483,647 blocks along x and 1 to 65,535 along y and z");
  }
  Block threads(block, kernel);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        threads.run();
      }
    }
  }
}

void wait_for_block() { Block::current_block->wait_for_block(); }

uint64_t exchange(uint64_t mine, int from) {
  Block& block = *Block::current_block;
  block.running().given = mine;
  block.wait_for_warp();
  return block.running().seen[from];
}

int lane() { return Block::current_block->lane(); }

}  // namespace ddpm::test::cuda
