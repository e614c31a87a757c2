// Which HDF5 calls ranks make together and which each for itself, as docs/data-reading.md says it. The linker hands the
// calls of src/h5 to the functions below (--wrap), which note how they are made.
#include <array>
#include <map>
#include <mutex>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <hdf5.h>

#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"

namespace ddpm::data {
namespace {

using testing::HasSubstr;
using testing::Not;

using Names = std::set<std::string>;
using NamesByKind = std::map<std::string, Names>;

constexpr const char* kCollective = "collective";
constexpr const char* kIndependent = "independent";

/// The calls noted so far, by how they were made.
struct Notes {
  std::mutex mutex;
  bool noting = false;
  NamesByKind calls;
  std::map<std::string, int> counts;
};
Notes& notes() {
  static Notes all;
  return all;
}

void note(const char* name, const char* kind) {
  const std::lock_guard lock(notes().mutex);
  if (!notes().noting) return;
  notes().calls[kind].insert(name);
  ++notes().counts[name];
}

/// How metadata are read through a link, dataset or attribute access list.
const char* metadata_kind(hid_t list) {
  hbool_t together = 0;
  if (list != H5P_DEFAULT) H5Pget_all_coll_metadata_ops(list, &together);
  return together > 0 ? kCollective : kIndependent;
}

/// How a file is opened; all its metadata are to be read collectively where the list of the file itself says so.
const char* file_kind(hid_t list) {
  if (H5Pget_driver(list) != H5FD_MPIO) return "by one rank";
  hbool_t together = 0;
  H5Pget_all_coll_metadata_ops(list, &together);
  MPI_Comm ranks = MPI_COMM_NULL;
  MPI_Info hints = MPI_INFO_NULL;
  H5Pget_fapl_mpio(list, &ranks, &hints);
  int size = 0;
  MPI_Comm_size(ranks, &size);
  MPI_Comm_free(&ranks);
  if (hints != MPI_INFO_NULL) MPI_Info_free(&hints);
  if (size != test::world().size()) return "collective among some ranks";
  return together > 0 ? "collective with all metadata" : kCollective;
}

const char* transfer_kind(hid_t list) {
  H5FD_mpio_xfer_t mode = H5FD_MPIO_INDEPENDENT;
  if (list != H5P_DEFAULT) H5Pget_dxpl_mpio(list, &mode);
  return mode == H5FD_MPIO_COLLECTIVE ? kCollective : kIndependent;
}

}  // namespace
}  // namespace ddpm::data

// NOLINTBEGIN: names as the linker wants them
#define DDPM_WRAPPED(result, name, parameters, arguments, kind) \
  extern "C" result __real_##name parameters;                   \
  extern "C" result __wrap_##name parameters {                  \
    ddpm::data::note(#name, kind);                              \
    return __real_##name arguments;                             \
  }
DDPM_WRAPPED(hid_t, H5Fopen, (const char* path, unsigned flags, hid_t list), (path, flags, list),
             ddpm::data::file_kind(list))
DDPM_WRAPPED(htri_t, H5Lexists, (hid_t at, const char* name, hid_t list), (at, name, list),
             ddpm::data::metadata_kind(list))
DDPM_WRAPPED(herr_t, H5Lget_info, (hid_t at, const char* name, H5L_info_t* info, hid_t list), (at, name, info, list),
             ddpm::data::metadata_kind(list))
DDPM_WRAPPED(hid_t, H5Dopen2, (hid_t at, const char* name, hid_t list), (at, name, list),
             ddpm::data::metadata_kind(list))
DDPM_WRAPPED(herr_t, H5Dread, (hid_t set, hid_t type, hid_t memory, hid_t file, hid_t list, void* out),
             (set, type, memory, file, list, out), ddpm::data::transfer_kind(list))
DDPM_WRAPPED(htri_t, H5Aexists, (hid_t at, const char* name), (at, name), ddpm::data::kIndependent)
DDPM_WRAPPED(hid_t, H5Aopen, (hid_t at, const char* name, hid_t list), (at, name, list),
             ddpm::data::metadata_kind(list))
DDPM_WRAPPED(herr_t, H5Aread, (hid_t attribute, hid_t type, void* out), (attribute, type, out),
             ddpm::data::kIndependent)
DDPM_WRAPPED(htri_t, H5Aexists_by_name, (hid_t at, const char* object, const char* name, hid_t list),
             (at, object, name, list), ddpm::data::metadata_kind(list))
DDPM_WRAPPED(hid_t, H5Aopen_by_name, (hid_t at, const char* object, const char* name, hid_t list, hid_t links),
             (at, object, name, list, links), ddpm::data::metadata_kind(links))
