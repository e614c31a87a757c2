#include "interop/diffusers_writer.h"

#include <limits>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "interop/card_text.h"
#include "interop/tiny_model.h"
#include "interop/unet_json.h"

namespace ddpm::interop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DiffusersWriter : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> names() const { return files_->list(folder_.path()); }
  void write(const std::vector<NamedTensor>& weights, const WrittenModel* mean = nullptr) {
    write_diffusers_model(*files_, model_, {tiny_config_, scheduler_, weights, normalization_, card_, mean});
  }
  [[nodiscard]] std::string text(const base::Path& name) const { return test::read_text(model_ / name); }

  test::TemporaryFolder folder_;
  base::Path model_ = folder_.path() / "model";
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
  nn::UNet2DConfig tiny_config_ = tiny_config();
  diffusion::SchedulerConfig scheduler_;
  base::Json normalization_;
  ModelCard card_;
  TinyModel tiny_{tiny_config_};
};

TEST_F(DiffusersWriter, WritesTheFilesOfAPipeline) {
  tiny_.write(model_);
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_THAT(files_->list(model_),
              ElementsAre("README.md", "export.py", "model_index.json", "normalization.json", "scheduler", "unet"));
  EXPECT_THAT(files_->list(model_ / "unet"), ElementsAre("config.json", "diffusion_pytorch_model.safetensors"));
  EXPECT_THAT(files_->list(model_ / "scheduler"), ElementsAre("scheduler_config.json"));
  EXPECT_EQ(base::Json::parse(text("model_index.json")),
            base::Json::parse(R"({"_class_name": "DDPMPipeline", "_diffusers_version": "0.35.2",
                                  "scheduler": ["diffusers", "DDPMScheduler"], "unet": ["diffusers", "UNet2DModel"]})"));
  EXPECT_EQ(base::Json::parse(text("normalization.json")), (base::Json{{"dtype", "uint8"}}));
}

TEST_F(DiffusersWriter, NamesTheClassesWhereTheyAreKnown) {
  EXPECT_THAT(read_class_names(model_), testing::IsEmpty());
  tiny_.class_names = {"cat", "dog | wolf", "Ästling"};
  tiny_.write(model_);
  EXPECT_EQ(base::Json::parse(text("class_names.json")), (base::Json{"cat", "dog | wolf", "Ästling"}));
  EXPECT_THAT(text("README.md"), HasSubstr("| classes | 3: cat, dog   wolf, Ästling |"));
  EXPECT_EQ(read_class_names(model_), tiny_.class_names);
  EXPECT_EQ(read_class_names(model_ / "unet"), tiny_.class_names);
  for (const char* wrong : {"{\"0\": \"cat\"}", "[\"cat\", 1]", "\"cat\""}) {
    test::write_text(model_ / "class_names.json", wrong);
    try {
      read_class_names(model_);
      ADD_FAILURE() << wrong;
    } catch (const base::OutputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("class_names.json: it holds"));
    }
  }
}

