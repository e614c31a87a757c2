"""`ddpm eval fields --exact`: the exact values are those of tests/generate/exact.py and SciPy, the errors those of a loop in NumPy,
sets that `ddpm data generate` draws are within 4 standard errors, and sets of other couplings are not."""

import json
import os
import pathlib
import sys
import unittest

import h5py
import numpy as np
from scipy import special

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tests" / "support"), str(SOURCE / "tests" / "generate")]
import exact  # noqa: E402
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()


def generate(kind, size, count, *options):
    folder = WORK / "-".join([kind, str(size), str(count), *map(str, options)]).replace("--", "")
    if not folder.exists():
        ddpm("data", "generate", kind, "--output", folder, "--size", size, "--count", count, *options)
    return folder


def images(folder):
    return np.concatenate([h5py.File(shard)["images"][:] for shard in sorted(folder.glob("*.h5"))]).astype(float)


def evaluate(samples, kind, *options, ranks=1, code=0):
    process = ddpm("eval", "fields", samples, "--exact", kind, *options, "--json", ranks=ranks, check=False)
    if process.returncode != code:
        raise AssertionError(f"{samples} {kind}: exit code {process.returncode}\n{process.stderr}\n{process.stdout}")
    rows = json.loads(process.stdout)["metrics"] if process.stdout else []
    return {(row["name"], row.get("level", "")): row for row in rows}


def u1_loop(beta, n, area):
    k = np.arange(-60, 61)
    ratio = special.ive(k, beta) / special.ive(0, beta)
    above = special.ive(k + 1, beta) / special.ive(0, beta)
    return (ratio ** (n - area) * above**area).sum() / (ratio**n).sum()


def su2_loop(beta, n, area):
    order = np.arange(1, 80)
    ratio = special.ive(order, beta) / special.ive(1, beta)
    of = lambda m: special.ive(m, beta) / special.ive(1, beta)
    pairs = sum(np.where(order + step > 0, (order + step) / order * of(np.abs(order + step)) ** area * ratio ** (n - area), 0)
                for step in (-1, 1))  # fmt: skip
    return pairs.sum() / 2 / (ratio**n).sum()


