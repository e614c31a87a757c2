// The sets that a run was trained on, one after the other (data.continue_with_other).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/order.h"

namespace ddpm::train {

/// The steps that one set has served.
struct DataPeriod {
  int64_t first_step = 0;    ///< steps done before this set
  int64_t first_epoch = 0;   ///< epoch that its first image begins
  int64_t images = 0;        ///< how many images the set has
  int64_t pass = 0;          ///< images of a pass over it: more, where its parts have weights
  std::string name = {};     ///< the last part of its path
  std::string content_hash;  ///< as data::Dataset has it
  /// The sets that its images are dealt out from. Empty: a period that has ended, or of an earlier version.
  std::vector<data::SetShare> shares = {};
  data::SetOrders set_orders = data::SetOrders::alike;  ///< how they are related; alike in an earlier version
  friend bool operator==(const DataPeriod&, const DataPeriod&) = default;
};

/// Passes over the training set after `images_seen` images in steps of `global_size`, over each set as it was.
double passes_of(const std::vector<DataPeriod>& history, int64_t images_seen, int64_t global_size);

/// "flowers, 1000 images, steps 1 to 500; ..." of all but the last one; "" if it is the only one.
std::string text_of_earlier(const std::vector<DataPeriod>& history);

/// What a checkpoint's state holds of them. Reading what is damaged, or no history of a run that has come to the
/// state's "step", throws OutputError, which begins with `origin`; a state without them, of an earlier version, gives
/// none.
void write_data_history(const std::vector<DataPeriod>& history, base::Json& state);
std::vector<DataPeriod> read_data_history(const base::Json& state, const std::string& origin);

}  // namespace ddpm::train
