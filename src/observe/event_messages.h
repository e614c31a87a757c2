// The protocol-buffer messages of TensorBoard's event files, and the record that frames each.
//
// Field numbers: tensorboard/compat/proto/{event,summary,tensor,types}.proto and plugins/hparams/plugin_data.proto.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/protobuf.h"
#include "observe/metrics.h"

namespace ddpm::observe {

struct Picture {
  std::string tag;  ///< "samples"
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::string png;  ///< the bytes of the file
};

struct HyperParameter {
  using Value = std::variant<bool, double, std::string>;
  std::string name;  ///< "optimizer.learning_rate"
  Value value;
};

/// A whole record of the file: length, masked CRC-32C of the length, data, masked CRC-32C of the data.
std::string record(std::string_view data);

/// The first record of every file says which version of the format it has.
std::string file_version_event(double wall_time);
/// What older files hold of `step` and later steps no longer counts.
std::string session_start_event(double wall_time, int64_t step);

/// Values of a Summary, of which each has a tag.
base::ProtoMessage scalar_value(const Scalar& scalar);
base::ProtoMessage picture_value(const Picture& picture);
base::ProtoMessage text_value(std::string_view tag, std::string_view markdown);
/// What a run was configured with, as the HParams plugin reads it.
base::ProtoMessage hyperparameters_value(std::span<const HyperParameter> parameters, std::string_view run,
                                         double start_time);
/// The event that holds them.
std::string summary_event(double wall_time, int64_t step, std::span<const base::ProtoMessage> values);

}  // namespace ddpm::observe
