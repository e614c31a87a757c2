"""What a run has done, as its own files tell while it works: when steps were made, when starts began, and what it acknowledged."""

import contextlib
import json
import re
import statistics

TAIL_BYTES = 16384  # more than a line of metrics.jsonl


class Record:
    """`look()` often, it costs little. Times are those that it is given."""

    def __init__(self, run):
        self.run = run
        self.steps = []  # (time, newest step), whenever that has changed
        self.begins = []  # (time, the step that a start goes on from)
        self._size = None
        self._usage_bytes = 0

    @property
    def newest(self):
        return self.steps[-1][1] if self.steps else 0

    def look(self, now):
        self._look_for_starts(now)
        self._look_for_steps(now)

    def _look_for_starts(self, now):
        with contextlib.suppress(FileNotFoundError), (self.run / "usage.jsonl").open("rb") as file:
            file.seek(self._usage_bytes)
            lines = file.read().splitlines(keepends=True)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._usage_bytes += len(line)
                with contextlib.suppress(ValueError, KeyError):  # the half of a line that a full disk or a kill has left
                    told = json.loads(line)
                    if told["event"] == "begin":
                        self.begins.append((now, told["from"]))

    def _look_for_steps(self, now):
        with contextlib.suppress(FileNotFoundError), (self.run / "metrics.jsonl").open("rb") as file:
            size = file.seek(0, 2)
            if size == self._size:
                return
            self._size = size
            file.seek(max(0, size - TAIL_BYTES))
            for line in reversed(file.read().split(b"\n")[:-1]):
                with contextlib.suppress(ValueError, KeyError):
                    step = json.loads(line)["step"]
                    if step != self.newest:
                        self.steps.append((now, step))
                    return

    def lost_steps(self, begin):
        """Steps that were made before a start and that it makes again."""
        time, goes_on_from = begin
        previous = max((when for when, _ in self.begins if when < time), default=-1.0)
        made = [step for when, step in self.steps if previous < when <= time]
        return max([0, *(step - goes_on_from for step in made)])

    def first_step(self, begin):
        """When the first step of a start was there; None: it did not come that far. (The lines of lost steps go first.)"""
        time, goes_on_from = begin
        next_begin = min((when for when, _ in self.begins if when > time), default=float("inf"))
        inside = (when for when, step in self.steps if time < when < next_begin and step > goes_on_from)
        return next(inside, None)

    def starts_with_steps(self):
        return sum(self.first_step(begin) is not None for begin in self.begins)

    def recovery(self, time):
        """When the first step after a time was there that a later start has made; None: none was."""
        later = (self.first_step(begin) for begin in self.begins if begin[0] > time)
        return next((first for first in later if first is not None), None)

    def undisturbed(self, faults, end):
        """Steps and seconds of all stretches in which nothing disturbed the run: from the first step of a start to the last
        one before the next fault, or before `end`."""
        steps, seconds = 0, 0.0
        marks = sorted([*faults, *(time for time, _ in self.begins), end])
        for begin in self.begins:
            first = self.first_step(begin)
            if first is None:
                continue
            stop = min(mark for mark in [*marks, float("inf")] if mark > begin[0])
            inside = [event for event in self.steps if first <= event[0] < min(stop, end)]
            if len(inside) > 2:
                steps += inside[-1][1] - inside[0][1]
                seconds += inside[-1][0] - inside[0][0]
        return steps, seconds


def seconds_of_useful_steps(lines, begins):
    """What the run's steps took by their own clock, each counted once. The first step of a start, which also allocates and
    opens, counts as a usual one."""
    firsts = {1, *(goes_on_from + 1 for _, goes_on_from in begins)}
    usual = statistics.median(line["seconds_per_step"] for line in lines)
    return sum(min(line["seconds_per_step"], usual) if line["step"] in firsts else line["seconds_per_step"] for line in lines)


class Acknowledged:
    """Looks for a checkpoint that was reported as written and is not there any more, in all that the starts of a run have said."""

    WRITTEN = re.compile(r"checkpoint .*?step-(\d+) written")
    GOES_ON = re.compile(r"(?:resuming|starting) .+?: .*, steps? (\d+)")

    def __init__(self):
        self.damaged = []  # (how much had been said by then, step)

    def lost(self, said, starts=0):
        """Starts that went on from before an acknowledged step, as texts, but for checkpoints that were damaged on purpose. `starts` have
        made a step, so that each of them has said before where it goes on."""
        found, newest, damaged = [], {0}, set()
        told = len(self.GOES_ON.findall(said))
        if told < starts:
            found.append(f"{starts} starts have made steps, and {told} have said from where they go on: the others cannot be judged")
        events = [(match.start(), "written", int(match[1])) for match in self.WRITTEN.finditer(said)]
        events += [(match.start(), "goes on", int(match[1]) - 1) for match in self.GOES_ON.finditer(said)]
        events += [(place, "damaged", step) for place, step in self.damaged]
        for _, what, step in sorted(events):
            if what == "written" and step not in damaged:  # the folder is there before the line that tells of it
                newest.add(step)
            elif what == "damaged":
                newest.discard(step)
                damaged.add(step)
            elif what == "goes on":
                if step < max(newest):
                    found.append(f"a start went on from step {step}, after step {max(newest)} was acknowledged")
                newest = {kept for kept in newest if kept <= step}
                damaged.clear()
        return found