DDPM_WRAPPED(hid_t, H5Gopen2, (hid_t at, const char* name, hid_t list), (at, name, list),
             ddpm::data::metadata_kind(list))
DDPM_WRAPPED(herr_t, H5Literate,
             (hid_t at, H5_index_t index, H5_iter_order_t order, hsize_t* place, H5L_iterate_t call, void* out),
             (at, index, order, place, call, out), ddpm::data::kIndependent)
DDPM_WRAPPED(ssize_t, H5Iget_name, (hid_t object, char* name, size_t bytes), (object, name, bytes),
             ddpm::data::kIndependent)
DDPM_WRAPPED(herr_t, H5Dget_num_chunks, (hid_t set, hid_t space, hsize_t* count), (set, space, count),
             ddpm::data::kIndependent)
DDPM_WRAPPED(herr_t, H5Dget_chunk_info,
             (hid_t set, hid_t space, hsize_t number, hsize_t* begin, unsigned* mask, haddr_t* at, hsize_t* bytes),
             (set, space, number, begin, mask, at, bytes), ddpm::data::kIndependent)
DDPM_WRAPPED(herr_t, H5Dget_space_status, (hid_t set, H5D_space_status_t* status), (set, status),
             ddpm::data::kIndependent)

extern "C" herr_t __real_H5Fclose(hid_t file);
extern "C" herr_t __wrap_H5Fclose(hid_t file) {
  const hid_t list = H5Fget_access_plist(file);
  ddpm::data::note("H5Fclose", ddpm::data::file_kind(list));
  H5Pclose(list);
  return __real_H5Fclose(file);
}
// NOLINTEND

