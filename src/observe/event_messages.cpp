#include "observe/event_messages.h"

#include <bit>
#include <utility>

#include "base/crc32c.h"

namespace ddpm::observe {

namespace {

using base::ProtoMessage;

// DataType and DataClass of tensors.
constexpr int64_t kFloat = 1;
constexpr int64_t kString = 7;
constexpr int64_t kClassTensor = 2;

/// Event { double wall_time = 1; int64 step = 2; ... }, to which the one field that says what happened is added.
ProtoMessage event(double wall_time, int64_t step) {
  ProtoMessage message;
  message.add(1, wall_time);
  message.add(2, step);
  return message;
}

/// TFRecord hides its checksums from checksums of the file that holds them: rotate right by 15 bits, add a constant.
uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(base::crc32c(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8U;
}

template <typename Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (unsigned i = 0; i < sizeof(Unsigned); ++i) out.push_back(static_cast<char>((value >> (8U * i)) & 0xFFU));
}

/// TensorShapeProto { repeated Dim dim = 2 }, Dim { int64 size = 1 }, of one axis.
ProtoMessage shape_of(int64_t length) {
  ProtoMessage dimension;
  dimension.add(1, length);
  ProtoMessage shape;
  shape.add(2, std::move(dimension));
  return shape;
}

/// SummaryMetadata { PluginData plugin_data = 1; DataClass data_class = 4 }, PluginData { string plugin_name = 1; bytes
/// content = 2 }.
ProtoMessage metadata_of(std::string_view plugin, const ProtoMessage* content = nullptr) {
  ProtoMessage data;
  data.add(1, plugin);
  if (content != nullptr) data.add(2, *content);
  ProtoMessage metadata;
  metadata.add(1, std::move(data));
  metadata.add(4, kClassTensor);
  return metadata;
}

/// Value { string tag = 1; TensorProto tensor = 8; SummaryMetadata metadata = 9 }.
ProtoMessage tensor_value(std::string_view tag, ProtoMessage tensor, ProtoMessage metadata) {
  ProtoMessage value;
  value.add(1, tag);
  value.add(8, std::move(tensor));
  value.add(9, std::move(metadata));
  return value;
}

/// google.protobuf.Value { double number_value = 2; string string_value = 3; bool bool_value = 4 }.
ProtoMessage any_value(const HyperParameter::Value& value) {
  ProtoMessage message;
  if (const bool* flag = std::get_if<bool>(&value)) message.add(4, int64_t{*flag ? 1 : 0});
  if (const double* number = std::get_if<double>(&value)) message.add(2, *number);
  if (const std::string* text = std::get_if<std::string>(&value)) message.add(3, std::string_view(*text));
  return message;
}

}  // namespace

std::string record(std::string_view data) {
  std::string out;
  put_little_endian(out, uint64_t{data.size()});
  put_little_endian(out, masked_crc(out));
  out.append(data);
  put_little_endian(out, masked_crc(data));
  return out;
}

/// Event.file_version = 3.
std::string file_version_event(double wall_time) {
  ProtoMessage message = event(wall_time, 0);
  message.add(3, std::string_view("brain.Event:2"));
  return message.bytes();
}

/// Event.session_log = 7, SessionLog { SessionStatus status = 1 [START = 1] }.
std::string session_start_event(double wall_time, int64_t step) {
  ProtoMessage session_log;
  session_log.add(1, int64_t{1});
  ProtoMessage message = event(wall_time, step);
  message.add(7, std::move(session_log));
  return message.bytes();
}

/// Value { string tag = 1; float simple_value = 2 }.
ProtoMessage scalar_value(const Scalar& scalar) {
  ProtoMessage value;
  value.add(1, std::string_view(scalar.tag));
  value.add(2, static_cast<float>(scalar.value));
  return value;
}

/// Value { string tag = 1; Image image = 4 }, Image { int32 height = 1; int32 width = 2; int32 colorspace = 3; bytes
/// encoded_image_string = 4 }; the colour space is the number of channels.
ProtoMessage picture_value(const Picture& picture) {
  ProtoMessage image;
  image.add(1, picture.height);
  image.add(2, picture.width);
  image.add(3, picture.channels);
  image.add(4, std::string_view(picture.png));
  ProtoMessage value;
  value.add(1, std::string_view(picture.tag));
  value.add(4, std::move(image));
  return value;
}

/// TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2; repeated bytes string_val = 8 }.
ProtoMessage text_value(std::string_view tag, std::string_view markdown) {
  ProtoMessage tensor;
  tensor.add(1, kString);
  tensor.add(2, shape_of(1));
  tensor.add(8, markdown);
  return tensor_value(tag, std::move(tensor), metadata_of("text"));
}

/// HParamsPluginData { SessionStartInfo session_start_info = 3 }, SessionStartInfo { map<string, Value> hparams = 1;
/// string group_name = 4; double start_time_secs = 5 }; an entry of a map is { key = 1; value = 2 }. The plugin reads
/// the metadata alone, so the tensor is empty.
ProtoMessage hyperparameters_value(std::span<const HyperParameter> parameters, std::string_view run,
                                   double start_time) {
  ProtoMessage session;
  for (const HyperParameter& parameter : parameters) {
    ProtoMessage entry;
    entry.add(1, std::string_view(parameter.name));
    entry.add(2, any_value(parameter.value));
    session.add(1, std::move(entry));
  }
  session.add(4, run);
  session.add(5, start_time);
  ProtoMessage content;
  content.add(3, std::move(session));
  ProtoMessage tensor;
  tensor.add(1, kFloat);
  tensor.add(2, shape_of(0));
  return tensor_value("_hparams_/session_start_info", std::move(tensor), metadata_of("hparams", &content));
}

/// Event.summary = 5, Summary { repeated Value value = 1 }.
std::string summary_event(double wall_time, int64_t step, std::span<const ProtoMessage> values) {
  ProtoMessage summary;
  for (const ProtoMessage& value : values) summary.add(1, value);
  ProtoMessage message = event(wall_time, step);
  message.add(5, std::move(summary));
  return message.bytes();
}

}  // namespace ddpm::observe
