// Scalars, pictures, texts and hyperparameters for TensorBoard: RUN/events/events.out.tfevents.*
//
// The file is a TFRecord stream (per record: length, masked CRC-32C of the length, data, masked CRC-32C of the data) of
// `tensorflow.Event` protocol-buffer messages (observe/event_messages.h).
//
// Used by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_identity.h"
#include "base/file_system.h"
#include "observe/event_messages.h"

namespace ddpm::observe {

class EventWriter {
 public:
  /// Writes a new file in `directory` (made when absent); nothing is created before the first write. `first_step` is
  /// the step with which training continues: TensorBoard then drops what earlier files in the folder hold of this step
  /// and later ones, as they were computed after the checkpoint that was loaded. `now` gives seconds since the Unix
  /// epoch.
  EventWriter(base::FileSystem& files, base::Path directory, std::string host, int64_t first_step,
              base::TimeSource now);

  /// Writes one event with all `scalars` and flushes it to the operating system.
  void write(int64_t step, std::span<const Scalar> scalars);
  /// Writes one event with all `pictures` and flushes it to the operating system.
  void write(int64_t step, std::span<const Picture> pictures);
  /// Writes what the run is configured with: its hyperparameters, under the name `run`, and `markdown` as a text. They
  /// belong to the first step of this start, so that a later start from the same checkpoint takes their place.
  void write_configuration(std::span<const HyperParameter> parameters, const std::string& run,
                           const std::string& markdown);
  /// On return every event is on disk.
  void sync();

  /// Whether events go into a file that has lost its name: it was removed, or another one took its place.
  [[nodiscard]] bool displaced() const;
  /// Closes that file: the next event goes into a new one, which tells TensorBoard that it continues from there.
  void reopen();

 private:
  void open();
  void write_values(int64_t step, std::span<const base::ProtoMessage> values);

  base::FileSystem& files_;
  base::Path directory_;
  std::string host_;
  int64_t first_step_;
  base::TimeSource now_;
  std::unique_ptr<base::WritableFile> file_;
  base::Path path_;                             ///< where file_ was created
  std::optional<base::FileIdentity> identity_;  ///< tells displaced() whether path_ still leads to file_
};

}  // namespace ddpm::observe
