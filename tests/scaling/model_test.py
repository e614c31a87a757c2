"""The model of scaling studies: it finds the constants of known machines, notices machines that it does not describe, and
its intervals hold what they promise."""

import math
import random
import unittest

from synthetic import Machine, noise_of, strong, study, weak

import forecast
import intervals
from description import make_point
from model import NotEnough, fit_network, fit_two
from results import Sample


class Split(unittest.TestCase):
    def test_one_late_rank_makes_no_communication_of_the_computing_of_others(self):
        value = Machine(idle=0.225).result(make_point(weak(), 4, 8), 1)
        step = value["step"]
        step["comm_wait_seconds"] = step["seconds"]["reduction"] + 0.075  # three ranks wait 0.3 s, the mean of four is 0.225
        parts = Sample(value, "new").parts
        self.assertAlmostEqual(parts["communication"], step["seconds"]["reduction"])
        self.assertAlmostEqual(parts["compute"], step["seconds"]["forward"] + step["seconds"]["backward"])
        step["mean_comm_wait_seconds"] += 0.01  # for weights, within forward and backward
        self.assertAlmostEqual(Sample(value, "gathers").parts["communication"], parts["communication"] + 0.01)
        del step["mean_comm_wait_seconds"]  # as of before it was told
        self.assertAlmostEqual(Sample(value, "old").parts["communication"], parts["communication"] + 0.075)


class Fit(unittest.TestCase):
    def test_finds_alpha_and_beta_between_nodes(self):
        for seed in range(5):
            samples = study(Machine(), [weak()], [1, 2, 4, 8], noise=noise_of(seed, 0.05))
            level = fit_network(samples).between
            self.assertAlmostEqual(level.alpha / 20e-6, 1, delta=0.1)
            self.assertAlmostEqual(level.beta / 1e-9, 1, delta=0.05)

    def test_finds_both_levels(self):
        samples = study(Machine(), [weak(per_node=4)], [1, 2, 4], noise=noise_of(1, 0.02))
        network = fit_network(samples)
        for found, wanted in zip((*network.within, *network.between), (2e-6, 1e-10, 20e-6, 1e-9)):
            self.assertAlmostEqual(found / wanted, 1, delta=0.1)

    def test_finds_what_hides_and_what_idles(self):
        for omega, idle, beta in ((0.0, 0.0, 1e-9), (0.6, 0.0, 1e-9), (1.0, 0.0, 2e-9), (0.0, 0.03, 1e-10)):
            machine = Machine(omega=omega, idle=idle, beta=beta)
            models, _ = forecast.fit(study(machine, [weak()], [1, 2, 4]))
            self.assertAlmostEqual(models[weak()].omega, omega, delta=0.01)
            self.assertAlmostEqual(models[weak()].idle, idle, delta=0.001)

    def test_constants_are_never_negative(self):
        for rows, wanted in (
            ([(1, 2, 4), (1, 4, 8)], (0, 2)),
            ([(1, 1, 1), (1, 10, 0.1), (1, 100, 0.01)], None),
            ([(1, 1, 1e-6), (1, 10, 10)], None),
            ([(1, 5, 10)], (0, 2)),  # one point: in proportion to the second
            ([(3, 5, 11), (1, 9, 11)], (2, 1)),
            ([], (0, 0)),
        ):
            found = fit_two(rows)
            self.assertTrue(all(c >= 0 for c in found), rows)
            for one, other in zip(found, wanted or found):
                self.assertAlmostEqual(one, other, delta=0.01, msg=rows)

    def test_one_time_that_is_far_off_spoils_no_fit(self):
        rows = [(1.0, float(size), 5.0 + 2.0 * size) for size in (1, 4, 16, 64, 256, 1024)] * 3
        for factor in (0.1, 10.0):
            x, y, t = rows[0]
            a, b = fit_two([(x, y, factor * t), *rows[1:]])
            self.assertAlmostEqual(a / 5, 1, delta=0.15)
            self.assertAlmostEqual(b / 2, 1, delta=0.05)

    def test_without_several_nodes_nothing_is_said_about_them(self):
        models, _ = forecast.fit(study(Machine(), [weak(per_node=4)], [1]))
        with self.assertRaises(NotEnough):
            models[weak(per_node=4)].predict(make_point(weak(per_node=4), 2, 8))


