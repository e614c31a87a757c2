#include <fmt/ranges.h>

#include "diffusion/config.h"
#include "interop/diffusers_writer.h"
#include "nn/config.h"
#include "nn/time_embedding.h"

namespace ddpm::interop {
namespace {

constexpr std::string_view kLoad = R"(import diffusers, torch

model = diffusers.UNet2DModel.from_pretrained(here / "unet").eval()
)";

constexpr std::string_view kLoadField = R"(import field_unet, torch

model = field_unet.FieldUNet2D.from_folder(here)
)";

std::string inputs(const WrittenModel& model) {
  const nn::UNet2DConfig& c = model.unet;
  const bool fits = nn::fits_diffusers(c);
  std::string text =
      fmt::format(R"("sample": torch.zeros(2, {}, {}), "{}": torch.ones(2, dtype=torch.{}))", c.in_channels,
                  fmt::join(nn::image_size(c).sides(), ", "), fits ? "timestep" : "timesteps",
                  takes_whole_timesteps(c, model.scheduler.formulation) ? "int64" : "float32");
  if (c.num_parameters) text += fmt::format(R"(, "parameters": torch.zeros(2, {}))", *c.num_parameters);
  if (c.class_embed_type == nn::ClassEmbedding::identity) {
    text += fmt::format(R"(, "class_labels": torch.zeros(2, {}))", nn::time_embedding_dim(c));
  } else if (nn::is_class_conditional(c)) {
    text += R"(, "class_labels": torch.zeros(2, dtype=torch.int64))";
  }
  return text;
}

}  // namespace

bool takes_whole_timesteps(const nn::UNet2DConfig& unet, diffusion::Formulation formulation) {
  if (unet.time_embedding_type == nn::TimeEmbedding::learned) return true;  // a table has whole rows
  return formulation != diffusion::Formulation::edm && formulation != diffusion::Formulation::flow &&
         unet.time_embedding_type != nn::TimeEmbedding::fourier;
}

std::string export_script(const WrittenModel& model) {
  if (model.unet.sample_size.empty()) return "";
  const bool fits = nn::fits_diffusers(model.unet);
  return fmt::format(
      R"("""Makes a torch.export program of this model, for 1 to 63 images at once: python export.py PROGRAM.pt2"""
import pathlib, sys

here, program = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[-1])
if len(sys.argv) != 2 or program.suffix != ".pt2" or not (program.parent.is_dir() and (here / "unet").is_dir()):
    print(f"export.py: wanted: PROGRAM.pt2 in a folder that exists, and the model {{here / 'unet'}}", file=sys.stderr)
    sys.exit(2)
{}inputs = {{{}}}
batch = torch.export.Dim("batch", max=63)  # diffusers' upsamplers take another path from 64 on
shapes = {{name: {{0: batch}} for name in inputs}}{}
with torch.no_grad():
    torch.export.save(torch.export.export(model, (), inputs{}, dynamic_shapes=shapes), program)
)",
      fits ? kLoad : kLoadField, inputs(model), fits ? R"( | {"return_dict": None})" : "",
      fits ? R"( | {"return_dict": False})" : "");
}

}  // namespace ddpm::interop