TEST_F(DiffusersWriter, StoresChannelsLastAndHalfWeightsAsRowMajorFloat32) {
  at::Tensor weight =
      at::arange(2 * 3 * 2 * 2, at::kHalf).reshape({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<NamedTensor> weights = {{"w", weight}};
  write(weights);
  const checkpoint::SafetensorsFile file(model_ / "unet" / "diffusion_pytorch_model.safetensors");
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  const checkpoint::SafetensorsEntry* entry = file.header().find("w");
  ASSERT_NE(entry, nullptr);
  EXPECT_THAT(entry->shape, ElementsAre(2, 3, 2, 2));
  std::vector<float> read(24);
  file.read(*entry, std::as_writable_bytes(std::span(read)));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(read[static_cast<std::size_t>(i)], static_cast<float>(i));
}

TEST_F(DiffusersWriter, AModelOfLeftoversHoldsItsRegressionAndIsNoPipeline) {
  diffusion::SchedulerConfig regression;
  regression.formulation = diffusion::Formulation::regression;
  const std::vector<NamedTensor> weights = tiny_.weights();
  const WrittenModel mean{tiny_config_, regression, weights, normalization_, card_};
  write(weights, &mean);
  EXPECT_THAT(text("model_index.json"), HasSubstr("ResidualUNet2D"));
  EXPECT_THAT(text("README.md"), HasSubstr("`mean_model/`"));
  EXPECT_THAT(text("mean_model/model_index.json"), HasSubstr("RegressionPipeline"));
  EXPECT_THAT(text("mean_model/scheduler/scheduler_config.json"), HasSubstr("\"_class_name\": \"Regression\""));
  EXPECT_THAT(text("mean_model/README.md"), HasSubstr("torch.zeros"));
  const UNetWeights read(model_ / "mean_model", tiny_.shapes());
  EXPECT_TRUE(at::equal(read.read(weights.front().first), weights.front().second));
}

TEST_F(DiffusersWriter, FrequenciesStayFloat32) {
  tiny_config_.time_embedding_type = nn::TimeEmbedding::fourier;
  const TinyModel fourier(tiny_config_);
  const std::vector<NamedTensor> weights = fourier.weights();
  write_diffusers_model(*files_, model_,
                        {tiny_config_, scheduler_, weights, normalization_, card_, nullptr, at::kBFloat16});
  const UNetWeights read(model_, fourier.shapes());
  for (const auto& [name, value] : weights) {
    const bool constant = name == "time_proj.weight";
    EXPECT_EQ(read.dtype_of(name), constant ? at::kFloat : at::kBFloat16) << name;
    EXPECT_TRUE(!constant || at::equal(read.read(name), value));
  }
}

TEST_F(DiffusersWriter, AModelThatIsGivenMoreIsNoPipeline) {
  tiny_config_.in_channels = 5;
  tiny_config_.out_channels = 1;
  write({});
  EXPECT_EQ(base::Json::parse(text("model_index.json")),
            base::Json::parse(R"({"_class_name": "MoreInputsPipeline", "_diffusers_version": "0.35.2",
                                  "scheduler": ["diffusers", "DDPMScheduler"],
                                  "unet": ["diffusers", "MoreInputsUNet2D"]})"));
  EXPECT_THAT(text("unet/config.json"), HasSubstr("\"_class_name\": \"UNet2DModel\""));
}

TEST_F(DiffusersWriter, TheCardOfARegressionNamesWhatItIsGiven) {
  diffusion::SchedulerConfig regression;
  regression.formulation = diffusion::Formulation::regression;
  const auto card = [&](const nn::UNet2DConfig& config, const base::Json& normalization) {
    return model_card_text({config, regression, {}, normalization, card_});
  };
  nn::UNet2DConfig own = tiny_config();
  own.num_parameters = 2;
  EXPECT_THAT(card(own, {}),
              testing::AllOf(HasSubstr("torch.zeros(len(parameters), 3, 16, 16)"),
                             HasSubstr("mean = unet(zeros, 0, parameters)"), Not(HasSubstr("import Regression"))));
  own.num_parameters.reset();
  own.padding = {"periodic"};
  const base::Json given = {{"fields", {{{"role", "condition"}}}}};
  EXPECT_THAT(card(own, given), testing::AllOf(HasSubstr("torch.zeros(len(condition), 3, *condition.shape[2:])"),
                                               HasSubstr("mean = unet(torch.cat([zeros, condition], 1), 0)"),
                                               Not(HasSubstr("import Regression"))));
}

TEST_F(DiffusersWriter, ReplacesAnOlderFolderAndSweepsWhatACrashLeft) {
  std::filesystem::create_directories(folder_.path() / ".model.tmp-0123456789abcdef" / "unet");
  std::filesystem::create_directories(folder_.path() / ".model.old-0123456789abcdef");
  std::filesystem::create_directories(model_);
  test::write_text(model_ / "stale.txt", "old");
  tiny_.write(model_ / "");  // a closing slash names the same folder
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_FALSE(files_->exists(model_ / "stale.txt"));
}

TEST_F(DiffusersWriter, AFailureLeavesTheOlderFolderAndNothingElse) {
  tiny_.write(model_);
  const std::string before = text("README.md");
  std::vector<NamedTensor> twice = tiny_.weights();
  twice.push_back(twice.front());
  EXPECT_THROW(write(twice), base::InternalError);
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_EQ(text("README.md"), before);
}

// A kill between the two renames leaves the older folder, whole, under a hidden name.
TEST_F(DiffusersWriter, AFolderThatACrashHasDisplacedIsThereAgainUntilItIsReplaced) {
  tiny_.write(model_);
  const std::string before = text("README.md");
  std::filesystem::rename(model_, folder_.path() / ".model.old-0123456789abcdef");
  std::vector<NamedTensor> twice = tiny_.weights();
  twice.push_back(twice.front());
  EXPECT_THROW(write(twice), base::InternalError);
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_EQ(text("README.md"), before);
  std::filesystem::rename(model_, folder_.path() / ".model.old-0123456789abcdef");
  tiny_.write(model_);
  EXPECT_THAT(names(), ElementsAre("model"));
}

TEST_F(DiffusersWriter, TheCardTellsWhatTheModelIsAndHowToLoadIt) {
  tiny_.write(model_);
  const std::string card = text("README.md");
  for (const char* part : {"---\nlibrary_name: diffusers", "# Tiny", "| training set | shapes |",
                           "| images in it | 100 |", "| optimizer steps | 5 |", "| weights | raw, float32 |",
                           "DDPMPipeline.from_pretrained", "steps = 5", "license: unknown", "\"dtype\": \"uint8\""}) {
    EXPECT_THAT(card, HasSubstr(part));
  }
  nn::UNet2DConfig classes = tiny_config();
  classes.num_class_embeds = 3;
  card_.title = "a\n# b";
  const std::string conditional = model_card_text({classes, scheduler_, {}, normalization_, card_});
  EXPECT_THAT(conditional, HasSubstr("class_labels"));
  EXPECT_THAT(conditional, HasSubstr("# a # b\n"));
  EXPECT_THAT(conditional, Not(HasSubstr("training set |")));
}

TEST_F(DiffusersWriter, TheCardsNumbersAreNumbersToYaml) {
  // YAML 1.1, which Python's reader speaks, takes 1e-05 for a text.
  const auto metadata_of = [this](double loss) {
    card_.validation = CardValidation{loss, "held out"};
    const std::string text = model_card_text({tiny_config_, scheduler_, {}, normalization_, card_});
    return text.substr(0, text.find("\n---\n"));
  };
  EXPECT_THAT(metadata_of(1e-5), HasSubstr("value: 1.0e-05"));
  EXPECT_THAT(metadata_of(0.25), HasSubstr("value: 0.25"));
  EXPECT_THAT(metadata_of(3.0), HasSubstr("value: 3.0"));
  EXPECT_THAT(metadata_of(std::numeric_limits<double>::quiet_NaN()), Not(HasSubstr("model-index")));
}

TEST_F(DiffusersWriter, ALicenceThatHubsDoNotKnowIsAnotherOne) {
  const auto metadata_of = [this](const std::string& license) {
    card_.stated.license = license;
    return model_card_text({tiny_config_, scheduler_, {}, normalization_, card_});
  };
  EXPECT_THAT(metadata_of("Apache-2.0"), HasSubstr("\nlicense: apache-2.0\n"));
  for (const std::string license : {"afl-3.0", "bigscience-bloom-rail-1.0", "cc-by-2.0", "cc-by-nc-nd-4.0", "cc0-1.0",
                                    "gpl", "mit", "openrail++", "zlib"}) {
    EXPECT_THAT(metadata_of(license), HasSubstr("\nlicense: " + license + "\n"));
  }
  EXPECT_THAT(metadata_of("Our Lab's Licence, v1.2"),
              HasSubstr("\nlicense: other\nlicense_name: \"our-lab-s-licence-v1.2\"\n"));
  EXPECT_THAT(metadata_of("mit mpl-2.0"), HasSubstr("\nlicense: other\n"));
}

}  // namespace
}  // namespace ddpm::interop
