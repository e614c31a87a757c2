#!/usr/bin/env python3
"""Strong and weak scaling studies of ddpm under Slurm, or without.

    jobs/scaling/study.py status  STUDY       what would be submitted; then, what has become of it
    jobs/scaling/study.py submit  STUDY       submits what is missing or has failed, and leaves the rest alone
    jobs/scaling/study.py run     STUDY       the same without Slurm: on this machine, one after another
    jobs/scaling/study.py collect STUDY       gathers the results of finished jobs into STUDY/results.jsonl
    jobs/scaling/study.py report  STUDY       collects, then writes tables, model and plots into STUDY/report

STUDY is a folder with study.toml in it: jobs/scaling/study.toml is an example, docs/scaling.md the manual. Needs Python 3.8
(3.11 for TOML; with an older one write the same keys as study.json) and nothing else; plots are drawn if gnuplot is there.
"""

import argparse
import collections
import contextlib
import fcntl
import signal
import sys

import forecast
import plots
import tables
from description import Study, StudyError, counted
from jobs import DONE, FAILED, LOCAL_LAUNCH, MISSING, QUEUED, jobs_of, queued, refuse_changed_study, say
from model import Network
from results import read_result, read_samples, write_samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("study", metavar="STUDY", help="the study's folder")
    parser.add_argument(
        "--launch", metavar="WORDS", default=LOCAL_LAUNCH,
        help="run: what starts the ranks; {ranks}, {nodes} and {ranks_per_node} are filled in (default: %(default)s)",
    )  # fmt: skip
    args = parser.parse_args()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `status | head`
    for name in ("SIGTERM", "SIGHUP"):  # as Ctrl-C: ranks that are measuring end, too
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:  # nohup
            signal.signal(getattr(signal, name), interrupt)
    try:
        return COMMANDS[args.command](Study(args.study), args)
    except StudyError as error:
        say(f"study.py: error: {error}")
        return 2
    except OSError as error:
        say(f"study.py: error: {error.filename or args.study}: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        return 130


def interrupt(*_):
    raise KeyboardInterrupt


def to_do(study):
    """Jobs that are missing or have failed."""
    jobs = jobs_of(study)
    refuse_changed_study(study, jobs)
    there = queued(jobs)
    return [job for job in jobs if job.state(there)[0] in (MISSING, FAILED)], len(jobs)


@contextlib.contextmanager
def alone(study):
    """Two that start jobs at once would both start what is missing."""
    with (study.folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(f"{study.folder}: another study.py starts jobs of this study") from None
        except OSError:  # a file system without locks
            pass
        yield


def submit(study, _):
    with alone(study):
        left, count = to_do(study)
        for job in left:
            print(f"{job.name}: job {job.submit()}", flush=True)
    say(f"{len(left)} of {counted(count, 'job')} submitted; the others are queued or done")
    return 0


def run(study, args):
    failed = 0
    with alone(study):
        left, count = to_do(study)
        say(f"{count - len(left)} of {count} are done")
        for i, job in enumerate(left, 1):
            good = job.run(args.launch)
            failed += not good
            print(f"{i}/{len(left)} {job.name}: " + ("done" if good else f"failed; see {job.folder}/log-local.txt"), flush=True)
    return 1 if failed else 0


def status(study, _):
    jobs = jobs_of(study)
    there = queued(jobs)
    states = [(job, *job.state(there)) for job in jobs]
    for job, state, reason in states:
        if state != MISSING:
            print(f"{job.name}: {state}" + (f" ({reason})" if reason else ""))
    counts = collections.Counter(state for _, state, _ in states)
    print(f"{counted(len(states), 'job')}: " + ", ".join(f"{counts[s]} {s}" for s in (DONE, QUEUED, FAILED, MISSING)))
    return 0


def collect(study, _):
    jobs = jobs_of(study)
    refuse_changed_study(study, jobs)
    samples = [read_result(job.result) for job in jobs if job.result.exists()]
    for job, sample in zip([job for job in jobs if job.result.exists()], samples):
        if sample.key != (job.point, job.repeat):
            raise StudyError(f"{job.result}: is of {sample.point.name}, repeat {sample.repeat}")
    if not samples:
        raise StudyError(f"{study.folder}: no job has finished; `study.py status` tells about them")
    write_samples(study.folder / "results.jsonl", samples)
    say(f"{study.folder}/results.jsonl: {len(samples)} of {counted(len(jobs), 'job')}")
    return 0


def report(study, args):
    if (study.folder / "jobs").exists():
        collect(study, args)
    samples = read_samples(study.folder / "results.jsonl")
    lines = {series: forecast.measured(group) for series, group in forecast.by_series(samples).items()}
    within = forecast.within_node(samples)
    tests, notes = forecast.back_test(samples)
    predicted, more = forecast.extrapolate(samples, tests, study.extrapolate)
    notes += more
    try:
        models, network = forecast.fit(samples)
    except forecast.NotEnough as error:
        models, network = {}, Network(None, None)
        notes.append(f"There is no model: {error}.")
    there = {line.point.series for line in predicted}
    doubts = {series: told for series, told in forecast.doubts(samples, tests, network).items() if told and series in there}
    believed = {series: model for series, model in models.items() if series not in doubts}
    predicted = [line for line in predicted if line.point.series in believed]
    folder = study.folder / "report"
    folder.mkdir(exist_ok=True)
    versions = " and ".join(sorted({s.version for s in samples}))
    written = {
        "report.md": tables.report(study.name, versions, lines, within, models, network, tests, predicted, doubts, notes),
        "measured.csv": tables.measured_csv(lines),
        "back_test.csv": tables.back_test_csv(tests),
        "extrapolation.csv": tables.extrapolation_csv(predicted),
        "samples.csv": tables.samples_csv(samples),
    }
    for name, text in written.items():
        (folder / name).write_text(text)
    drawn = plots.draw(folder, plots.scripts(lines, within, curves(study, samples, believed, lines), predicted))
    if doubts:
        say(f"the extrapolation of {len(doubts)} of {len(lines)} series is worthless: the report says why")
    say(f"{folder}/report.md" + (", with plots" if drawn else "; no plots: gnuplot is not on PATH, its scripts are there"))
    return 0


def curves(study, samples, models, lines):
    """The model between and beyond the points, close enough for a line, as far as extrapolation goes."""
    largest = max([s.point.nodes for s in samples] + study.extrapolate)
    counts = sorted({round(2 ** (i / 4)) for i in range(4 * largest.bit_length() + 1) if 2 ** (i / 4) <= largest} | {largest})
    counts = [n for n in counts if n >= min(s.point.nodes for s in samples)]
    micro = {series: max(r.point.micro_size for r in rows) for series, rows in lines.items()}
    return plots.model_curves(models, lines, counts, lambda series, at: forecast.targets(series, at, micro[series]))


COMMANDS = {"status": status, "submit": submit, "run": run, "collect": collect, "report": report}

if __name__ == "__main__":
    sys.exit(main())
