// What a model card tells: README.md of a model folder, with the metadata that model hubs read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interop/card_config.h"

namespace ddpm::interop {

/// Over stored values of one channel of the training set.
struct CardStatistics {
  std::string channel;
  double mean = 0.0;
  double deviation = 0.0;
  double min = 0.0;
  double max = 0.0;
};

/// A loss of the weights that the card is of, on images that were not trained on.
struct CardValidation {
  double loss = 0.0;
  std::string dataset;  ///< name of the set
};

/// Empty texts are left out, and so are numbers that are 0.
struct ModelCard {
  std::string title = {};                       ///< first heading
  CardConfig stated = {};                       ///< what the author says; its title is not looked at
  std::string dataset = {};                     ///< name or path of the training set
  std::string dataset_hash = {};                ///< its content hash, as `ddpm data inspect --json` shows it
  int64_t dataset_images = 0;                   ///< 0: unknown
  std::vector<CardStatistics> statistics = {};  ///< values of each channel of the training set; empty: not known
  std::string counted_over = {};                ///< what the statistics cover: "256 sampled images"; empty: all images
  std::string earlier_datasets = {};            ///< the sets before, where a run went on with another one
  std::string started_from = {};                ///< the name of the folder that training started from
  int64_t steps = 0;                            ///< optimizer steps
  int64_t images_seen = 0;                      ///< over all steps
  std::optional<CardValidation> validation = {};  ///< none: these weights were not validated
  std::string weights = {};                       ///< which weights these are: "raw", or "EMA (max_decay 0.9999)"
  std::string hardware = {};                      ///< "4 ranks on 2 hosts, NVIDIA H100"
  std::string versions = {};                      ///< libraries and their versions: "LibTorch 2.11.0, Open MPI v4.1.4"
  std::string config_toml = {};                   ///< the run's configuration, shown whole
  std::string program_version = {};               ///< the version of ddpm
  std::vector<std::string> class_names = {};      ///< names of classes 0, 1, ..., also written as class_names.json
};

}  // namespace ddpm::interop