class Forecast(unittest.TestCase):
    def test_predicts_every_stage_far_beyond_the_points(self):
        machine = Machine()
        for stage in (0, 1, 2, 3):
            for per_node in (1, 4):
                for series, far in ((weak(32, stage, per_node), 1000), (strong(256, stage, per_node), 32)):
                    models, _ = forecast.fit(study(machine, [series], [1, 2, 4, 8]))
                    point = make_point(series, far, 8)
                    predicted = forecast.total(models[series].predict(point))
                    self.assertAlmostEqual(predicted / machine.seconds(point), 1, delta=0.005, msg=point.name)

    def test_back_test_leaves_each_count_out(self):
        samples = study(Machine(), [weak(), strong()], [1, 2, 4, 8], noise=noise_of(3, 0.02))
        lines, notes = forecast.back_test(samples)
        self.assertEqual([line.point.nodes for line in lines], [2, 4, 8] * 2)
        self.assertEqual(notes, [])
        for line in lines:
            self.assertLess(abs(line.error), 0.05, line)

    def test_what_was_left_out_is_not_looked_at(self):
        samples = study(Machine(), [weak()], [1, 2, 4])
        spoiled = [s for s in samples if s.point.nodes != 4] + study(Machine(per_image=1.0, alpha=1.0), [weak()], [4])
        before, after = (forecast.back_test(s)[0][-1] for s in (samples, spoiled))
        self.assertEqual(before.predicted, after.predicted)
        self.assertGreater(abs(after.error), 0.5)

    def test_a_network_that_gets_slower_is_noticed(self):
        samples = study(Machine(), [weak()], [1, 2, 4]) + study(Machine(beta=4e-9), [weak()], [8])
        errors = {line.point.nodes: line.error for line in forecast.back_test(samples)[0]}
        self.assertLess(errors[8], -0.3)

    def test_too_few_counts_are_said(self):
        lines, notes = forecast.back_test(study(Machine(), [weak()], [1, 2]))
        self.assertEqual(lines, [])
        self.assertIn("2x1: not tested", notes[0])

    def test_extrapolation_has_an_interval_that_holds_the_truth(self):
        held = 0
        for seed in range(10):
            samples = study(Machine(), [weak()], [1, 2, 4, 8], noise=noise_of(seed, 0.03))
            tests, _ = forecast.back_test(samples)
            (line,), notes = forecast.extrapolate(samples, tests, [1000])
            self.assertEqual((line.point.nodes, line.measured_to, notes), (1000, 8, []))
            value, low, high = line.seconds
            self.assertTrue(low < value < high)
            held += low <= Machine().seconds(line.point) <= high
        self.assertGreaterEqual(held, 9)

    def test_no_interval_without_repeats_or_back_test(self):
        for nodes, repeats, word in (([1, 2, 4], 1, "once"), ([1, 2], 3, "left out")):
            samples = study(Machine(), [weak()], nodes, repeats)
            (line,), notes = forecast.extrapolate(samples, forecast.back_test(samples)[0], [64])
            self.assertEqual(line.seconds[1:], (None, None))
            self.assertIn(word, notes[0])

    def test_a_strong_study_ends_where_the_batch_does(self):
        samples = study(Machine(), [strong(64)], [1, 2, 4])
        lines, notes = forecast.extrapolate(samples, [], [64, 1000])
        self.assertEqual([line.point.nodes for line in lines], [64])
        self.assertIn("1000 nodes: the batch does not divide", notes[0])

    def test_a_series_that_has_just_begun_does_not_stop_the_others(self):
        samples = study(Machine(), [weak()], [1, 2, 4]) + study(Machine(), [weak(16)], [1])
        lines, notes = forecast.extrapolate(samples, forecast.back_test(samples)[0], [64])
        self.assertEqual([line.point.series for line in lines], [weak()])
        self.assertTrue(any("16 images" in note for note in notes), notes)


class Intervals(unittest.TestCase):
    def test_95_percent_hold_the_truth(self):
        draw = random.Random(7)
        held = {"mean": 0, "ratio": 0}
        rounds = 2000
        for _ in range(rounds):
            one, two = ([center * math.exp(draw.gauss(0, sigma)) for _ in range(count)]
                        for center, sigma, count in ((5, 0.05, 3), (4, 0.1, 5)))  # fmt: skip
            _, low, high = intervals.mean_interval(one)
            held["mean"] += low <= 5 <= high
            _, low, high = intervals.ratio_interval(one, two)
            held["ratio"] += low <= 5 / 4 <= high
        for name, count in held.items():
            self.assertTrue(0.935 <= count / rounds <= 0.985, (name, count / rounds))

    def test_one_repeat_has_none(self):
        self.assertEqual(intervals.mean_interval([2.0])[1:], (None, None))
        self.assertEqual(intervals.ratio_interval([2.0], [1.0, 1.1])[1:], (None, None))

    def test_the_bootstrap_is_the_same_every_time(self):
        samples = study(Machine(), [weak()], [1, 2], noise=noise_of(1, 0.1))
        drawn = [intervals.bootstrap(order, lambda s: sum(x.seconds for x in s)) for order in (samples, samples[::-1])]
        self.assertEqual(*drawn)
        self.assertGreater(len(set(drawn[0])), 50)

    def test_quantiles(self):
        self.assertEqual(intervals.quantiles(range(101), 0.025, 0.975), (2.5, 97.5))


class Efficiency(unittest.TestCase):
    def test_is_per_rank_and_relative_to_the_smallest_point(self):
        machine = Machine()
        for series in (weak(), strong()):
            lines = forecast.measured(study(machine, [series], [2, 4]))
            rates = [p.point.global_size / machine.seconds(p.point) / p.point.ranks for p in lines]
            self.assertEqual(lines[0].efficiency, (1.0, None, None))
            self.assertAlmostEqual(lines[1].efficiency[0], rates[1] / rates[0])

    def test_the_parts_add_up_to_the_step(self):
        for line in forecast.measured(study(Machine(), [weak(stage=3)], [1, 2, 4])):
            self.assertAlmostEqual(sum(line.parts.values()), line.seconds[0])
            self.assertAlmostEqual(line.parts["communication"], Machine().parts(line.point)["reduction"])


if __name__ == "__main__":
    unittest.main()