namespace ddpm::data {
namespace {

/// Calls that are given a file or what is in one; those for property lists, shapes and types touch none.
Names names_in(const std::string& text) {
  static const std::regex name(R"(\bH5[ADFGIL][a-z]\w*)");
  Names names;
  for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found) {
    names.insert(found->str());
  }
  return names;
}

/// The table of docs/data-reading.md: calls by what its first column begins with.
NamesByKind documented() {
  const std::string page = test::read_text(std::filesystem::path(DDPM_TOP) / "docs" / "data-reading.md");
  NamesByKind calls;
  static const std::regex row(R"(\n\| (collective|independent|by one rank|local)[^|]*\|([^|]*)\|)");
  for (std::sregex_iterator found(page.begin(), page.end(), row), end; found != end; ++found) {
    calls[(*found)[1]].merge(names_in((*found)[2]));
  }
  return calls;
}

class Hdf5Calls : public SharedFolderTest {
 protected:
  /// A file of another program: chunks, with a filter that only HDF5 undoes or without, labels of another type, an
  /// attribute.
  void write_bare(const std::string& name, bool filtered) const {
    constexpr std::array<hsize_t, 4> kShape = {8, 3, 4, 4};
    const hid_t file = H5Fcreate((folder_ / name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t chunks = H5Pcreate(H5P_DATASET_CREATE);
    constexpr std::array<hsize_t, 4> kChunk = {2, 3, 4, 4};
    H5Pset_chunk(chunks, 4, kChunk.data());
    if (filtered) H5Pset_scaleoffset(chunks, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
    std::vector<uint8_t> values(8 * 3 * 4 * 4);
    std::iota(values.begin(), values.end(), uint8_t{0});
    const hid_t space = H5Screate_simple(4, kShape.data(), nullptr);
    const hid_t images = H5Dcreate2(file, "/images", H5T_NATIVE_UINT8, space, H5P_DEFAULT, chunks, H5P_DEFAULT);
    H5Dwrite(images, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 5);
    const hid_t one = H5Screate(H5S_SCALAR);
    const hid_t layout = H5Acreate2(images, "layout", text, one, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(layout, text, "NCHW");
    const hid_t row = H5Screate_simple(1, kShape.data(), nullptr);
    const hid_t labels = H5Dcreate2(file, "/labels", H5T_NATIVE_UINT8, row, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const std::vector<uint8_t> classes(8, 1);
    H5Dwrite(labels, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, classes.data());
    for (const hid_t set : {images, labels}) H5Dclose(set);
    for (const hid_t shape : {space, one, row}) H5Sclose(shape);
    H5Aclose(layout);
    H5Tclose(text);
    H5Pclose(chunks);
    H5Fclose(file);
  }

  static void add_attribute(hid_t object, const char* name, hid_t type, hsize_t count, const void* values) {
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, values);
    H5Aclose(attribute);
    H5Sclose(space);
  }

  static hid_t add_floats(hid_t at, const char* name, const std::vector<hsize_t>& shape) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t array = H5Dcreate2(at, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    std::vector<float> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)), 0.5F);
    H5Dwrite(array, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Sclose(space);
    return array;
  }

  /// A file as The Well lays it out, with dimension scales as NetCDF has them.
  void write_foreign(const std::string& name) const {
    const hid_t file = H5Fcreate((folder_ / name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    std::vector<hid_t> groups;
    for (const char* group : {"/dimensions", "/t0_fields", "/boundary_conditions", "/boundary_conditions/walls"}) {
      groups.push_back(H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 4);
    add_attribute(groups[0], "spatial_dims", text, 2, "x\0\0\0y\0\0\0");
    add_attribute(groups[3], "bc_type", text, 1, "WALL");
    add_attribute(groups[3], "associated_dims", text, 1, "x\0\0");
    const std::array<hid_t, 2> scales = {add_floats(groups[0], "x", {3}), add_floats(groups[0], "y", {4})};
    const hid_t field = add_floats(groups[1], "density", {6, 3, 4});
    const std::array<int, 2> yes = {1, 1};
    const int no = 0;
    add_attribute(field, "sample_varying", H5T_NATIVE_INT, 1, &no);
    add_attribute(field, "time_varying", H5T_NATIVE_INT, 1, yes.data());
    add_attribute(field, "dim_varying", H5T_NATIVE_INT, 2, yes.data());
    const hid_t ground = add_floats(file, "ground", {3, 4});
    std::array<hobj_ref_t, 2> references{};
    H5Rcreate(&references[0], file, "/dimensions/x", H5R_OBJECT, -1);
    H5Rcreate(&references[1], file, "/dimensions/y", H5R_OBJECT, -1);
    const std::array<hvl_t, 2> lists = {hvl_t{1, &references[0]}, hvl_t{1, &references[1]}};
    const hid_t list = H5Tvlen_create(H5T_STD_REF_OBJ);
    add_attribute(ground, "DIMENSION_LIST", list, 2, lists.data());
    for (const hid_t set : {scales[0], scales[1], field, ground}) H5Dclose(set);
    for (const hid_t group : groups) H5Gclose(group);
    for (const hid_t type : {text, list}) H5Tclose(type);
    H5Fclose(file);
  }

  static void start_noting() {
    notes().calls.clear();
    notes().counts.clear();
    notes().noting = true;
  }

  /// Opens a set, reads all of it on each rank, and closes it.
  void use(const Path& path, const DatasetOptions& options = {}) const {
    Dataset set = Dataset::open(comm(), path, options);
    std::vector<std::byte> images(static_cast<std::size_t>(set.size()) * set.image().bytes());
    set.read_block(0, set.size(), images);
    set.close(comm());
  }
};

TEST_F(Hdf5Calls, OfReadersAreMadeAsTheDocumentationSays) {
  on_rank_0([&] {
    write_bare("chunks.h5", false);
    write_bare("filtered.h5", true);
    write_foreign("foreign.h5");
  });
  start_noting();
  use(folder_ / "chunks.h5");
  use(folder_ / "filtered.h5");
  DatasetOptions options;
  options.variables = {"density"};
  options.static_values = "/ground";
  use(folder_ / "foreign.h5", options);
  notes().noting = false;
  NamesByKind wanted = documented();
  wanted.erase("by one rank");
  wanted.erase("local");
  EXPECT_EQ(notes().calls, wanted);
}

TEST_F(Hdf5Calls, OpenEachShardOfAFolderOnOneRankAlone) {
  on_rank_0([&] {
    write_sample_set(folder_ / "set", {.height = 4, .width = 4, .channels = 3}, true, {5, 3, 4, 2, 1});
  });
  start_noting();
  use(folder_ / "set");
  notes().noting = false;
  for (const auto& [kind, names] : notes().calls) EXPECT_THAT(kind, Not(HasSubstr("collective"))) << *names.begin();
  EXPECT_EQ(comm::all_reduce(comm(), int64_t{notes().counts["H5Fopen"]}, comm::ReduceOp::sum), 5);
}

TEST_F(Hdf5Calls, OfTheProgramAreAllInTheDocumentation) {
  Names made;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(DDPM_TOP) / "src" / "h5")) {
    made.merge(names_in(test::read_text(file.path())));
  }
  std::erase_if(
      made, [](const std::string& name) { return std::string_view("ADFGIL").find(name[2]) == std::string_view::npos; });
  Names said;
  for (const auto& [kind, names] : documented()) {
    for (const std::string& name : names) EXPECT_TRUE(said.insert(name).second) << name << " is in two rows";
  }
  EXPECT_EQ(said, made);
}

}  // namespace
}  // namespace ddpm::data
