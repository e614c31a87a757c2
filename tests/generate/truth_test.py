"""What `ddpm data generate` makes, against exact values (exact.py), NumPy's transforms and loops, and FreeType by freetype-py.

    DDPM=build/release/ddpm python truth_test.py          as in continuous integration: seconds
    DDPM=build/release/ddpm python truth_test.py --all    more samples on larger grids: minutes

Averages are within four standard errors of the exact values; seeds are fixed. The program is $DDPM.
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import freetype
import numpy as np

import exact

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "data" / "prepare"))
from data_runs import read, run  # noqa: E402

ALL = "--all" in sys.argv
STANDARD_ERRORS = 4


def axes(samples):
    return tuple(range(1, samples.ndim))


class Truth(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def generate(self, kind, size, count, *options):
        """The images of a set, channels last, as float64."""
        output = self.root / f"set-{len(list(self.root.iterdir()))}"
        amount = ("--count", count) if count else ()
        result = run("generate", kind, "--output", output, "--size", size, *amount, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.output = output
        return read(output)[0]

    def expect(self, what, of_samples, wanted):
        """The mean of independent numbers is the wanted one."""
        error = of_samples.std(ddof=1) / len(of_samples) ** 0.5
        away = (of_samples.mean() - wanted) / error
        if ALL:
            print(f"{what}: {of_samples.mean():.6f} +- {error:.6f}, exact {wanted:.6f}, {away:+.2f} standard errors", flush=True)
        self.assertLess(abs(away), STANDARD_ERRORS, f"{what}: {of_samples.mean()} +- {error}, wanted {wanted}")


class GaussianFields(Truth):
    def spectrum_is_the_power_law(self, sides, slope, count):
        fields = self.generate("grf", "x".join(map(str, sides)), count, "--slope", slope)[..., 0].astype(float)
        frequencies = np.meshgrid(*[np.fft.fftfreq(side) for side in sides], indexing="ij")
        wave = np.sqrt(sum(f**2 for f in frequencies))
        wanted = np.where(wave > 0, np.maximum(wave, 1e-9) ** -float(slope), 0)
        wanted *= wave.size / wanted.sum()
        power = (np.abs(np.fft.fftn(fields, axes=axes(fields))) ** 2).mean(axis=0) / wave.size
        self.assertLess(power.flat[0], 1e-9)
        quotient = power[wave > 0] / wanted[wave > 0]
        bands = min(8, max(sides) // 4)  # up to the Nyquist frequency, the corners in the last one
        band = np.minimum(wave[wave > 0] * 2 * bands, bands - 1).astype(int)
        of_bands = np.array([quotient[band == b].mean() for b in range(bands)])
        if ALL:
            print(f"grf {sides} slope {slope}, power / wanted in {bands} bands over {count}: {np.round(of_bands, 4)}", flush=True)
        np.testing.assert_allclose(of_bands, 1, atol=0.02)
        # Each mode by itself: |X|² is exponential, so that its mean over the samples has the relative deviation 1 / sqrt(count).
        deviations = (quotient - 1) * count**0.5
        self.assertLess(np.abs(deviations).max(), 8)
        self.assertAlmostEqual(fields.var(), 1, delta=0.1)

    def test_spectra_are_power_laws_in_two_and_three_dimensions(self):
        self.spectrum_is_the_power_law((64, 64), 3, 1000)
        self.spectrum_is_the_power_law((9, 16, 15), 2, 1000)
        if ALL:
            self.spectrum_is_the_power_law((256, 128), 2.5, 1000)
            self.spectrum_is_the_power_law((32, 32, 32), 11 / 3, 1000)

    def test_values_are_gaussian(self):
        fields = self.generate("grf", "32", 400, "--slope", 0)[..., 0].astype(float)  # white noise but for its mean
        values = fields.reshape(len(fields), -1) / np.sqrt(1023 / 1024)
        self.expect("fourth moment", (fields**4).mean(axis=axes(fields)), 3)
        self.expect("third moment", (fields**3).mean(axis=axes(fields)), 0)
        self.assertLess(abs(np.corrcoef(values.T)[0, 1:]).max(), 5 / 400**0.5)


class Ising(Truth):
    def energy_is_exact(self, sides, beta, count):
        images = self.generate("ising", "x".join(map(str, sides)), count, "--beta", beta)[..., 0]
        self.assertLessEqual(set(np.unique(images)), {0, 255})
        spins = images / 127.5 - 1
        energy = -sum((spins * np.roll(spins, 1, axis)).mean(axis=axes(spins)) for axis in axes(spins))
        wanted = exact.ising_energy(*sides, beta) if len(sides) == 2 else exact.ising_layers_energy(sides, beta)
        self.expect(f"ising {sides} beta {beta} energy", energy, wanted)
        self.expect(f"ising {sides} beta {beta} magnetisation", spins.mean(axis=axes(spins)), 0)

    def test_kaufmans_formula_is_that_of_the_transfer_matrix(self):
        for height, width, beta in ((4, 5, 0.4), (5, 3, 0.7), (6, 4, 0.1)):
            self.assertAlmostEqual(exact.ising_energy(height, width, beta), exact.ising_layers_energy((height, width), beta), 7)

    def test_energies_are_exact_on_both_sides_of_the_transition(self):
        self.energy_is_exact((8, 6), 0.3, 4000)
        self.energy_is_exact((16, 16), 0.44, 2000)
        self.energy_is_exact((8, 12), 0.6, 2000)
        self.energy_is_exact((3, 3, 3), 0.2, 4000)
        if ALL:
            for beta in (0.35, 0.42, 0.4406868, 0.46):
                self.energy_is_exact((64, 64), beta, 2000)
            self.energy_is_exact((128, 128), 0.4406868, 1000)
            self.energy_is_exact((8, 3, 4), 0.2216546, 20000)

    def test_temperature_is_the_inverse_of_beta(self):
        hot = self.generate("ising", "8", 20, "--temperature", "2.5,4")
        np.testing.assert_array_equal(hot, self.generate("ising", "8", 20, "--beta", "0.4,0.25"))
        labels = read(self.output)[1]
        np.testing.assert_array_equal(labels, np.arange(20) % 2)
        self.assertEqual(json.loads((self.output / "dataset.json").read_text())["class_names"], ["beta 0.4", "beta 0.25"])


class Phi4(Truth):
    def fields(self, sides, mass_squared, coupling, count):
        size = "x".join(map(str, sides))
        options = ("--mass-squared", mass_squared, "--lambda", coupling)
        fields = self.generate("phi4", size, count, *options)[..., 0].astype(float)
        around = sum(np.roll(fields, shift, axis) for axis in axes(fields) for shift in (1, -1))
        slope = (2 * len(sides) + mass_squared) * fields - around + 4 * coupling * fields**3
        name = f"phi4 {sides} m² {mass_squared} lambda {coupling}"
        # Schwinger, Dyson: the integral of d/dphi (phi exp(-S)) vanishes.
        self.expect(f"{name} <phi dS/dphi>", (fields * slope).mean(axis=axes(fields)), 1)
        self.expect(f"{name} <phi>", fields.mean(axis=axes(fields)), 0)
        return name, fields

    def test_free_fields_have_the_lattice_propagator(self):
        for sides, mass_squared, count in [((8, 10), 0.3, 2000), ((4, 5, 3), 0.5, 2000)] + ALL * [((64, 64), 0.1, 2000)]:
            name, fields = self.fields(sides, mass_squared, 0, count)
            wanted = 1 / (exact.lattice_momenta(sides) + mass_squared)
            power = (np.abs(np.fft.fftn(fields, axes=axes(fields))) ** 2).reshape(count, -1) / wanted.size
            self.expect(f"{name} <phi²>", (fields**2).mean(axis=axes(fields)), wanted.mean())
            self.expect(f"{name} zero mode", power[:, 0], wanted.flat[0])
            deviations = (power.mean(axis=0) / wanted.ravel() - 1) * (count / 2) ** 0.5
            self.assertLess(np.abs(deviations).max(), 5)

    def test_moments_are_those_of_the_integral_over_all_fields(self):
        points = 14 if ALL else 12
        for length, mass_squared, coupling, count in [(4, -0.8, 0.5, 4000)] + ALL * [(8, -0.8, 0.5, 50000), (8, -2.0, 0.7, 50000)]:
            name, fields = self.fields((length, 3), mass_squared, coupling, count)
            second, fourth, neighbours = exact.phi4_moments(length, mass_squared, coupling, points)
            self.expect(f"{name} <phi²>", (fields**2).mean(axis=(1, 2)), second)
            self.expect(f"{name} <phi^4>", (fields**4).mean(axis=(1, 2)), fourth)
            self.expect(f"{name} <phi phi'>", (fields * np.roll(fields, 1, 1)).mean(axis=(1, 2)), neighbours)

    def test_the_identity_holds_near_the_transition_and_beyond(self):
        for sides, mass_squared, count in [((16, 16), -1.0, 500)] + ALL * [((64, 64), -1.27, 1000), ((16, 16, 16), -2.0, 500)]:
            self.fields(sides, mass_squared, 0.5, count)


class U1(Truth):
    def plaquettes(self, height, width, beta, count):
        links = self.generate("u1", f"{height}x{width}", count, "--beta", beta).astype(float)
        self.assertLessEqual(np.abs(links).max(), np.pi + 1e-6)
        right, down = links[..., 0], links[..., 1]
        return right + np.roll(down, -1, 2) - np.roll(right, -1, 1) - down, links

    def test_plaquettes_and_topological_charges_are_exact(self):
        cases = [(4, 4, 2.0, 4000), (3, 3, 6.0, 4000), (2, 3, 0.3, 4000), (32, 16, 4.0, 500)]
        for height, width, beta, count in cases + ALL * [(64, 64, 7.0, 4000), (4, 4, 3.0, 200000)]:
            angles, _ = self.plaquettes(height, width, beta, count)
            name = f"u1 {height}x{width} beta {beta}"
            self.expect(f"{name} plaquette", np.cos(angles).mean(axis=(1, 2)), exact.u1_plaquette(beta, height * width))
            charge = (np.remainder(angles + np.pi, 2 * np.pi) - np.pi).sum(axis=(1, 2)) / (2 * np.pi)
            np.testing.assert_allclose(charge, np.round(charge), atol=1e-3)
            if beta < 5 or height > 3:  # otherwise it is 0 almost always
                self.expect(f"{name} Q²", np.round(charge) ** 2, exact.u1_charge_squared(beta, height * width))

    def test_links_are_uniform_and_each_plaquette_is_like_any_other(self):
        angles, links = self.plaquettes(4, 6, 2.0, 4000)
        self.expect("u1 link", np.cos(links).mean(axis=(1, 2, 3)), 0)
        for y in range(4):
            for x in range(6):
                self.expect(f"u1 plaquette {y}, {x}", np.cos(angles[:, y, x]), exact.u1_plaquette(2.0, 24))

    def test_links_as_vectors_are_those_of_the_angles(self):
        right, down = np.moveaxis(self.generate("u1", "5x4", 20, "--beta", 2.0).astype(float), -1, 0)
        vectors = self.generate("u1", "5x4", 20, "--beta", 2.0, "--links", "vectors")
        wanted = np.stack([np.cos(right), np.sin(right), np.cos(down), np.sin(down)], axis=-1)
        np.testing.assert_allclose(vectors, wanted, atol=1e-6)

    def test_wilson_loops_have_an_area_law(self):
        angles, _ = self.plaquettes(16, 16, 1.5, 1000)
        for area in (2, 3):
            loop = sum(np.roll(angles, -shift, 2) for shift in range(area))
            self.expect(f"u1 loop of {area}", np.cos(loop).mean(axis=(1, 2)), exact.u1_plaquette(1.5, 10**6) ** area)


def times(a, b):
    """Products of quaternions (w, v) for w + i v . sigma."""
    w = a[..., :1] * b[..., :1] - (a[..., 1:] * b[..., 1:]).sum(axis=-1, keepdims=True)
    return np.concatenate([w, a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] - np.cross(a[..., 1:], b[..., 1:])], axis=-1)


def inverse(a):
    return a * np.array([1, -1, -1, -1])


class Su2(Truth):
    def test_products_are_those_of_matrices(self):
        pauli = np.array([[[1, 0], [0, 1]], [[0, 1j], [1j, 0]], [[0, 1], [-1, 0]], [[1j, 0], [0, -1j]]])
        a, b = np.random.default_rng(0).normal(size=(2, 4))
        np.testing.assert_allclose(np.tensordot(times(a, b), pauli, 1), np.tensordot(a, pauli, 1) @ np.tensordot(b, pauli, 1))

    def test_plaquettes_are_exact(self):
        cases = [(4, 4, 2.5, 4000), (3, 3, 9.0, 4000), (2, 2, 0.4, 4000), (16, 16, 4.0, 500)]
        for height, width, beta, count in cases + ALL * [(64, 64, 8.0, 4000), (2, 3, 5.0, 200000)]:
            links = self.generate("su2", f"{height}x{width}", count, "--beta", beta).astype(float)
            right, down = links[..., :4], links[..., 4:]
            np.testing.assert_allclose(np.linalg.norm(links.reshape(-1, 4), axis=1), 1, atol=1e-6)
            plaquettes = times(times(right, np.roll(down, -1, 2)), inverse(times(down, np.roll(right, -1, 1))))
            trace, name = plaquettes[..., 0], f"su2 {height}x{width} beta {beta}"
            wanted = exact.su2_plaquette(beta, height * width)
            self.expect(f"{name} plaquette", trace.mean(axis=(1, 2)), wanted)
            self.expect(f"{name} last plaquette", trace[:, -1, -1], wanted)
            self.expect(f"{name} link", right[..., 0].mean(axis=(1, 2)), 0)
            if width > 8:  # where the torus is large, the traces of neighbouring plaquettes multiply
                there = times(times(right, np.roll(right, -1, 2)), np.roll(down, -2, 2))
                back = times(times(down, np.roll(right, -1, 1)), np.roll(right, (-1, -1), (1, 2)))
                loop = times(there, inverse(back))[..., 0]
                self.expect(f"{name} loop of two", loop.mean(axis=(1, 2)), exact.su2_plaquette(beta, 10**6) ** 2)


class GrayScott(Truth):
    def test_steps_are_those_of_a_loop_in_numpy(self):
        for size, steps in [("24x31", 200), ("5x8x11", 100)] + ALL * [("128", 5000)]:
            options = ("--feed", 0.037, "--kill", 0.06, "--seed", 5)
            start = self.generate("gray-scott", size, 2, *options, "--steps", 0)
            end = self.generate("gray-scott", size, 2, *options, "--steps", steps)
            u, v = start[..., 0], start[..., 1]
            feed, both, one = np.float32(0.037), np.float32(0.037 + 0.06), np.float32(1)
            diffusion_u, diffusion_v, centre = np.float32(0.16), np.float32(0.08), np.float32(2 * (u.ndim - 1))

            def spread(field):
                around = [np.roll(field, shift, axis) for axis in reversed(axes(field)) for shift in (1, -1)]
                return sum(around[1:], around[0]) - centre * field

            for _ in range(steps):
                reaction = u * v * v
                u, v = (
                    u + (diffusion_u * spread(u) - reaction + feed * (one - u)),
                    v + (diffusion_v * spread(v) + reaction - both * v),
                )
            self.assertEqual(u.dtype, np.float32)
            np.testing.assert_array_equal(end[..., 0], u)
            np.testing.assert_array_equal(end[..., 1], v)
            self.assertGreater(np.abs(start[0] - start[1]).max(), 0.2)


class Glyphs(Truth):
    FOLDER = pathlib.Path("/usr/share/fonts/truetype/dejavu")

    def chosen(self, names):
        """A folder with these fonts."""
        folder = self.root / f"fonts-{len(names)}"
        folder.mkdir()
        for name in names:
            (folder / name).symlink_to(self.FOLDER / name)
        return folder

    def pictures(self, height, width, names):
        """{picture: code point}, with the font's place in the list, in the order of code points, then of fonts."""
        faces = [freetype.Face(str(self.FOLDER / name)) for name in sorted(names)]
        found = {}
        glyphs = sorted((code, place, index) for place, face in enumerate(faces) for code, index in face.get_chars() if index)  # 0 ends the list
        for face in faces:
            face.set_pixel_sizes(0, min(height, width) * 3 // 4)
        for code, place, index in glyphs:
            face = faces[place]
            face.load_glyph(index, freetype.FT_LOAD_NO_HINTING | freetype.FT_LOAD_RENDER | freetype.FT_LOAD_NO_BITMAP)
            slot, bitmap = face.glyph, face.glyph.bitmap
            left = (width - ((slot.advance.x + 32) >> 6)) // 2 + slot.bitmap_left
            top = (height + (face.size.ascender >> 6) + (face.size.descender >> 6)) // 2 - slot.bitmap_top
            if left < 0 or top < 0 or left + bitmap.width > width or top + bitmap.rows > height or not any(bitmap.buffer):
                continue
            picture = np.zeros((height, width), "u1")
            rows = np.array(bitmap.buffer, "u1").reshape(bitmap.rows, bitmap.pitch)[:, : bitmap.width]
            picture[top : top + bitmap.rows, left : left + bitmap.width] = rows
            found.setdefault(picture.tobytes(), (code, place))
        return found

    def test_all_distinct_glyphs_are_there_once_as_freetype_draws_them(self):
        for height, width, names in [(24, 20, ["DejaVuSansMono.ttf", "DejaVuSerif-Bold.ttf"])] + ALL * [(32, 32, None)]:
            names = names or [path.name for path in self.FOLDER.glob("DejaVu*.ttf")]
            chosen = self.chosen(names)
            wanted = self.pictures(height, width, names)
            images = self.generate("glyphs", f"{height}x{width}", None, "--fonts", chosen)[..., 0]
            labels = read(self.output)[1]
            classes = json.loads((self.output / "dataset.json").read_text())["class_names"]
            self.assertEqual(len(images), len(wanted))
            self.assertEqual(classes, [f"U+{code:04X}" for code in sorted({code for code, _ in wanted.values()})])
            for image, label in zip(images, labels):
                self.assertEqual(classes[label], f"U+{wanted.pop(image.tobytes())[0]:04X}")
            few = self.generate("glyphs", f"{height}x{width}", None, "--fonts", chosen, "--characters", "0-9A")
            self.assertGreater(len(few), 11)
            self.assertLessEqual({image.tobytes() for image in few}, {image.tobytes() for image in images})
            classes = json.loads((self.output / "dataset.json").read_text())["class_names"]
            self.assertEqual(classes, [*(f"U+003{digit}" for digit in range(10)), "U+0041"])
            if ALL:
                print(f"glyphs {height}x{width}: {len(images)} pictures, {len(classes)} classes of {len(names)} fonts", flush=True)

    def test_fonts_may_be_the_classes_and_fewer_glyphs_a_part_of_all(self):
        fonts = ("--fonts", self.chosen(["DejaVuSansMono-BoldOblique.ttf", "DejaVuSansMono.ttf"]))
        images = self.generate("glyphs", "16", 300, "--class", "font", "--seed", 3, *fonts)
        labels = read(self.output)[1]
        classes = json.loads((self.output / "dataset.json").read_text())["class_names"]
        self.assertEqual(classes, ["DejaVu Sans Mono Bold Oblique", "DejaVu Sans Mono Book"])
        self.assertEqual(set(labels), {0, 1})
        more = self.generate("glyphs", "16", 500, "--class", "none", "--seed", 3, *fonts)
        np.testing.assert_array_equal(more[:300], images)
        self.assertEqual(len({image.tobytes() for image in more}), 500)


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--all"], verbosity=2)
