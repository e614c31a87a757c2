#include "cli/data_adopt.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "data/adopt.h"
#include "data/path_pattern.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;

struct AdoptArguments {
  std::vector<base::Path> files;
  bool json = false;
};

/// The bar counts MiB, of this rank.
base::ProgressReport progress_of(LazyBar& bar) {
  return [&bar](int64_t done, int64_t total) { bar.update(done >> 20U, std::max<int64_t>(total >> 20U, 1)); };
}

uint64_t compared_on_read(const data::Adoption& adoption) {
  uint64_t bytes = 0;
  for (const data::AdoptedArray& array : adoption.arrays) bytes += array.bytes;
  return bytes;
}

OrderedJson described(const base::Path& file, const data::Adoption& adoption) {
  OrderedJson arrays = OrderedJson::array();
  for (const data::AdoptedArray& array : adoption.arrays) {
    arrays.push_back({{"name", array.name}, {"bytes", array.bytes}, {"compared_on_read", array.compared_on_read}});
  }
  const uint64_t on_read = compared_on_read(adoption);
  return {{"file", file.string()},
          {"sidecar", data::adoption_of(file).string()},
          {"bytes", adoption.size},
          {"bytes_compared_on_read", on_read},
          {"bytes_compared_on_open", adoption.size - on_read},
          {"digests", adoption.digests + adoption.pieces},
          {"arrays", std::move(arrays)}};
}

std::string described_for_people(const base::Path& file, const data::Adoption& adoption, double seconds) {
  const uint64_t on_read = compared_on_read(adoption);
  return fmt::format(
      "{}: {} of {} bytes, in {} of {}, will be compared whenever they are read, {} bytes whenever the file is opened; "
      "{:.1f} s",
      data::adoption_of(file).string(), base::grouped(static_cast<int64_t>(on_read)),
      base::grouped(static_cast<int64_t>(adoption.size)),
      std::ranges::count_if(adoption.arrays, &data::AdoptedArray::compared_on_read),
      base::counted(adoption.arrays.size(), "array"), base::grouped(static_cast<int64_t>(adoption.size - on_read)),
      seconds);
}

/// What a name or a pattern stands for; rank 0 looks.
std::vector<base::Path> paths_like(comm::Communicator& world, const base::Path& pattern) {
  const std::string names = comm::agree_on_root(world, [&] {
    std::string lines;
    for (const base::Path& each : data::matching_paths(pattern)) lines += each.string() + '\n';
    return lines;
  });
  std::vector<base::Path> paths;
  std::istringstream all(names);
  for (std::string name; std::getline(all, name);) paths.emplace_back(name);
  return paths;
}

bool is_file(comm::Communicator& world, const base::Path& path) {
  return comm::ask_root(world, [&] {
    return base::read_as<base::DatasetError>([&] { return base::kind_of(path); }) == base::FileKind::regular;
  });
}

void run_adopt(Context& context, const AdoptArguments& arguments) {
  std::vector<base::Path> files;
  for (const base::Path& pattern : arguments.files) {
    std::ranges::move(paths_like(context.session.world(), pattern), std::back_inserter(files));
  }
  OrderedJson all = OrderedJson::array();
  for (const base::Path& file : files) {
    const auto began = base::Clock::now();
    context.enter("reading " + file.string());
    const data::Adoption adoption = [&] {
      LazyBar bar("data adopt", context.log.speaks(), "MiB");
      return data::adopt(context.session.world(), file, context.files, progress_of(bar));
    }();
    if (arguments.json) {
      all.push_back(described(file, adoption));
    } else {
      print(context, described_for_people(file, adoption, base::seconds_since(began)));
    }
  }
  if (arguments.json) print(context, dump({{"files", std::move(all)}}));
}

}  // namespace

bool AdoptedBytes::has(const std::string& array) const { return std::ranges::find(arrays, array) != arrays.end(); }

std::optional<AdoptedBytes> compare_adopted(Context& context, const base::Path& path) {
  auto& world = context.session.world();
  AdoptedBytes compared;
  LazyBar bar("data verify", context.log.speaks(), "MiB");
  context.enter("comparing files with their digests");
  for (const base::Path& name : paths_like(world, path)) {
    if (!is_file(world, name)) continue;
    auto adopted = data::AdoptedFile::open(world, name);
    compared.all = compared.all && adopted;
    if (!adopted) continue;
    const bool is_first = compared.bytes == 0;
    for (const data::AdoptedArray& array : adopted->adoption().arrays) {
      if (is_first) compared.arrays.push_back(array.name);
    }
    compared.bytes += adopted->adoption().size;
    std::ranges::move(data::verify_adopted(world, name, *adopted, progress_of(bar)),
                      std::back_inserter(compared.damaged));
    adopted->close();
  }
  if (compared.bytes == 0) return std::nullopt;
  return compared;
}

void declare_data_adopt(const Subcommand& data, Command& command) {
  const Subcommand adopt =
      data.add_subcommand("adopt", "Write digests beside HDF5 and NetCDF-4 files of other programs");
  adopt.footer("All ranks work. The files stay as they are; a byte that changes afterwards is an error.");
  auto arguments = std::make_shared<AdoptArguments>();
  adopt
      .add("FILE", &arguments->files,
           "HDF5 files, also by a pattern in quotes; the digests of FILE are written to FILE.ddpm")
      .required();
  add_json_flag(adopt, arguments->json);
  adopt.on_chosen([&command, arguments] {
    command = {.run = [arguments](Context& context) { run_adopt(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
