// Writes into the folder argv[1] what peers_test.py reads with TensorBoard, numpy and Pillow, and copies argv[2], an
// .npy file that numpy wrote, through the reader.
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "base/error.h"
#include "observe/event_writer.h"
#include "observe/npy.h"
#include "observe/png_encoder.h"

namespace {

using namespace ddpm;  // NOLINT(google-build-using-namespace)

void write_events(base::FileSystem& files, const base::Path& folder) {
  double now = 1700000000.25;
  const auto clock = [&now] { return now; };
  // A run that reached step 4, and was killed; then one that resumed from the checkpoint of step 2.
  observe::EventWriter first(files, folder / "events", "node1", 1, clock);
  for (int64_t step = 1; step <= 4; ++step) {
    first.write(step, std::vector<observe::Scalar>{{"train/loss", 1.0 / static_cast<double>(step)},
                                                   {"train/grad_norm", 1e-20 * static_cast<double>(step)}});
  }
  now += 60;
  observe::EventWriter second(files, folder / "events", "node2", 3, clock);
  second.write(3, std::vector<observe::Scalar>{{"train/loss", -3.0}});
  second.write(int64_t{1} << 40, std::vector<observe::Scalar>{{"train/loss", -4.0}});
  second.sync();
  // Two starts from one checkpoint, of which the second has another configuration.
  for (const double rate : {1e-3, 1e-4}) {
    now += 60;
    observe::EventWriter start(files, folder / "starts", "node1", 3, clock);
    const std::vector<observe::HyperParameter> parameters = {
        {"optimizer.learning_rate", rate}, {"ema.enabled", true}, {"lr_schedule.name", std::string("cosine")}};
    start.write_configuration(parameters, "my-run", fmt::format("rate **{}**", rate));
    const observe::Image grid = observe::image_grid_nchw(std::vector<float>(2 * 3 * 4 * 5, 0.5F), 3, 4, 5);
    start.write(3, std::vector<observe::Picture>{
                       {.tag = "samples",
                        .height = grid.height,
                        .width = grid.width,
                        .channels = grid.channels,
                        .png = observe::encode_png(grid.pixels_hwc, grid.height, grid.width, grid.channels)}});
    start.write(3, std::vector<observe::Scalar>{{"train/loss", rate}});
  }
}

void write_pictures(base::FileSystem& files, const base::Path& folder) {
  // Six images of 5 x 7 pixels; byte (i + 3 y + 11 x + 50 c) % 256.
  for (const int64_t channels : {1, 3}) {
    std::vector<uint8_t> images;
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t y = 0; y < 5; ++y) {
        for (int64_t x = 0; x < 7; ++x) {
          for (int64_t c = 0; c < channels; ++c) images.push_back(static_cast<uint8_t>(i + 3 * y + 11 * x + 50 * c));
        }
      }
    }
    observe::write_png(files, folder / (channels == 1 ? "grey.png" : "rgb.png"),
                       observe::image_grid(images, 5, 7, channels, {.columns = 4}));
  }
}

void write_arrays(base::FileSystem& files, const base::Path& folder, const base::Path& from_numpy) {
  observe::NpyReader reader(from_numpy);
  int64_t count = 1;
  for (const int64_t extent : reader.shape()) count *= extent;
  std::vector<float> elements(static_cast<std::size_t>(count));
  reader.read(0, elements);
  observe::NpyWriter writer(files, folder / "copy.npy", reader.shape());
  writer.append(elements);
  writer.commit();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw base::ConfigError("usage: peer_files FOLDER FROM_NUMPY.npy");
    const auto files = base::posix_file_system();
    write_events(*files, argv[1]);
    write_pictures(*files, argv[1]);
    write_arrays(*files, argv[1], argv[2]);
    return 0;
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
