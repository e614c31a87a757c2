// data::prepare::look_at_cifar and parse_cifar_names: what is accepted is whole records with labels of the classes.
//
// Byte 0: 1 is CIFAR-100; 2 takes the rest as names; 4 makes records of the rest, as many as byte 1 says modulo 8: it
// is repeated, and byte i is a label of record i. So a few bytes make files that are whole.
#include "data/prepare/cifar.h"

#include <string>

#include "base/error.h"
#include "fuzz/records.h"

namespace {

std::string records_of(std::string_view bytes, size_t count, size_t label_bytes) {
  std::string repeated;
  while (repeated.size() < bytes.size() + 3072) repeated += bytes;
  std::string file;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i % bytes.size();
    file.append(label_bytes, repeated[at]).append(repeated, at, 3072);
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ddpm::data::prepare::Cifar;
  if (size < 3) return 0;
  const Cifar kind = (data[0] & 1U) != 0 ? Cifar::hundred : Cifar::ten;
  const size_t label_bytes = kind == Cifar::hundred ? 2 : 1;
  const std::string_view rest = ddpm::fuzz::text_of(data + 2, size - 2);
  try {
    if ((data[0] & 2U) != 0) {
      const auto names = ddpm::data::prepare::parse_cifar_names(rest, kind, "file");
      ddpm::fuzz::require(names.size() == (kind == Cifar::hundred ? 100U : 10U), "each class has a name");
      return 0;
    }
    const std::string file = (data[0] & 4U) != 0 ? records_of(rest, data[1] % 8U, label_bytes) : std::string(rest);
    const ddpm::fuzz::MemoryFile memory(file);
    const auto found = ddpm::data::prepare::look_at_cifar(memory.path(), kind, (data[1] & 128U) != 0);
    const size_t record = label_bytes + 3072;
    ddpm::fuzz::require(static_cast<size_t>(found.count) * record == file.size(), "the records fill the file");
    ddpm::fuzz::read_all(found, [&](int64_t index, const ddpm::data::prepare::Sample& sample) {
      const std::string_view own = std::string_view(file).substr(static_cast<size_t>(index) * record, record);
      const auto same = [](char a, int64_t b) { return static_cast<uint8_t>(a) == b; };
      ddpm::fuzz::require(!found.labels || same(own[label_bytes - 1], sample.label),
                          "a label is the byte of its place");
      const auto& pixels = ddpm::fuzz::bytes_of(sample).pixels;
      ddpm::fuzz::require(same(own[label_bytes], pixels[0]) && same(own.back(), pixels[3071]),
                          "an image begins and ends with those of its record");
    });
  } catch (const ddpm::base::DatasetError&) {
  }
  return 0;
}
