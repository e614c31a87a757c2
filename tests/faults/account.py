"""What a soak comes to: goodput, lost work, where the time went, and whether the run is that of a machine that never fails."""

import hashlib
import statistics
from collections import Counter

import record as records


def median(values):
    return round(statistics.median(values), 3) if values else None


def within(times, begin, end):
    """The first of some times between two others; None where one is missing."""
    return None if begin is None or end is None else min((when for when in times if begin <= when <= end), default=None)


def restarts(faults, record, ends, launches):
    """For each fault, where the time went until the run made steps again; None where a part is not known or did not come. (Slurm
    puts a job back without telling: then the launcher's end and its new start are not known. And a full disk ends nothing as
    long as the checkpoints that are removed make room for the new ones.)"""
    found = []
    for fault, following in zip(faults, [*faults[1:], None]):
        begin = next((begin for begin in record.begins if begin[0] > fault["at"]), None)
        if begin and following and begin[0] > following["at"]:
            begin = None
        begun = begin and begin[0]
        ended = within([when for when, _ in ends], fault["at"], begun)
        launched = within(launches, ended, begun)
        first, recovered = begin and record.first_step(begin), begin and record.recovery(fault["at"])
        found.append({
            **fault,
            "until_the_end": ended and ended - fault["at"],
            "until_it_begins": launched and begun - launched,
            "until_the_first_step": first and first - begun,
            "in_all": recovered and recovered - fault["at"],
        })  # fmt: skip
    return found


def figures(record, faults, ends, launches, wall, lines):
    """The account of a soak that has taken `wall` seconds; `lines` are those of metrics.jsonl at its end."""
    steps, seconds = record.undisturbed([fault["at"] for fault in faults], wall)
    rate = steps / seconds if steps and seconds else None
    useful = lines[-1]["step"]
    told = restarts(faults, record, ends, launches)
    by_kind = {}
    for kind in sorted({fault["kind"] for fault in faults}):
        of_kind = [fault for fault in told if fault["kind"] == kind]
        by_kind[kind] = {"faults": len(of_kind), "seconds_to_next_step": median([f["in_all"] for f in of_kind if f["in_all"]])}
    lost = sum(record.lost_steps(begin) for begin in record.begins)
    spans = {name: median([f[name] for f in told if f[name] is not None]) for name in
             ("until_the_end", "until_it_begins", "until_the_first_step", "in_all")}  # fmt: skip
    return {
        "wall_seconds": round(wall, 1),
        "faults": len(faults),
        "by_kind": by_kind,
        "launches": len(launches),
        "starts": len(record.begins),
        "useful_steps": useful,
        "lost_steps": lost,
        "undisturbed": {"steps": steps, "seconds": round(seconds, 1)},
        "steps_per_second_undisturbed": rate and round(rate, 4),
        "goodput": rate and round(useful / (rate * wall), 4),
        "goodput_by_step_times": round(records.seconds_of_useful_steps(lines, record.begins) / wall, 4),
        "seconds_lost_to_repeated_steps": rate and round(lost / rate, 1),
        "median_seconds": spans,
        "exit_codes": dict(sorted(Counter(code for _, code in ends).items())),
    }


# What each exit code of the program means, and which kinds of faults explain it. Codes that the program does not have are those of
# launchers and signals.
KILLS = {"rank", "launcher", "node", "damage"}
EXIT_CODES = {
    0: ("done", set()), 1: ("a bug", set()), 2: ("configuration", set()), 3: ("data", set()), 4: ("output", {"disk", "damage"}),
    5: ("communication", {*KILLS, "hang"}), 6: ("numerics", set()), 75: ("stopped", {"stop", "term"}),
}  # fmt: skip


def unexplained(code, kinds):
    """What is wrong with the end of a start that faults of some kinds have hit, as a text, or None."""
    meaning, explained_by = EXIT_CODES.get(code, ("", kinds))
    if code not in EXIT_CODES or explained_by & kinds:
        return None
    return f"a start has ended with exit code {code} ({meaning}), and no fault since it began explains that"


def what_is_wrong(run, lines, last_step):
    """What a run that is done must not have left, as texts."""
    wrong = []
    steps = [line["step"] for line in lines]
    if steps != list(range(1, last_step + 1)):
        odd = next((i for i, step in enumerate(steps) if step != i + 1 or step > last_step), len(steps))
        wrong.append(f"metrics.jsonl has {len(steps)} lines for {last_step} steps; the first that is not its own is line {odd + 1}")
    left = sorted(str(path.relative_to(run)) for path in run.rglob("*") if "tmp" in path.name or path.name == "LOCK")
    if left:
        wrong.append(f"these were left in the run's folder: {', '.join(left)}")
    return wrong


def weights(run):
    return hashlib.sha256((run / "model/unet/diffusion_pytorch_model.safetensors").read_bytes()).hexdigest()


def table(told):
    """The report for people."""
    rate = told["steps_per_second_undisturbed"]
    spans = told["median_seconds"]
    rows = [
        ("faults", f"{told['faults']} in {told['wall_seconds'] / 60:.1f} minutes"),
        *((f"  {kind}", f"{of['faults']}, seconds to the next step: {of['seconds_to_next_step']}") for kind, of in told["by_kind"].items()),
        ("load of the machine", f"{told['load']['mean']} on average, {told['load']['highest']} at most, on {told['processors']} processors"),
        ("starts", f"{told['starts']} that came to train, of {told['launches']} commands or jobs"),
        ("exit codes", ", ".join(f"{code}: {count} times" for code, count in told["exit_codes"].items())),
        ("useful steps", told["useful_steps"]),
        ("steps made twice", f"{told['lost_steps']}, {told['seconds_lost_to_repeated_steps']} s"),
        ("steps per second, undisturbed", f"{rate} (of {told['undisturbed']['steps']} steps in {told['undisturbed']['seconds']} s)"),
        ("goodput", f"{told['goodput']}: useful steps over what the same time would have made undisturbed"),
        ("goodput by the steps' own times", told["goodput_by_step_times"]),
        ("median seconds from a fault to the next step", spans["in_all"]),
        ("  until the launcher has ended", spans["until_the_end"]),
        ("  from its new start until training begins", spans["until_it_begins"]),
        ("  until the first step is made", spans["until_the_first_step"]),
    ]
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows)
