#include "train/block_norm_monitor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/exact_sum.h"
#include "comm/collectives.h"
#include "layout/shard_layout.h"

namespace ddpm::train {
namespace {

/// The squares of a block's values, as far as they are finite.
struct Squares {
  base::ExactSum sum;
  int64_t odd = 0;

  /// Ranks cut a parameter at multiples of so many of its elements: these are summed alike on any number of ranks.
  static constexpr int64_t kTogether = layout::kFlatAlignment;

  void add(std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); i += kTogether) {
      double squares = 0.0;
      for (const float value : values.subspan(i, std::min<std::size_t>(kTogether, values.size() - i)))
        squares += static_cast<double>(value) * static_cast<double>(value);
      if (std::isfinite(squares)) {
        sum.add(squares);
      } else {
        ++odd;
      }
    }
  }
};

/// The blocks of all stages, in the order of execution: ranks that hold earlier units come first.
std::vector<std::string> blocks_of_all(const parallel::ParameterArena& arena, comm::Communicator& world) {
  std::string own;
  for (const auto& entry : arena.entries()) own += block_of(entry.name) + '\n';
  std::vector<std::string> blocks;
  for (const std::string& names : comm::all_gather(world, own)) {
    for (std::size_t begin = 0; begin < names.size();) {
      const std::size_t end = names.find('\n', begin);
      const std::string block = names.substr(begin, end - begin);
      if (std::ranges::find(blocks, block) == blocks.end()) blocks.push_back(block);
      begin = end + 1;
    }
  }
  return blocks;
}

}  // namespace

std::string block_of(const std::string& parameter) {
  const std::size_t first = parameter.find('.');
  if (first == std::string::npos) return parameter;
  const std::size_t second = std::min(parameter.find('.', first + 1), parameter.size());
  const bool numbered = second > first + 1 && std::all_of(parameter.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                                                          parameter.begin() + static_cast<std::ptrdiff_t>(second),
                                                          [](char c) { return c >= '0' && c <= '9'; });
  return parameter.substr(0, numbered ? second : first);
}

BlockNormMonitor::BlockNormMonitor(bool wanted, const Logging& logging, const parallel::ParameterArena& arena,
                                   const layout::Mesh& mesh, comm::Communicator& world)
    : wanted_(wanted),
      logging_(logging),
      arena_(arena),
      world_(world),
      counts_(mesh.coordinate(world.rank(), layout::kReplicas | layout::Axis::island) == 0),
      blocks_(wanted ? blocks_of_all(arena, world) : std::vector<std::string>()) {
  if (!wanted) return;
  for (const auto& entry : arena.entries()) {
    const auto found = std::ranges::find(blocks_, block_of(entry.name));
    block_of_entry_.push_back(static_cast<std::size_t>(found - blocks_.begin()));
  }
}

void BlockNormMonitor::run(FinishedStep& step) {
  step.result.gradient_norm_blocks = norms(arena_.gradient_pieces(), 1.0 / step.result.loss_scale);
  step.result.weight_norm_blocks = norms(arena_.master(), 1.0);
}

observe::NamedValues BlockNormMonitor::norms(const parallel::StateBuffer& pieces, double factor) const {
  std::vector<Squares> squares(blocks_.size());
  const bool counted_elsewhere = arena_.sharding().channel_part > 0;  // what is not cut
  for (std::size_t p = 0; counts_ && p < pieces.size(); ++p) {
    const at::Tensor piece = pieces[p].to(at::kCPU);
    const layout::Range held = arena_.pieces()[p];
    const std::span values(piece.const_data_ptr<float>(), static_cast<std::size_t>(piece.numel()));
    for (std::size_t e = 0; e < arena_.entries().size(); ++e) {
      const layout::Range part = layout::intersect(held, arena_.entries()[e].range);
      if (part.empty() || (counted_elsewhere && !arena_.entries()[e].split.cuts())) continue;
      squares[block_of_entry_[e]].add(
          values.subspan(static_cast<std::size_t>(part.begin - held.begin), static_cast<std::size_t>(part.size())));
    }
  }
  std::vector<int64_t> row;
  for (Squares& block : squares) {
    const auto limbs = block.sum.limbs();
    row.insert(row.end(), limbs.begin(), limbs.end());
    row.push_back(block.odd);
  }
  comm::all_reduce(world_, row, comm::ReduceOp::sum);
  observe::NamedValues norms;
  auto next = row.begin();
  for (std::size_t b = 0; b < squares.size(); ++b) {
    const auto limbs = squares[b].sum.limbs();
    std::copy_n(next, limbs.size(), limbs.begin());
    next += std::ssize(limbs);
    const bool finite = *next++ == 0;
    norms.emplace_back(blocks_[b],
                       finite ? std::sqrt(squares[b].sum.value()) * factor : std::numeric_limits<double>::quiet_NaN());
  }
  return norms;
}

}  // namespace ddpm::train
