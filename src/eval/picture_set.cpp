#include "eval/picture_set.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "layout/dealt_batches.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kFeatureBatch = 32;  // pictures; a part of what the features' bits depend on
constexpr int64_t kBlockBytes = int64_t{64} << 20;

/// Pictures that are read at once where nothing depends on how many.
int64_t reading_block(const PictureSet& pictures) {
  return std::clamp(kBlockBytes / (pictures.values() * int64_t{sizeof(float)}), int64_t{1}, int64_t{512});
}

/// Throws OutputError unless a map gives as many features of some pictures as of others.
void expect_width(const FeatureMap& map, int64_t width, int64_t wanted) {
  if (width == wanted) return;
  throw base::OutputError("--extractor {}: answers with {} of some pictures and {} of others; wanted: as many of each",
                          map.name(), base::counted(width, "feature"), wanted);
}

/// Adds what each rank has of a table whose other rows are 0, a part at a time.
void sum_rows(comm::Communicator& world, at::Tensor& table) {
  const auto dtype = table.scalar_type() == at::kFloat ? base::DType::f32 : base::DType::f64;
  const int64_t part = int64_t{1} << 26;
  auto* bytes = static_cast<std::byte*>(table.mutable_data_ptr());
  for (int64_t begin = 0; begin < table.numel(); begin += part) {
    world
        .all_reduce({.data = bytes + begin * table.element_size(),
                     .count = std::min(part, table.numel() - begin),
                     .dtype = dtype},
                    comm::ReduceOp::sum)
        .wait();
  }
}

}  // namespace

PictureSet::PictureSet(const SampleSet& set, int64_t most)
    : set_(set), count_(most > 0 ? std::min(most, set.size()) : set.size()) {}

int64_t PictureSet::place(int64_t i) const { return i * set_.size() / count_; }

at::Tensor PictureSet::read(int64_t first, int64_t n) const {
  const std::vector<int64_t>& sides = set_.sides();
  at::Tensor pictures = at::empty({n, set_.channels(), sides.front(), sides.back()}, at::kFloat);
  const std::span out(pictures.mutable_data_ptr<float>(), static_cast<std::size_t>(pictures.numel()));
  if (count_ == set_.size()) {
    set_.read(first, n, Scale::model, out);
    return pictures;
  }
  const auto each = static_cast<std::size_t>(values());
  for (int64_t i = 0; i < n; ++i) {
    set_.read(place(first + i), 1, Scale::model, out.subspan(static_cast<std::size_t>(i) * each, each));
  }
  return pictures;
}

void for_each_block(comm::Communicator& world, const PictureSet& pictures, int64_t block,
                    const std::function<void(layout::Range range, const at::Tensor& pictures)>& work,
                    const base::ProgressReport& progress) {
  const layout::DealtBatches blocks{.count = pictures.size(), .batch_size = block, .ranks = world.size()};
  comm::agree(world, [&] {
    for (int64_t round = 0; round < blocks.rounds(); ++round) {
      const layout::Range mine = blocks.items(round, world.rank());
      if (!mine.empty()) work(mine, pictures.read(mine.begin, mine.size()));
      if (progress) progress(round + 1, blocks.rounds());
    }
  });
}

at::Tensor statistic_rows(comm::Communicator& world, const PictureSet& pictures, PictureStatistics& statistics,
                          const base::ProgressReport& progress) {
  const std::size_t width = statistics.width();
  at::Tensor rows = at::zeros({pictures.size(), static_cast<int64_t>(width)}, at::kDouble);
  const auto values = static_cast<std::size_t>(pictures.values());
  for_each_block(
      world, pictures, reading_block(pictures),
      [&](layout::Range range, const at::Tensor& block) {
        for (int64_t i = range.begin; i < range.end; ++i) {
          const float* picture = block.const_data_ptr<float>() + static_cast<std::size_t>(i - range.begin) * values;
          double* row = rows.mutable_data_ptr<double>() + static_cast<std::size_t>(i) * width;
          statistics.measure({picture, values}, {row, width});
        }
      },
      progress);
  sum_rows(world, rows);
  return rows;
}

at::Tensor features_of(comm::Communicator& world, const PictureSet& pictures, const FeatureMap& map,
                       const base::ProgressReport& progress, int64_t width) {
  at::Tensor features;
  for_each_block(
      world, pictures, kFeatureBatch,
      [&](layout::Range range, const at::Tensor& block) {
        const at::Tensor each = map.features(block);
        if (!features.defined()) features = at::zeros({pictures.size(), each.size(1)}, at::kDouble);
        expect_width(map, each.size(1), features.size(1));
        features.slice(0, range.begin, range.end).copy_(each);
      },
      progress);
  // A rank that had no pictures does not know how many features there are.
  std::array ends = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};  // least, -most
  if (features.defined()) ends = {features.size(1), -features.size(1)};
  comm::all_reduce(world, ends, comm::ReduceOp::min);
  comm::agree(world, [&] {
    expect_width(map, -ends[1], ends[0]);
    expect_width(map, ends[0], width > 0 ? width : ends[0]);
  });
  if (!features.defined()) features = at::zeros({pictures.size(), ends[0]}, at::kDouble);
  sum_rows(world, features);
  return features;
}

at::Tensor pixels_of(comm::Communicator& world, const PictureSet& pictures, const base::ProgressReport& progress) {
  at::Tensor pixels = at::zeros({pictures.size(), pictures.values()}, at::kFloat);
  for_each_block(
      world, pictures, reading_block(pictures),
      [&](layout::Range range, const at::Tensor& block) {
        pixels.slice(0, range.begin, range.end).copy_(block.flatten(1));
      },
      progress);
  sum_rows(world, pixels);
  return pixels;
}

}  // namespace ddpm::eval
