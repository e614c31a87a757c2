#include "support/cuda_on_cpu.h"

#include <cstdio>
#include <memory>
#include <vector>

#include <ucontext.h>

dim3 threadIdx, blockIdx, blockDim, gridDim;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): CUDA's

namespace ddpm::test::cuda {
namespace {

constexpr std::size_t kStack = 128 * 1024;

enum class State : uint8_t { ready, at_block, at_warp, done };

struct Fiber {
  ucontext_t context{};
  // Not set to zero: of 32 pages that would be touched for each thread of each launch, kernels use one or two.
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);  // NOLINT(modernize-avoid-c-arrays)
  dim3 index;
  State state = State::ready;
  uint64_t given = 0;
  uint64_t seen[warpSize] = {};  ///< what the warp gave at its last exchange
};

/// The block that runs.
class Block {
 public:
  Block(dim3 size, const std::function<void()>& kernel) : kernel_(kernel), fibers_(size.x * size.y * size.z) {
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      fibers_[i].index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    }
  }

  void run() {
    for (Fiber& fiber : fibers_) {
      fiber.state = State::ready;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    current_block = this;
    while (run_ready()) {
      if (!release_warp() && !release_block()) stuck();
    }
    current_block = nullptr;
  }

  void wait(State state) {
    Fiber& fiber = *running_;
    fiber.state = state;
    swapcontext(&fiber.context, &scheduler_);
  }
  Fiber& running() { return *running_; }
  [[nodiscard]] int lane() const { return static_cast<int>((running_ - fibers_.data()) % warpSize); }

  static Block* current_block;

 private:
  static void enter() {
    Block& block = *current_block;
    block.kernel_();
    block.running_->state = State::done;
  }

  /// False when every fiber is done.
  bool run_ready() {
    bool alive = false;
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::ready) {
        running_ = &fiber;
        threadIdx = fiber.index;
        swapcontext(&scheduler_, &fiber.context);
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
    return true;
  }

  [[noreturn]] void stuck() const {
    std::fprintf(stderr, "block (%u, %u, %u): threads wait for each other in vain\n", blockIdx.x, blockIdx.y,
                 blockIdx.z);
    std::abort();
  }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_{};
  Fiber* running_ = nullptr;
};

Block* Block::current_block = nullptr;

}  // namespace

void launch(dim3 grid, dim3 block, const std::function<void()>& kernel) {
  gridDim = grid;
  blockDim = block;
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

void wait_for_block() { Block::current_block->wait(State::at_block); }

uint64_t exchange(uint64_t mine, int from) {
  Block& block = *Block::current_block;
  block.running().given = mine;
  block.wait(State::at_warp);
  return block.running().seen[from];
}

int lane() { return Block::current_block->lane(); }

}  // namespace ddpm::test::cuda
