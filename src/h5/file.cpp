#include "h5/file.h"

#include "base/check.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "comm/collectives.h"
#include "comm/mpi_communicator.h"
#include "h5/chunks.h"
#include "h5/lazy_file.h"
#include "h5/library.h"
#include "h5/write_driver.h"

namespace ddpm::h5 {

namespace {

Handle file_access() {
  Handle list = property_list(checked(H5Pcreate(H5P_FILE_ACCESS), "HDF5", "make a property list"));
  checked(H5Pset_file_locking(list.id(), false, true), "HDF5", "do without file locks");
  // By default a forgotten dataset keeps a file open for ever; with this setting, closing such a file fails.
  checked(H5Pset_fclose_degree(list.id(), H5F_CLOSE_SEMI), "HDF5", "set the file close degree");
  return list;
}

/// Creation properties without time stamps, which would make equal contents differ.
Handle untimed(hid_t property_class) {
  Handle list = property_list(checked(H5Pcreate(property_class), "HDF5", "make a property list"));
  checked(H5Pset_obj_track_times(list.id(), false), "HDF5", "leave time stamps out");
  return list;
}

Handle link_access(bool collective) {
  Handle list = property_list(checked(H5Pcreate(H5P_LINK_ACCESS), "HDF5", "make a property list"));
  if (collective) read_metadata_together(list);
  return list;
}

/// Collective: access through MPI-IO. HDF5 duplicates the communicator, so that its traffic never meets ours.
Handle parallel_access(const comm::Communicator& comm) {
  const LibraryLock lock;
  Handle list = file_access();
  checked(H5Pset_fapl_mpio(list.id(), comm::mpi_handle(comm), MPI_INFO_NULL), "HDF5", "open files through MPI-IO");
  return list;
}

/// "/a/b" gives "/a" and "/a/b"; a name that is not absolute throws.
std::vector<std::string> prefixes(const std::string& subject, const std::string& name) {
  if (name.size() < 2 || name.front() != '/' || name.back() == '/' || name.find("//") != std::string::npos) {
    throw base::DatasetError("{}: \"{}\" is not an absolute name of an array, such as /images", subject, name);
  }
  std::vector<std::string> all;
  for (std::size_t end = name.find('/', 1); end != std::string::npos; end = name.find('/', end + 1)) {
    all.push_back(name.substr(0, end));
  }
  all.push_back(name);
  return all;
}

/// The first part of the way to `name` that the file lacks, "" where all is there. Refuses what could lead out of this
/// file: soft, external and user-defined links on the way.
std::string lacking(hid_t file, const std::string& subject, const std::string& name, const Handle& access) {
  // H5Lexists wants every group on the way to exist, and would follow links that are no last part.
  for (const std::string& prefix : prefixes(subject, name)) {
    if (checked(H5Lexists(file, prefix.c_str(), access.id()), subject, "look for " + prefix) == 0) return prefix;
    H5L_info_t info;
    checked(H5Lget_info(file, prefix.c_str(), &info, access.id()), subject, "look at the link " + prefix);
    if (info.type != H5L_TYPE_HARD) {
      throw base::DatasetError("{}: {} is {}; the array itself is wanted in this file", subject, prefix,
                               info.type == H5L_TYPE_SOFT       ? "a soft link"
                               : info.type == H5L_TYPE_EXTERNAL ? "an external link"
                                                                : "a link of a kind that only other programs know");
    }
  }
  return {};
}

}  // namespace

File::File(Handle handle, Path path, Mode mode)
    : handle_(std::move(handle)), path_(std::move(path)), mode_(mode), read_(std::make_shared<LazyFile>(path_)) {}

File::~File() {
  // NOLINTNEXTLINE(bugprone-unused-return-value): given up on purpose, see the header
  if (parallel()) handle_.release();
}

File File::open(const Path& path) {
  const LibraryLock lock;
  const Handle access = file_access();
  const hid_t id =
      checked_read([&] { return H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()); }, path.string(), "open");
  return {Handle(id, H5Fclose), path, Mode::read};
}

