#include "cli/data_generate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "cli/data_create.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "cli/sides.h"
#include "comm/collectives.h"
#include "data/fill_shards.h"
#include "data/format.h"
#include "generate/couplings.h"
#include "generate/gaussian_field.h"
#include "generate/glyphs.h"
#include "generate/gray_scott.h"
#include "generate/ising.h"
#include "generate/limits.h"
#include "generate/make_set.h"
#include "generate/phi4.h"
#include "generate/su2.h"
#include "generate/u1.h"

namespace ddpm::cli {
namespace {

using base::ConfigError;
using generate::Generator;

/// How the links of U(1) are written: as angles, or as cosines and sines.
enum class Links : uint8_t { angles, vectors };
constexpr auto names_of(Links /*links*/) { return std::to_array<std::string_view>({"angles", "vectors"}); }

/// The default of an option that may have several values.
std::string default_text(const generate::Coupling& coupling) { return fmt::format("{}", coupling.default_value); }

/// What all kinds have. The values of lists are text until the ranks agree on what is wrong with them.
struct Arguments {
  generate::SetOptions set;
  std::string size = "64";
  std::optional<int64_t> count;
  bool json = false;

  std::string slope = default_text(generate::kGrfSlope);
  std::string beta;
  Links links = Links::angles;
  generate::Gauge gauge = generate::Gauge::random;
  std::string temperature;
  std::string mass_squared = default_text(generate::kPhi4MassSquared);
  double lambda = generate::kPhi4Lambda.default_value;
  int64_t sweeps = generate::kIsingSweeps.default_value;
  int64_t trajectories = generate::kPhi4Trajectories.default_value;
  generate::GrayScottOptions reaction;
  base::Path fonts;
  generate::GlyphClass glyph_class = generate::GlyphClass::code_point;
  std::string characters;
};

NumberRange limits_of(const generate::Coupling& coupling) { return {coupling.least, coupling.most}; }
IntegerRange limits_of(const generate::Count& count) { return {count.least, count.most}; }

/// "64" is a square, "64x128" a height and a width, "32x64x64" a volume, depth first.
std::vector<int64_t> grid_of(const Arguments& arguments, const generate::GridLimits& limits) {
  std::vector<int64_t> sides = sides_of("--size", arguments.size, limits.most);
  if (sides.size() == 1) sides.push_back(sides.front());
  generate::expect_grid(sides, limits, arguments.size);
  return sides;
}

/// The values of an option --NAME for a coupling.
std::vector<double> values_of(const generate::Coupling& coupling, const std::string& text) {
  const std::string option = fmt::format("--{}", coupling.name);
  return generate::checked_values(read_numbers(option, text, limits_of(coupling)), coupling);
}

/// Where neither is given, the default coupling alone.
std::vector<double> ising_betas(const Arguments& arguments) {
  if (!arguments.beta.empty() && !arguments.temperature.empty()) {
    throw ConfigError("ising: both were given, wanted one of --beta and --temperature");
  }
  if (arguments.temperature.empty()) {
    return arguments.beta.empty() ? std::vector{generate::kIsingBeta.default_value}
                                  : values_of(generate::kIsingBeta, arguments.beta);
  }
  std::vector<double> betas = values_of(generate::kIsingTemperature, arguments.temperature);
  for (double& value : betas) value = 1.0 / value;
  return betas;
}

std::unique_ptr<Generator> make_phi4(const Arguments& arguments) {
  std::vector<double> masses = values_of(generate::kPhi4MassSquared, arguments.mass_squared);
  generate::expect_masses(masses, arguments.lambda, arguments.mass_squared);
  return std::make_unique<generate::Phi4>(grid_of(arguments, generate::Phi4::kGrid), std::move(masses),
                                          arguments.lambda, arguments.trajectories, arguments.set.seed);
}

/// All glyphs, unless a count is given.
std::unique_ptr<Generator> make_glyphs(Context& context, Arguments& arguments) {
  const std::vector<int64_t> sides = grid_of(arguments, generate::Glyphs::kGrid);
  auto glyphs = std::make_unique<generate::Glyphs>(context.files, arguments.fonts, sides[0], sides[1],
                                                   arguments.glyph_class, arguments.characters, arguments.set.seed);
  arguments.set.count = arguments.count.value_or(glyphs->available());
  if (arguments.set.count > glyphs->available()) {
    throw ConfigError("--count {}: the fonts have {} distinct glyphs of this size", arguments.set.count,
                      glyphs->available());
  }
  context.log.info("{} distinct glyphs; {} have no ink or do not fit, {} look like another one", glyphs->available(),
                   glyphs->unfit(), glyphs->repeated());
  return glyphs;
}

using Maker = std::function<std::unique_ptr<Generator>(Context&, Arguments&)>;

void run_generate(Context& context, Arguments arguments, const Maker& maker) {
  const auto began = base::Clock::now();
  auto& world = context.session.world();
  std::unique_ptr<Generator> generator;
  arguments.set.count = arguments.count.value_or(0);
  comm::agree(world, [&] { generator = maker(context, arguments); });
  const int64_t shards = std::min(arguments.set.shards, arguments.set.count);
  data::tell_idle_ranks(context.log, shards, world.size());
  const auto done = [&] {
    LazyBar bar("data generate", context.log.speaks());
    return generate::make_set(world, context.files, arguments.set, *generator,
                              [&](int64_t made, int64_t total) { bar.update(made, total); });
  }();
  const double seconds = base::seconds_since(began);
  const std::string output = arguments.set.output.string();
  if (!arguments.json) {
    const std::string reused =
        done.reused_shards > 0 ? fmt::format(" ({} from an earlier run)", done.reused_shards) : "";
    print(context, fmt::format("{}: {} of {} in {}{}, {:.1f} s", output, base::counted(arguments.set.count, "sample"),
                               data::size_text(generator->image_field().format()), base::counted(done.shards, "shard"),
                               reused, seconds));
    return;
  }
  print(context, dump({{"dataset", output},
                       {"images", arguments.set.count},
                       {"classes", generator->class_names().size()},
                       {"shards", done.shards},
                       {"reused_shards", done.reused_shards},
                       {"bytes", done.bytes},
                       {"description", generator->description()},
                       {"seconds", seconds}}));
}

/// The subcommand of a kind with the options that all kinds have.
Subcommand declare_kind(const Subcommand& generate, Command& command, const std::string& name, const std::string& help,
                        const std::shared_ptr<Arguments>& arguments, const Maker& maker) {
  const Subcommand kind = generate.add_subcommand(name, help);
  auto& set = arguments->set;
  kind.add("--output", &set.output, "The dataset's folder; it must not exist").required();
  const bool counts_itself = name == "glyphs";
  kind.add("--count", &arguments->count,
           counts_itself ? "Number of samples; without it, all there are" : "Number of samples")
      .accept(IntegerRange{1, generate::kMostSamples})
      .required(!counts_itself);
  kind.add("--size", &arguments->size, "Side of a square, HEIGHTxWIDTH, or DEPTHxHEIGHTxWIDTH where volumes are made")
      .show_default();
  kind.add("--seed", &set.seed, "Sample i is a function of the options, the seed and i")
      .accept(SeedRange{})
      .show_default();
  kind.add("--shards", &set.shards, "Number of files, which is also the most ranks that can work")
      .accept(IntegerRange{1, data::kMostShards})
      .show_default();
  kind.add(kAlignOption, &set.alignment, kAlignHelp);
  add_json_flag(kind, arguments->json);
  kind.on_chosen([&command, arguments, maker] {
    command = {.run = [arguments, maker](Context& context) { run_generate(context, *arguments, maker); },
               .shares_work = true};
  });
  return kind;
}

void declare_grf(const Subcommand& generate, Command& command) {
  const auto arguments = std::make_shared<Arguments>();
  declare_kind(generate, command, "grf", "Periodic Gaussian random fields of a power-law spectrum", arguments,
               [](Context& /*context*/, Arguments& a) -> std::unique_ptr<Generator> {
                 return std::make_unique<generate::GaussianField>(grid_of(a, generate::GaussianField::kGrid),
                                                                  values_of(generate::kGrfSlope, a.slope), a.set.seed);
               })
      .add("--slope", &arguments->slope,
           "Power falls with this power of the wave number; several, as in 2,3, make classes")
      .show_default();
}

void declare_ising(const Subcommand& generate, Command& command) {
  const auto arguments = std::make_shared<Arguments>();
  const Subcommand ising = declare_kind(
      generate, command, "ising", "The Ising model by Wolff clusters: uint8 images of 0 (spin -1) and 255 (spin 1)",
      arguments, [](Context& /*context*/, Arguments& a) -> std::unique_ptr<Generator> {
        return std::make_unique<generate::Ising>(grid_of(a, generate::Ising::kGrid), ising_betas(a), a.sweeps,
                                                 a.set.seed);
      });
  ising.add("--beta", &arguments->beta,
            "Coupling J / kT, 0 to 10; several, as in 0.3,0.44, make classes; critical on squares if not given");
  ising.add("--temperature", &arguments->temperature, "kT / J in its place");
  ising.add("--sweeps", &arguments->sweeps, "Spins that a sample's chain turns, per spin of the lattice")
      .accept(limits_of(generate::kIsingSweeps))
      .show_default();
}

void declare_phi4(const Subcommand& generate, Command& command) {
  const auto arguments = std::make_shared<Arguments>();
  const Subcommand phi4 =
      declare_kind(generate, command, "phi4", "Lattice phi^4 theory by Hybrid Monte Carlo and clusters of signs",
                   arguments, [](Context& /*context*/, Arguments& a) { return make_phi4(a); });
  phi4.add("--mass-squared", &arguments->mass_squared,
           "m² of the action's m² / 2 phi², -20 to 20; several, as in -0.5,0.5, make classes")
      .show_default();
  phi4.add("--lambda", &arguments->lambda, "Coupling of the action's lambda phi^4")
      .accept(limits_of(generate::kPhi4Lambda))
      .show_default();
  phi4.add("--trajectories", &arguments->trajectories, "Trajectories of mean length 1 in a sample's chain")
      .accept(limits_of(generate::kPhi4Trajectories))
      .show_default();
}

template <typename Theory>
std::unique_ptr<Generator> make_gauge(const Arguments& arguments, const generate::Coupling& beta) {
  return std::make_unique<Theory>(grid_of(arguments, Theory::kGrid), values_of(beta, arguments.beta), arguments.gauge,
                                  arguments.set.seed);
}

Subcommand declare_gauge(const Subcommand& generate, Command& command, const std::string& name, const std::string& help,
                         const generate::Coupling& beta, const std::shared_ptr<Arguments>& arguments,
                         const Maker& maker) {
  const Subcommand kind = declare_kind(generate, command, name, help, arguments, maker);
  arguments->beta = default_text(beta);
  kind.add("--beta", &arguments->beta, "Coupling of the plaquettes, 0 to 100; several, as in 1,2, make classes")
      .show_default();
  kind.add("--gauge", &arguments->gauge,
           "random: another transformation at each site; landau: links as alike as they can be, "
           "which networks learn sooner")
      .show_default();
  return kind;
}

void declare_u1(const Subcommand& generate, Command& command) {
  const auto arguments = std::make_shared<Arguments>();
  declare_gauge(generate, command, "u1", "U(1) gauge theory in two dimensions: both links of each site",
                generate::kU1Beta, arguments,
                [](Context& /*context*/, Arguments& a) {
                  const bool vectors = a.links == Links::vectors;
                  return vectors ? make_gauge<generate::U1Vectors>(a, generate::kU1Beta)
                                 : make_gauge<generate::U1>(a, generate::kU1Beta);
                })
      .add("--links", &arguments->links, "How links are stored: as angles, or as vectors of cosine and sine")
      .show_default();
}

void declare_su2(const Subcommand& generate, Command& command) {
  declare_gauge(generate, command, "su2", "SU(2) gauge theory in two dimensions: unit quaternions of both links",
                generate::kSu2Beta, std::make_shared<Arguments>(),
                [](Context& /*context*/, Arguments& a) { return make_gauge<generate::Su2>(a, generate::kSu2Beta); });
}

void declare_gray_scott(const Subcommand& generate, Command& command) {
  const auto arguments = std::make_shared<Arguments>();
  auto& reaction = arguments->reaction;
  const Subcommand kind =
      declare_kind(generate, command, "gray-scott", "Patterns of the Gray-Scott reaction: concentrations u and v",
                   arguments, [](Context& /*context*/, Arguments& a) -> std::unique_ptr<Generator> {
                     a.reaction.sides = grid_of(a, generate::GrayScott::kGrid);
                     return std::make_unique<generate::GrayScott>(a.reaction, a.set.seed);
                   });
  kind.add("--feed", &reaction.feed, "Rate at which u is fed")
      .accept(limits_of(generate::kGrayScottFeed))
      .show_default();
  kind.add("--kill", &reaction.kill, "Rate at which v is removed, beside the feed")
      .accept(limits_of(generate::kGrayScottKill))
      .show_default();
  kind.add("--diffusion-u", &reaction.diffusion_u, "Diffusion of u")
      .accept(limits_of(generate::kGrayScottDiffusionU))
      .show_default();
  kind.add("--diffusion-v", &reaction.diffusion_v, "Diffusion of v")
      .accept(limits_of(generate::kGrayScottDiffusionV))
      .show_default();
  kind.add("--steps", &reaction.steps, "Euler's steps of time 1")
      .accept(limits_of(generate::kGrayScottSteps))
      .show_default();
}

void declare_glyphs(const Subcommand& generate, Command& command) {
  const auto arguments = std::make_shared<Arguments>();
  const Subcommand glyphs =
      declare_kind(generate, command, "glyphs", "All distinct glyphs of the DejaVu fonts, in grey", arguments,
                   [](Context& context, Arguments& a) { return make_glyphs(context, a); });
  glyphs.add("--fonts", &arguments->fonts,
             "Folder with files DejaVu*.ttf, at any depth; without it, where systems keep fonts");
  glyphs.add("--class", &arguments->glyph_class, "What a class is: a Unicode code-point, a font, or none: no labels")
      .show_default();
  glyphs.add("--characters", &arguments->characters,
             "The characters to draw, as in A-Za-z0-9; without it, all that the fonts have");
}

}  // namespace

void declare_data_generate(const Subcommand& data, Command& command) {
  const Subcommand generate = data.add_subcommand("generate", "Make a dataset whose truth is known");
  generate.require_subcommand();
  declare_grf(generate, command);
  declare_ising(generate, command);
  declare_phi4(generate, command);
  declare_u1(generate, command);
  declare_su2(generate, command);
  declare_gray_scott(generate, command);
  declare_glyphs(generate, command);
}

}  // namespace ddpm::cli