class Exact(unittest.TestCase):
    def near(self, seen, wanted, rtol=1e-9, atol=1e-12):
        np.testing.assert_allclose(seen, wanted, rtol=rtol, atol=atol)

    def test_values_of_gauge_theories(self):
        for size, height, width in (("4", 4, 4), ("3x8", 3, 8), ("2", 2, 2)):
            samples, quaternions = generate("u1", size, 3, "--beta", 1), generate("su2", size, 3, "--beta", 1)
            for beta in (0.3, 2.5, 40):
                n = height * width
                rows = evaluate(samples, f"u1,beta={beta}")
                self.near(rows["plaquette", ""]["reference"], exact.u1_plaquette(beta, n))
                self.near(rows["plaquette", ""]["reference"], u1_loop(beta, n, 1))
                self.near(rows["plaquette", ""]["limit"], special.ive(1, beta) / special.ive(0, beta))
                # exact.py's is a difference of two large numbers.
                self.near(rows["topological_susceptibility", ""]["reference"] * n, max(exact.u1_charge_squared(beta, n), 0), 1e-4, 1e-10)
                of_su2 = evaluate(quaternions, f"su2,beta={beta}")
                self.near(of_su2["plaquette", ""]["reference"], exact.su2_plaquette(beta, n))
                self.near(of_su2["plaquette", ""]["limit"], special.ive(2, beta) / special.ive(1, beta))
                for name, area in (("2 x 1", 2), ("2 x 2", 4)):
                    if height > 2:
                        self.near(rows["wilson_loop", name]["reference"], u1_loop(beta, n, area))
                        self.near(of_su2["wilson_loop", name]["reference"], su2_loop(beta, n, area))
        self.near(evaluate(samples, "u1,beta=0")["plaquette", ""]["reference"], 0)

    def test_values_of_the_ising_model(self):
        for size, height, width in (("6x4", 6, 4), ("16", 16, 16)):
            samples = generate("ising", size, 3, "--beta", 0.4)
            for beta in (0.1, 0.44, 0.9):
                rows = evaluate(samples, f"ising,beta={beta}")
                self.near(rows["energy", ""]["reference"], exact.ising_energy(height, width, beta), 1e-7)
                wave = 2 * np.sinh(2 * beta) / np.cosh(2 * beta) ** 2
                onsager = -(1 + 2 / np.pi * (2 * np.tanh(2 * beta) ** 2 - 1) * special.ellipk(wave**2)) / np.tanh(2 * beta)
                self.near(rows["energy", ""]["limit"], onsager, 1e-6)
        warm = evaluate(samples, "ising,temperature=2")
        self.near(warm["energy", ""]["reference"], exact.ising_energy(16, 16, 0.5), 1e-7)
        self.near(warm["magnetisation_magnitude", ""]["limit"], (1 - np.sinh(1.0) ** -4.0) ** 0.125)

    def test_spectra_of_free_and_of_gaussian_fields(self):
        for sides in ((8, 10), (4, 5, 6)):
            size = "x".join(map(str, sides))
            waves = np.meshgrid(*[np.fft.fftfreq(side) for side in sides], indexing="ij")
            length = np.sqrt(sum(k**2 for k in waves))
            ring = np.floor(length * max(sides) + 0.5 + 1e-12).astype(int)
            propagator = 1 / (exact.lattice_momenta(sides) + 0.7)
            rows = evaluate(generate("phi4", size, 3, "--mass-squared", 0.7, "--lambda", 0), "phi4,mass-squared=0.7,lambda=0")
            self.near(rows["phi_squared", ""]["reference"], propagator.mean())
            law = np.where(length > 0, np.maximum(length, 1e-9) ** -2.5, 0)
            law *= law.size / law.sum()
            of_grf = evaluate(generate("grf", size, 3, "--slope", 2.5), "grf,slope=2.5")
            for r in range(1, max(sides) // 2 + 1):
                self.near(rows["power", f"k {r}"]["reference"], propagator[ring == r].mean())
                self.near(of_grf["power", f"k {r}"]["reference"], law[ring == r].mean())

    def test_measurements_and_errors_are_those_of_numpy(self):
        # 1,200 samples are left out in 1,000 blocks.
        folder = generate("u1", "4", 1200, "--beta", 1.5)
        right, down = np.moveaxis(images(folder), -1, 0)
        angles = right + np.roll(down, -1, 2) - np.roll(right, -1, 1) - down
        charge = (np.remainder(angles + np.pi, 2 * np.pi) - np.pi).sum((1, 2)) / (2 * np.pi)
        rows = evaluate(folder, "u1,beta=1.5")
        vectors = evaluate(generate("u1", "4", 1200, "--beta", 1.5, "--links", "vectors"), "u1,beta=1.5")
        self.near([vectors[key]["value"] for key in rows], [row["value"] for row in rows.values()], 1e-6, 1e-6)
        wanted = {"plaquette": np.cos(angles).mean((1, 2)), "topological_charge": charge, "topological_susceptibility": charge**2 / 16}
        loops = angles + np.roll(angles, -1, 2)
        for name, level, numbers in [*((key, "", value) for key, value in wanted.items()),
                                     ("wilson_loop", "2 x 1", np.cos(loops).mean((1, 2))),
                                     ("wilson_loop", "2 x 2", np.cos(loops + np.roll(loops, -1, 1)).mean((1, 2)))]:  # fmt: skip
            row = rows[name, level]
            self.near(row["value"], numbers.mean(), 1e-6)
            blocks = np.array_split(numbers, 1000)
            rest = np.array([(numbers.sum() - block.sum()) / (len(numbers) - len(block)) for block in blocks])
            self.near(row["standard_error"], np.sqrt(999 / 1000 * np.square(rest - rest.mean()).sum()), 1e-6)
            by_samples = (row["value"] - row["reference"]) / row["standard_error"]
            if name.startswith("topological"):  # where few samples have a charge, the theory's own error is the larger one
                self.assertLessEqual(abs(row["sigmas"]), abs(by_samples) * (1 + 1e-9))
            else:
                self.near(row["sigmas"], by_samples)

    def test_errors_are_over_conditions_and_blocks(self):
        x = np.moveaxis(images(generate("u1", "4", 60, "--beta", 1.5)), -1, 1).astype(np.float32)
        np.save(WORK / "once.npy", x)
        np.save(WORK / "four-times.npy", x.repeat(4, axis=0))
        options = ("--samples-hold", "stored")
        once, four = evaluate(WORK / "once.npy", "u1,beta=1.5", *options), evaluate(WORK / "four-times.npy", "u1,beta=1.5", "--members", 4, *options, ranks=2)
        for key, row in once.items():
            self.near([four[key]["value"], four[key]["standard_error"]], [row["value"], row["standard_error"]], 1e-9)
            self.assertEqual(four[key]["units"], 60)
        ignored = evaluate(WORK / "four-times.npy", "u1,beta=1.5", "--unpaired", *options)
        self.assertLess(ignored["plaquette", ""]["standard_error"], 0.6 * once["plaquette", ""]["standard_error"])
        numbers = np.cos(x[:, 0] + np.roll(x[:, 1], -1, 2) - np.roll(x[:, 0], -1, 1) - x[:, 1]).astype(float).mean((1, 2))
        rest = np.array([(numbers.sum() - block.sum()) / (60 - len(block)) for block in np.array_split(numbers, 12)])
        blocks = evaluate(WORK / "once.npy", "u1,beta=1.5", "--block", 5, *options)
        self.near(blocks["plaquette", ""]["standard_error"], np.sqrt(11 / 12 * np.square(rest - rest.mean()).sum()), 1e-5)
        evaluate(WORK / "once.npy", "u1,beta=1.5", "--block", 31, *options, code=2)
        evaluate(WORK / "once.npy", "u1,beta=1.5", "--members", 7, *options, code=3)

    def test_other_measurements(self):
        folder = generate("phi4", "5x4", 6, "--mass-squared", -0.4, "--lambda", 0.3)
        phi = images(folder)[..., 0]
        around = sum(np.roll(phi, shift, axis) for axis in (1, 2) for shift in (1, -1))
        slope = (4 - 0.4) * phi - around + 1.2 * phi**3
        rows = evaluate(folder, "phi4,mass-squared=-0.4,lambda=0.3")
        self.near(rows["schwinger_dyson", "phi dS/dphi"]["value"], (phi * slope).mean())
        self.near(rows["schwinger_dyson", "phi' dS/dphi"]["value"], (np.roll(phi, -1, 2) * slope).mean())
        self.near(rows["schwinger_dyson", "phi^3 dS/dphi - 3 phi^2"]["value"], (phi**3 * slope - 3 * phi**2).mean())
        self.near(rows["phi_fourth", ""]["value"], (phi**4).mean())
        field = images(generate("grf", "8", 5, "--slope", 2))[..., 0]
        rows = evaluate(generate("grf", "8", 5, "--slope", 2), "grf,slope=2")
        self.near(rows["variance", ""]["value"], (field**2).mean())
        self.near(rows["excess_kurtosis", ""]["value"], (field**4).mean() / (field**2).mean() ** 2 - 3)
        spins = images(generate("ising", "6x4", 3, "--beta", 0.4))[..., 0] / 127.5 - 1
        rows = evaluate(generate("ising", "6x4", 3, "--beta", 0.4), "ising,beta=0.4")
        self.near(rows["energy", ""]["value"], -sum((spins * np.roll(spins, 1, axis)).mean() for axis in (1, 2)))
        self.near(rows["magnetisation_magnitude", ""]["value"], np.abs(spins.mean((1, 2))).mean())
        links = images(generate("su2", "4", 3, "--beta", 1))
        np.save(WORK / "long.npy", np.moveaxis(links * 1.01, -1, 1).astype(np.float32))
        rows = evaluate(WORK / "long.npy", "su2,beta=1")
        self.near(rows["length_deviation", ""]["value"], 0.01, 1e-4)
        self.near(rows["plaquette", ""]["value"], evaluate(generate("su2", "4", 3, "--beta", 1), "su2,beta=1")["plaquette", ""]["value"], 1e-5)

    def test_generated_sets_pass_the_gate_and_others_do_not(self):
        for kind, size, count, right, options, wrong in [
            ("u1", "8", 1500, "u1,beta=1.5", ("--beta", 1.5), "u1,beta=1.6"),
            ("su2", "6", 1500, "su2,beta=2.2", ("--beta", 2.2), "su2,beta=2.4"),
            ("ising", "8", 800, "ising,beta=0.3", ("--beta", 0.3), "ising,beta=0.35"),
            ("ising", "3x3x3", 300, "ising,beta=0.2", ("--beta", 0.2), None),
            ("phi4", "6", 800, "phi4,mass-squared=-0.5,lambda=0.3", ("--mass-squared", -0.5, "--lambda", 0.3), "phi4,mass-squared=-0.5,lambda=0.4"),
            ("phi4", "6x4x5", 300, "phi4,mass-squared=0.5,lambda=0", ("--mass-squared", 0.5, "--lambda", 0), "phi4,mass-squared=0.7,lambda=0"),
            ("grf", "16", 800, "grf,slope=2.5", ("--slope", 2.5), "grf,slope=2.8"),
        ]:  # fmt: skip
            folder = generate(kind, size, count, *options)
            evaluate(folder, right, "--gate", 4)
            if wrong:
                evaluate(folder, wrong, "--gate", 4, code=6)

    def test_powers_are_counted_in_the_theory_s_own_error_where_that_is_the_larger_one(self):
        """Powers of few modes are skewed, so that a mean which is too low seems to be sure: this set of fields is exact."""
        sides, count = (9, 14), 60
        waves = np.meshgrid(*[np.fft.fftfreq(side) for side in sides], indexing="ij")
        length = np.sqrt(sum(k**2 for k in waves))
        ring = np.floor(length * max(sides) + 0.5 + 1e-12).astype(int)
        law = np.where(length > 0, np.maximum(length, 1e-9) ** -2, 0)
        law *= law.size / law.sum()
        propagator = 1 / (exact.lattice_momenta(sides) + 0.7)
        free = ("phi4", "--mass-squared", 0.7, "--lambda", 0), "phi4,mass-squared=0.7,lambda=0", propagator, "phi_squared"
        for (kind, *options), name, power, square in ((("grf", "--slope", 2), "grf,slope=2", law, "variance"), free):
            folder = generate(kind, "9x14", count, *options)
            rows = evaluate(folder, name, "--gate", 4)
            deviations = {("power", f"k {r}"): np.sqrt(2 * np.square(power[ring == r]).sum()) / (ring == r).sum() for r in range(1, 8)}
            deviations[square, ""] = np.sqrt(2 * np.square(power).sum()) / power.size
            if kind == "phi4":
                deviations["power", "k 0"] = np.sqrt(2) / 0.7
            for key, deviation in deviations.items():
                row = rows[key]
                error = max(row["standard_error"], deviation / np.sqrt(count))
                self.near(row["sigmas"], (row["value"] - row["reference"]) / error, 1e-6)
            if kind == "grf":
                low = rows["power", "k 2"]
                self.assertLess((low["value"] - low["reference"]) / low["standard_error"], -4)
            # Members of a condition are at best independent of each other.
            four = evaluate(folder, name, "--members", 4)
            for key, deviation in deviations.items():
                row = four[key]
                error = max(row["standard_error"], deviation / np.sqrt(count))
                self.near(row["sigmas"], (row["value"] - row["reference"]) / error, 1e-6)

    def test_ranks_and_scales_change_nothing(self):
        folder = generate("u1", "8", 1500, "--beta", 1.5)
        outputs = {ddpm("eval", "fields", folder, "--exact", "u1,beta=1.5", "--json", ranks=n).stdout for n in (1, 2, 3)}
        self.assertEqual(len(outputs), 1)
        # What a model draws is in its range, where angles are divided by pi; spins may be any numbers of their sign.
        np.save(WORK / "drawn.npy", np.moveaxis(images(folder) / np.pi, -1, 1).astype(np.float32))
        drawn, stored = evaluate(WORK / "drawn.npy", "u1,beta=1.5"), evaluate(folder, "u1,beta=1.5")
        for key in stored:
            self.near(drawn[key]["value"], stored[key]["value"], 1e-4)
        spins = images(generate("ising", "16", 3, "--beta", 0.4))[..., 0]
        np.save(WORK / "soft.npy", (np.where(spins > 0, 0.3, -0.6))[:, None].astype(np.float32))
        soft, hard = evaluate(WORK / "soft.npy", "ising,beta=0.4"), evaluate(generate("ising", "16", 3, "--beta", 0.4), "ising,beta=0.4")
        self.assertEqual(soft["energy", ""]["value"], hard["energy", ""]["value"])
        self.assertGreater(soft["spin_deviation", ""]["value"], 0.3)

    def test_samples_that_are_all_alike_do_not_pass(self):
        np.save(WORK / "equal.npy", np.zeros((20, 2, 4, 4), np.float32))
        rows = evaluate(WORK / "equal.npy", "u1,beta=1.5", "--gate", 4, code=6)
        self.assertEqual(rows["plaquette", ""]["value"], 1)
        # The mean of 20 equal numbers is rounded, and so are their distances from it: no error, but no zero either.
        np.save(WORK / "equal.npy", np.random.default_rng(1).uniform(-1, 1, (1, 2, 4, 4)).repeat(20, axis=0).astype(np.float32))
        rows = evaluate(WORK / "equal.npy", "u1,beta=1.5", "--gate", 4, code=6)
        self.assertIn(rows["plaquette", ""]["sigmas"], ("inf", "-inf"))

    def test_couplings_that_are_not_given_are_those_of_a_set_without_them(self):
        for kind, couplings in [("u1", "beta=1"), ("phi4,lambda=0.1", "mass-squared=0.1"), ("grf", "slope=3"),
                                ("ising", "beta=0.4406867935097715")]:
            samples = generate(kind.split(",")[0], "6", 8)
            with_it = f"{kind},{couplings}"
            short, long = (json.loads(ddpm("eval", "fields", samples, "--exact", name, "--json").stdout) for name in (kind, with_it))
            self.assertEqual(short["metrics"], long["metrics"])
            self.assertEqual(short["settings"]["exact"], with_it)

    def test_lattices_that_do_not_fit(self):
        for samples, kind, code, phrase in [
            (generate("u1", "4", 3, "--beta", 1), "su2,beta=1", 3, "2 variables"),
            (generate("grf", "4x5x6", 3, "--slope", 2.5), "u1,beta=1", 2, "4 x 5 x 6 sites"),
            (generate("u1", "4", 3, "--beta", 1), "ising,beta=1,temperature=1", 2, "wanted one of them"),
        ]:
            process = ddpm("eval", "fields", samples, "--exact", kind, check=False)
            self.assertEqual(process.returncode, code, process.stderr)
            self.assertIn(phrase, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