std::vector<File> File::open_parallel(comm::Communicator& comm, std::span<const Path> paths) {
  std::vector<File> files;
  files.reserve(paths.size());
  if (comm.size() == 1) {
    for (const Path& path : paths) files.push_back(open(path));
    return files;
  }
  Handle access = parallel_access(comm);
  try {
    for (const Path& path : paths) {
      // The open is collective in itself and every rank comes to it; one rank alone may fail in it.
      comm::agree(comm, [&] {
        const LibraryLock lock;
        const hid_t id = checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), path.string(), "open");
        files.push_back(File(Handle(id, H5Fclose), path, Mode::parallel_read));
      });
    }
  } catch (const comm::AgreedError&) {
    // All ranks are here together, so that what is open can be closed.
    for (File& file : files) file.handle_.close();
    throw;
  }
  access.close();
  return files;
}

File File::create(const Path& path, const CreateOptions& options) {
  DDPM_CHECK(base::is_there(path), "{}: base::FileSystem creates files, HDF5 fills them", path.string());
  const LibraryLock lock;
  const std::string subject = path.string();
  const Handle access = file_access();
  checked(H5Pset_alignment(access.id(), options.align_from, options.alignment), subject, "align arrays");
  // One version of the format, with checksums over metadata; any HDF5 since 1.8 reads it.
  checked(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), subject, "choose the format's version");
  // Small arrays are placed in the order of their creation, not gathered in a block of their own.
  checked(H5Pset_small_data_block_size(access.id(), 0), subject, "set the size of data blocks");
  if (options.metadata_block > 0) {
    checked(H5Pset_meta_block_size(access.id(), options.metadata_block), subject, "set the size of metadata blocks");
  }
  const Handle creation = untimed(H5P_FILE_CREATE);
  const auto written = base::read_as<base::DatasetError>([&] { return std::make_shared<base::QuietFile>(path); });
  write_into(access, written);
  const hid_t id = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), subject, "create");
  File file(Handle(id, H5Fclose), path, Mode::write);
  file.written_ = written;
  expect_written(*written, subject);
  return file;
}

bool File::contains(const std::string& name) const {
  const LibraryLock lock;
  return lacking(handle_.id(), path_.string(), name, link_access(parallel())).empty();
}

Array File::array(const std::string& name) const {
  const LibraryLock lock;
  const std::string absent = lacking(handle_.id(), path_.string(), name, link_access(parallel()));
  if (!absent.empty()) throw base::DatasetError("{}: there is no {}", path_.string(), absent);
  const Handle access = property_list(checked(H5Pcreate(H5P_DATASET_ACCESS), "HDF5", "make a property list"));
  if (parallel()) read_metadata_together(access);
  std::string label = path_.string() + ":" + name;
  const hid_t id = checked(H5Dopen2(handle_.id(), name.c_str(), access.id()), label, "open the array");
  Array array(Handle(id, H5Dclose), std::move(label), nullptr);
  alone([&] { array.read_itself(path_, read_, digests_, threads_); });
  if (array.chunks_ && ring_ != nullptr) array.chunks_->share(*ring_, ring_number_);
  all_compared_ = all_compared_ && array.compared_;
  return array;
}

void File::alone(const std::function<void()>& work) const {
  try {
    work();
  } catch (...) {
    if (!parallel()) throw;
    if (!failure_) failure_ = std::current_exception();
  }
}

void File::expect_no_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

std::vector<std::string> File::array_names() const {
  const LibraryLock lock;
  std::vector<std::string> names;
  const auto add = [](hid_t /*root*/, const char* name, const H5O_info_t* info, void* out) -> herr_t {
    if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(out)->push_back(std::string("/") + name);
    return 0;
  };
  checked(H5Ovisit(handle_.id(), H5_INDEX_NAME, H5_ITER_INC, add, &names), path_.string(), "list the arrays");
  return names;
}

Array File::create_array(const std::string& name, Element element, std::span<const int64_t> shape) {
  const LibraryLock lock;
  std::string label = path_.string() + ":" + name;
  const Handle creation = untimed(H5P_DATASET_CREATE);
  checked(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), label, "choose the contiguous layout");
  checked(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), label, "allocate at once");
  checked(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), label, "leave out fill values");
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  const Handle space = data_space(
      checked(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), label, "make a shape"));
  const hid_t id = checked(
      H5Dcreate2(handle_.id(), name.c_str(), memory_type(element), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
      label, "create the array");
  Array created(Handle(id, H5Dclose), std::move(label), written_);
  expect_written(*written_, created.label());
  return created;
}

void File::close() {
  const LibraryLock lock;
  if (written_) checked(H5Fflush(handle_.id(), H5F_SCOPE_GLOBAL), path_.string(), "write");
  checked(handle_.close(), path_.string(), "close");
  if (written_) expect_written(*written_, path_.string());
}

}  // namespace ddpm::h5
