#include "cli/subject.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/path_pattern.h"
#include "train/fitted_model.h"

namespace ddpm::cli {
namespace {

/// Describes images as the model wants them, for when there is no data set yet.
Subject expected_subject(const nn::UNet2DConfig& model, const data::Path& path) {
  if (model.sample_size.empty()) {
    throw base::DatasetError("{}: there is no such data set; to plan without it, set model.sample_size", path.string());
  }
  const nn::ImageSize size = nn::image_size(model);
  const std::string problem = nn::size_problem(model, size);
  if (!problem.empty()) throw base::ConfigError("model.sample_size: {}", problem);
  return {.model = model,
          .image = {.height = size.height, .width = size.width, .channels = model.out_channels, .depth = size.depth},
          .stored = plan::StoredSizes::whole(size.rows() * size.width * model.in_channels)};
}

}  // namespace

Subject find_subject(const train::Config& config, const Context& context) {
  comm::Communicator& world = context.session.world();
  const std::vector<data::Dataset::Source> sources = data::train_sources(config.data);
  const data::Path path = sources.front().path;
  Subject subject;
  if (!comm::ask_root(world, [&] { return data::is_pattern(path) || context.files.exists(path); })) {
    comm::agree(world, [&] {
      nn::UNet2DConfig model = config.model;
      if (!config.data.patch.empty()) model.sample_size = config.data.patch;
      subject = expected_subject(model, path);
    });
    context.log.info("{}: no data set there yet; images are taken to be as model.sample_size says", path.string());
    return subject;
  }
  data::Dataset dataset = data::Dataset::open(world, sources, data::dataset_options(config.data));
  comm::agree(world, [&] {
    const train::FittedModel fitted = train::fitted_model(config, dataset);
    subject = {.model = fitted.unet,
               .image = fitted.patch.window,
               .stored = plan::StoredSizes::of(config, fitted.patch, dataset)};
  });
  dataset.close(world);
  return subject;
}

}  // namespace ddpm::cli
