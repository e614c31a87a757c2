// Writes and reads datasets for peers_test.py, where h5py does the other half.
//
//   data_peer_files write FOLDER u8|f32   a dataset of shards of 5, 0 and 4 images 8x6x3 with labels
//   data_peer_files adopt FILE...         digests beside .h5 files, and then as dump:
//   data_peer_files dump PATH...          of each dataset or .h5 file: PATH.raw, its images as channels-last bytes, and
//   on
//                                         stdout a line with their shape and one with the labels
#include <fstream>
#include <iostream>

#include "comm/mpi_session.h"
#include "data/adopt.h"
#include "data/dataset.h"
#include "data/sample_set.h"

namespace {

using namespace ddpm;

void dump(comm::Communicator& comm, const std::string& path) {
  data::Dataset set = data::Dataset::open(comm, path, {.threads = 3, .chunk_cache_mib = 8});
  std::vector<std::byte> images(static_cast<std::size_t>(set.size()) * set.image().bytes());
  set.read_block(0, set.size(), images);
  std::ofstream(path + ".raw", std::ios::binary)
      .write(reinterpret_cast<const char*>(images.data()), std::ssize(images));
  std::cout << set.size() << ' ' << set.image().height << ' ' << set.image().width << ' ' << set.image().channels
            << '\n';
  for (const int64_t label : set.labels()) std::cout << label << ' ';
  std::cout << '\n';
  set.close(comm);
}

}  // namespace

int main(int argc, char** argv) {
  comm::MpiSession session(argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "write") {
    const auto dtype = arguments[2] == "u8" ? base::DType::u8 : base::DType::f32;
    data::write_sample_set(arguments[1], {.height = 8, .width = 6, .channels = 3, .dtype = dtype}, true, {5, 0, 4});
  } else {
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      if (arguments[0] == "adopt") {
        data::adopt(session.world(), arguments[i], *base::posix_file_system(),
                    [](int64_t /*done*/, int64_t /*all*/) {});
      }
      dump(session.world(), arguments[i]);
    }
  }
  session.finalize();
  return 0;
}
