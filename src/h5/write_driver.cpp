#include "h5/write_driver.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <span>

#include "h5/library.h"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace ddpm::h5 {
namespace {

constexpr haddr_t kMostAddress = (haddr_t{1} << 63U) - 1;

/// What HDF5 keeps of an open file; it takes `head` for all of it.
struct Open {
  H5FD_t head = {};
  std::shared_ptr<base::QuietFile> file;
  haddr_t end = 0;  // end of the space that HDF5 has allocated
};

Open& open_of(H5FD_t* head) { return *reinterpret_cast<Open*>(head); }  // NOLINT: the first member, as HDF5 has it
const Open& open_of(const H5FD_t* head) { return *reinterpret_cast<const Open*>(head); }  // NOLINT: alike

/// What the property list holds: where the pointer is that the file gets.
struct Target {
  const std::shared_ptr<base::QuietFile>* file = nullptr;
};

H5FD_t* open_target(const char* /*name*/, unsigned /*flags*/, hid_t access_list, haddr_t /*most*/) {
  const auto* target = static_cast<const Target*>(H5Pget_driver_info(access_list));
  if (target == nullptr) return nullptr;
  try {
    return &std::make_unique<Open>(Open{.file = *target->file}).release()->head;
  } catch (const std::exception&) {  // no exception passes through C
    return nullptr;
  }
}

herr_t close_file(H5FD_t* head) {
  const std::unique_ptr<Open> open(&open_of(head));
  open->file->close();
  return 0;
}

/// The features of HDF5's own driver of plain files, on which the places of arrays depend.
herr_t tell_features(const H5FD_t* /*head*/, unsigned long* features) {  // NOLINT(google-runtime-int): HDF5's type
  *features = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
              H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t allocated(const H5FD_t* head, H5FD_mem_t /*kind*/) { return open_of(head).end; }

herr_t set_allocated(H5FD_t* head, H5FD_mem_t /*kind*/, haddr_t end) {
  open_of(head).end = end;
  return 0;
}

haddr_t size_of_file(const H5FD_t* head, H5FD_mem_t /*kind*/) { return open_of(head).file->size(); }

herr_t read(H5FD_t* head, H5FD_mem_t /*kind*/, hid_t /*transfer*/, haddr_t at, size_t size, void* out) {
  open_of(head).file->read(at, {static_cast<std::byte*>(out), size});
  return 0;
}

herr_t write(H5FD_t* head, H5FD_mem_t /*kind*/, hid_t /*transfer*/, haddr_t at, size_t size, const void* in) {
  open_of(head).file->write(at, {static_cast<const std::byte*>(in), size});
  return 0;
}

herr_t truncate(H5FD_t* head, hid_t /*transfer*/, hbool_t /*closing*/) {
  Open& open = open_of(head);
  if (open.file->size() != open.end) open.file->resize(open.end);
  return 0;
}

/// Fields that this leaves out differ from version to version of HDF5, and are for what the driver does not have.
H5FD_class_t driver() {
  constexpr H5FD_mem_t kKinds[] = H5FD_FLMAP_DICHOTOMY;  // NOLINT(modernize-avoid-c-arrays): HDF5's macro
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 1);
#endif
  driver.name = "ddpm";
  driver.maxaddr = kMostAddress;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(Target);
  driver.open = open_target;
  driver.close = close_file;
  driver.query = tell_features;
  driver.get_eoa = allocated;
  driver.set_eoa = set_allocated;
  driver.get_eof = size_of_file;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate;
  std::ranges::copy(kKinds, std::begin(driver.fl_map));
  return driver;
}

}  // namespace

void write_into(const Handle& access_list, const std::shared_ptr<base::QuietFile>& file) {
  const H5FD_class_t how = driver();
  const Handle id(checked(H5FDregister(&how), "HDF5", "register a driver"), H5FDunregister);
  const Target target{.file = &file};
  checked(H5Pset_driver(access_list.id(), id.id(), &target), "HDF5", "write through a driver");
}

void expect_written(const base::QuietFile& file, const std::string& subject) {
  const std::string failure = file.failure();
  if (!failure.empty()) throw base::DatasetError("{}: cannot write: {}", subject, failure);
}

}  // namespace ddpm::h5
