// Distances of sets of features on 1, 2 and 3 ranks: closed forms, brute force, and the same bits as on one rank.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "base/pulse.h"
#include "base/random.h"
#include "eval/frechet.h"
#include "eval/kernel_distance.h"
#include "eval/manifold.h"
#include "eval/memorisation.h"
#include "support/mpi_test.h"

namespace ddpm::eval {
namespace {

using test::world;

at::Tensor normals(int64_t rows, int64_t columns, uint64_t seed) {
  at::Tensor values = at::empty({rows, columns}, at::kFloat);
  base::RandomSequence(seed, base::Stream::noise, 0, 0)
      .fill_normal({values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values.to(at::kDouble);
}

void expect_same_bits(const Estimate& a, const Estimate& b) {
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.standard_error, b.standard_error);
  EXPECT_EQ(a.low, b.low);
}

TEST(Distances, OfGaussiansWithDiagonalCovariancesAreTheClosedForm) {
  const GaussianFit a = fit_gaussian(normals(5000, 4, 1));
  GaussianFit b = a;
  b.mean = a.mean + 0.5;
  b.covariance = a.covariance * 9.0;  // deviations three times as large: (3 - 1)² tr C
  const double trace = a.covariance.diagonal().sum().item<double>();
  EXPECT_NEAR(FrechetReference(a).distance(b), 4 * 0.25 + 4.0 * trace, 1e-9);
  EXPECT_NEAR(FrechetReference(a).distance(a), 0.0, 1e-9);
  // One direction in which nothing varies.
  b.covariance.select(0, 2).zero_();
  b.covariance.select(1, 2).zero_();
  EXPECT_GT(FrechetReference(b).distance(a), 0.0);
}

TEST(Distances, HaveTheSameBitsOnAnyNumberOfRanks) {
  const auto alone = world().alone();
  const at::Tensor samples = normals(1050, 6, 2);
  const at::Tensor data = normals(1100, 6, 3) * 1.1;
  const FrechetDistance frechet = frechet_distance(world(), samples, data);
  const FrechetDistance frechet_alone = frechet_distance(*alone, samples, data);
  expect_same_bits(frechet.measured, frechet_alone.measured);
  expect_same_bits(frechet.unbiased, frechet_alone.unbiased);
  const KernelDistance kernel = kernel_distance(world(), samples, data);
  const KernelDistance kernel_alone = kernel_distance(*alone, samples, data);
  EXPECT_EQ(kernel.whole.whole, kernel_alone.whole.whole);
  EXPECT_EQ(kernel.whole.without, kernel_alone.whole.without);
  EXPECT_EQ(kernel.whole.without_shared, kernel_alone.whole.without_shared);
  ASSERT_TRUE(kernel.subsets && kernel_alone.subsets);
  expect_same_bits(*kernel.subsets, *kernel_alone.subsets);
  EXPECT_FALSE(kernel_distance(world(), samples.slice(0, 0, 600), data).subsets) << "of subsets that are all the set";
  const ManifoldScores scores = manifold_scores(world(), samples, data, 3);
  const ManifoldScores scores_alone = manifold_scores(*alone, samples, data, 3);
  EXPECT_TRUE(at::equal(scores.density, scores_alone.density));
  EXPECT_TRUE(at::equal(scores.recall, scores_alone.recall));
}

TEST(Distances, GiveSignsOfLifeWhileTheyCompute) {
  const at::Tensor samples = normals(2000, 4, 11);
  const at::Tensor data = normals(1500, 4, 12);
  const auto signs_of = [&](const std::function<void()>& work) {
    const base::Pulse life;
    work();
    return life.count() * world().size();  // blocks are dealt to the ranks
  };
  EXPECT_GE(signs_of([&] { kernel_distance(world(), samples, data); }), 4 + 3 + kKernelSubsets);
  EXPECT_GE(signs_of([&] { manifold_scores(world(), samples, data, 3); }), 2 * (4 + 3));
  EXPECT_GE(signs_of([&] { frechet_distance(world(), samples, data); }), 10);
  NeighbourSearch search(samples.to(at::kFloat), 1);
  EXPECT_GE(signs_of([&] { search_all(world(), search, data.size(0), rows_of(data).read); }), 2 * 3);
}

TEST(Distances, JackknifeErrorsAreTheSpreadOverIndependentSets) {
  constexpr int64_t kSets = 24;
  const at::Tensor data = normals(3000, 3, 4);
  std::vector<double> frechet;
  std::vector<double> frechet_errors;
  for (int64_t i = 0; i < kSets; ++i) {
    const at::Tensor samples = normals(200, 3, 100 + static_cast<uint64_t>(i)) * 1.5;
    const FrechetDistance distance = frechet_distance(world(), samples, data);
    frechet.push_back(distance.measured.value);
    frechet_errors.push_back(distance.measured.standard_error);
  }
  const double spread = mean_of(frechet).standard_error * std::sqrt(static_cast<double>(kSets));
  const double told = mean_of(frechet_errors).value;
  EXPECT_GT(told, 0.6 * spread);
  EXPECT_LT(told, 1.7 * spread);
}

TEST(Neighbours, AreThoseOfBruteForceAlsoAmongEqualPictures) {
  const at::Tensor queries = normals(12, 5, 5).to(at::kFloat);
  at::Tensor references = normals(1200, 5, 6).to(at::kFloat);
  references[700].copy_(references[3]);  // twins
  references[900].copy_(queries[7]);
  references[1100].copy_(queries[7]);
  NeighbourSearch search(queries, 2);
  search_all(world(), search, references.size(0), rows_of(references).read);
  for (int64_t q = 0; q < queries.size(0); ++q) {
    std::vector<Neighbour> all;
    for (int64_t r = 0; r < references.size(0); ++r) {
      const at::Tensor difference = queries[q].to(at::kDouble) - references[r].to(at::kDouble);
      all.push_back({.distance = std::sqrt(difference.square().sum().item<double>()), .index = r});
    }
    std::ranges::stable_sort(all, {}, &Neighbour::distance);
    for (int64_t n = 0; n < 2; ++n) {
      EXPECT_EQ(search.of(q, n).index, all[static_cast<std::size_t>(n)].index) << q;
      EXPECT_NEAR(search.of(q, n).distance, all[static_cast<std::size_t>(n)].distance, 1e-12);
    }
  }
  EXPECT_EQ(search.of(7, 0), (Neighbour{.distance = 0.0, .index = 900}));
  EXPECT_EQ(search.of(7, 1), (Neighbour{.distance = 0.0, .index = 1100}));
}

TEST(Neighbours, AreThoseOfBruteForceOfValuesFarFromZero) {
  for (const double mean : {101325.0, -3e6, 1e-25}) {
    const double scale = std::abs(mean) < 1.0 ? 1e-25 : 10.0;
    const auto values = [&](uint64_t seed) { return (normals(700, 1100, seed) * scale + mean).to(at::kFloat); };
    const at::Tensor references = values(15);
    const at::Tensor queries = at::cat({values(16).slice(0, 0, 30), references.slice(0, 600, 630)});
    NeighbourSearch search(queries, 2);
    search_all(world(), search, references.size(0), rows_of(references).read);
    for (int64_t q = 0; q < queries.size(0); ++q) {
      const at::Tensor off = references.to(at::kDouble) - queries[q].to(at::kDouble);
      const at::Tensor distances = (off / scale).square().sum(1).sqrt() * scale;
      const auto [nearest, places] = distances.topk(2, 0, /*largest=*/false);
      for (int64_t n = 0; n < 2; ++n) {
        EXPECT_EQ(search.of(q, n).index, places[n].item<int64_t>()) << mean << ", query " << q;
        EXPECT_NEAR(search.of(q, n).distance, nearest[n].item<double>(), 1e-9 * scale) << mean << ", query " << q;
      }
      if (q < 30) continue;
      EXPECT_EQ(search.of(q, 0), (Neighbour{.distance = 0.0, .index = 570 + q}));
    }
  }
}

TEST(Neighbours, TellCopiesFromNewPictures) {
  const at::Tensor train = normals(600, 8, 7).to(at::kFloat);
  const at::Tensor held_out = normals(300, 8, 8).to(at::kFloat);
  const at::Tensor fresh = normals(200, 8, 9).to(at::kFloat);
  const at::Tensor copies = train.slice(0, 0, 200) + normals(200, 8, 10).to(at::kFloat) * 0.05;
  const Memorisation honest = find_memorised(world(), fresh, rows_of(train), held_out);
  const Memorisation copied = find_memorised(world(), at::cat({fresh, copies}), rows_of(train), held_out);
  const auto nearer = [](const Memorisation& found) { return estimate_of(*found.nearer, std::ssize(found.distances)); };
  EXPECT_NEAR(nearer(honest).value, 0.5, 4.0 * nearer(honest).standard_error);
  EXPECT_GT(nearer(copied).value, 0.5 + 4.0 * nearer(copied).standard_error);
  EXPECT_GT(mean_of(copied.copies).value, 0.6);
  const Estimate usual = mean_of(honest.copies_of_reference);
  EXPECT_NEAR(mean_of(honest.copies).value, usual.value, 5.0 * usual.standard_error);

  // Without held-out pictures the training set's own distances are the measure.
  const Memorisation own = find_memorised(world(), copies, rows_of(train), {});
  EXPECT_FALSE(own.nearer);
  EXPECT_GT(*std::ranges::min_element(own.of_reference), 0.0);  // a picture is not its own neighbour
  EXPECT_LT(mean_of(own.distances).value, 0.5 * mean_of(own.of_reference).value);
}

TEST(Neighbours, ShareBelowCountsPairsAndHalvesTies) {
  const LeftOut share = share_below({1.0, 2.0, 3.0}, {2.0, 4.0});
  EXPECT_DOUBLE_EQ(share.whole, (2.0 + 1.5 + 1.0) / 6.0);
}

}  // namespace
}  // namespace ddpm::eval
