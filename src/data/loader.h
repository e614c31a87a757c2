// Reads micro-batches ahead of training, in a background thread.
//
// The shuffle mixes the images of a pool, which lie in the file one after another, and each rank needs its share of
// them. One by one, in training's order, they would be small reads all over the pool. So the thread reads several
// micro-batches together, in the order of the file, with one read for images that are neighbours or nearly so.
//
// A bare file without digests must not change while it is read. The file system is asked about it once after such a
// group of reads (up to kReadTogetherBytes, or one micro-batch), however many images it has, and again where a read
// fails. The group's images are handed over only then, so that none of a changed file's is trained on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "data/order.h"
#include "layout/batch_layout.h"

namespace ddpm::data {

/// The images of one micro-batch on one rank, or windows of them.
struct MicroBatch {
  int64_t step = 0;              ///< steps done before this one
  int64_t micro = 0;             ///< accumulation step
  layout::Range positions;       ///< in the global batch; n = positions.size()
  std::vector<int64_t> indices;  ///< [n] which image of the dataset
  std::vector<std::vector<std::byte>>
      values;  ///< for each of the dataset's fields(), [n, shape...] as it is stored; windows: as ImageWindows::read_of
  bool windows = false;  ///< fields that are read in blocks hold windows, not whole images
};

/// Reads the window of image `place` of the batch into its room. The files are to be looked at afterwards, as
/// Dataset::read_unconfirmed() has it.
void read_window(const Dataset& dataset, const ImageWindows& windows, std::size_t field, MicroBatch& batch,
                 int64_t place);

/// Bytes of images that are read together, where there are so many micro-batches.
inline constexpr int64_t kReadTogetherBytes = int64_t{32} << 20;

/// Bytes that each of so many ranks reads together where they read tiles of the same images: kReadTogetherBytes in all.
constexpr int64_t read_together_bytes(int64_t tiles) { return kReadTogetherBytes / tiles; }

/// The most micro-batches of `batch_bytes` that a loader of `batches` in all holds at a time.
int64_t micro_batches_held(int64_t prefetch, int64_t batch_bytes, int64_t batches,
                           int64_t together_bytes = kReadTogetherBytes);

struct BatchLoaderOptions {
  layout::BatchLayout layout;
  int64_t rank = 0;                                    ///< this rank's number among the data-parallel ranks
  int64_t first_step = 0;                              ///< steps already done
  int64_t end_step = 0;                                ///< steps of the whole run: the first that is not read
  int64_t prefetch = 2;                                ///< micro-batches read ahead, at least; 0 reads in next()
  std::optional<ImageWindows> windows = std::nullopt;  ///< read in place of whole images
  int64_t together_bytes = kReadTogetherBytes;
};

class BatchLoader {
 public:
  /// Starts reading at once. `dataset` and its communicator must outlive the loader; nothing here is collective.
  BatchLoader(const Dataset& dataset, const ImageOrder& order, const BatchLoaderOptions& options);
  /// Stops the thread after the one read that it is in, of a few MiB at most, or of one chunk of a chunked file, or of
  /// a whole image that is compared before its first window.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next micro-batch: step by step from first_step, micro-batch by micro-batch. Throws what the reading thread
  /// threw, and InternalError past end_step.
  MicroBatch next();
  /// Whether next() has a micro-batch at hand, read ahead.
  [[nodiscard]] bool ready() const;
  /// Seconds that next() has waited for data, in all.
  [[nodiscard]] double seconds_waited() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddpm::data
