// The nearest of many references to each of some queries, where the references are too many to hold at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/progress_report.h"
#include "comm/communicator.h"

namespace ddpm::eval {

struct Neighbour {
  double distance = 0.0;  ///< Euclidean, exact but for rounding in double precision
  int64_t index = -1;     ///< number of the reference
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

/// Finds the `keep` nearest references of each query, the nearest first; among those as near the earlier first.
class NeighbourSearch {
 public:
  /// `queries` is float32 [Q, D].
  NeighbourSearch(const at::Tensor& queries, int64_t keep);

  /// Looks at references [first, first + n), float32 [n, D] with n up to kReferenceBlock. Products in float32, of
  /// values less the queries' mean, tell the distances up to a known error; those that may be among the nearest are
  /// computed from the differences: equal pictures have distance 0.
  void add(int64_t first, const at::Tensor& references);
  /// Takes together what the ranks have found, which all get. Collective.
  void merge(comm::Communicator& world);

  /// The n-th nearest reference of a query, from 0 on. There are at least so many references.
  [[nodiscard]] const Neighbour& of(int64_t query, int64_t n) const;

 private:
  /// References that are looked at together, and their squared lengths.
  struct Block {
    int64_t first;
    at::Tensor rows;
    at::Tensor squares;
  };
  /// About the squared distances of queries [begin, end) from the rows, float64 [end - begin, rows].
  [[nodiscard]] at::Tensor about(int64_t begin, int64_t end, const at::Tensor& rows, const at::Tensor& squares) const;
  /// Takes the nearest ones of a block, whose `chosen` rows are about the nearest.
  void look_at(int64_t query, const Block& block, std::span<const double> squares, std::span<const int64_t> chosen);
  /// Whether a reference at about the squared distance `square` is surely none of the nearest.
  [[nodiscard]] bool too_far(double square, int64_t query, double reference_square) const;
  void consider(std::size_t query, const Neighbour& found);

  at::Tensor queries_;
  at::Tensor centre_;   // [D], subtracted from all pictures before they are multiplied
  at::Tensor squares_;  // [Q], of the queries less the centre
  int64_t keep_;
  std::vector<Neighbour> found_;  // [Q, keep]
};

/// References that are read at once. Their products with queries then have the same bits on any number of ranks.
inline constexpr int64_t kReferenceBlock = 512;

/// Has the ranks look at blocks of `count` references in turn, and merges. `read` gives references [first, first + n)
/// as float32 [n, D], makes no collective call, and may throw. Collective.
void search_all(comm::Communicator& world, NeighbourSearch& search, int64_t count,
                const std::function<at::Tensor(int64_t first, int64_t n)>& read,
                const base::ProgressReport& progress = {});

}  // namespace ddpm::eval
