// Reads the training set of a configuration for foreign_test.py.
//
//   data_foreign_dump CONFIG.toml FOLDER   writes FOLDER/info.json, and for each field FOLDER/ROLE.raw with the values
//   of
//                                          all images
#include <algorithm>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/json.h"
#include "base/named.h"
#include "comm/mpi_session.h"
#include "config/resolve.h"
#include "data/config.h"
#include "data/dataset.h"
#include "data/field_json.h"

namespace {

using namespace ddpm;

void write(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

void dump(comm::Communicator& comm, const std::filesystem::path& file, const std::filesystem::path& folder) {
  data::DataConfig c;
  config::Schema schema;
  config::Section section = schema.section("data", "", config::Identity::fixed);
  data::describe(section, c);
  config::apply(schema, config::read_toml(file), file.string());
  data::validate(c);
  data::Dataset set = data::Dataset::open(comm, data::train_sources(c), data::dataset_options(c));
  for (std::size_t f = 0; f < set.fields().size(); ++f) {
    const data::Field& field = set.fields()[f];
    const std::string name = std::string(base::name_of(field.role)) + ".raw";
    if (!field.is_read_in_blocks()) {
      write(folder / name, set.held_values(f));
      continue;
    }
    // Neither all at once nor one by one: blocks cross the borders of files.
    std::vector<std::byte> values(static_cast<std::size_t>(set.size()) * field.bytes());
    constexpr int64_t kBlock = 5;
    for (int64_t first = 0; first < set.size(); first += kBlock) {
      const int64_t count = std::min(kBlock, set.size() - first);
      set.read_unconfirmed(f, first, count,
                           std::span(values).subspan(static_cast<std::size_t>(first) * field.bytes(),
                                                     static_cast<std::size_t>(count) * field.bytes()));
    }
    set.expect_unchanged();
    write(folder / name, values);
  }
  for (std::size_t f = 0; f < set.set_fields().size(); ++f) {
    write(folder / (std::string(base::name_of(set.set_fields()[f].role)) + ".raw"), set.set_values(f));
  }
  std::ofstream(folder / "info.json") << base::OrderedJson{
      {"count", set.size()},
      {"fields", data::to_json(set.info().fields)},
      {"periodic", set.periodic_axes()},
      {"pairs_left_out", set.pairs_left_out()},
      {"content_hash", set.content_hash()}}.dump();
  set.close(comm);
}

}  // namespace

int main(int argc, char** argv) {
  comm::MpiSession session(argc, argv);
  int code = 0;
  try {
    dump(session.world(), argv[1], argv[2]);
  } catch (const base::Error& error) {
    std::cerr << error.what() << '\n';
    code = static_cast<int>(error.code());
  }
  session.finalize();
  return code;
}
