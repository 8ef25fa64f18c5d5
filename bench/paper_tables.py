"""Puts what a script of bench has measured beside the numbers of the paper that it repeats.

    python3 paper_tables.py ma2011 DIR      after bench/ma2011.sh
    python3 paper_tables.py chai2009 DIR    after bench/chai2009.sh
    python3 paper_tables.py leon2009 DIR    after bench/leon2009.sh

Reads what the script has left in DIR, prints one table and writes it as paper.txt and paper.md.
Each row has the item of the paper, the paper's numbers, ours, and why they differ.
"""

import json
import pathlib
import sys

MISSING = "not run"


def read(file):
    """The document in a file; none if it is not there."""
    return json.loads(file.read_text()) if file.is_file() else None


def number(value, unit=""):
    """Three digits, with thousands and millions as they are."""
    text = f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{text} {unit}".strip()


def pair(values, unit=""):
    """Two numbers that are compared, and the quotient of the second to the first."""
    first, second = values
    quotient = f" ({second / first:.2f}x)" if first else ""
    return f"{number(first)}, {number(second, unit)}{quotient}"


# ---- ma-2011


def sides(directory, name, ranks):
    """The two sides of a comparison: direct copy, and shared memory; none if it was not run."""
    found = read(directory / f"{name}-{ranks}" / "comparison.json")
    return found and found["sides"]


def of_call(side, name):
    """Milliseconds of a call at all its sites, and its share of the MPI time in percent."""
    all_ms = sum(call["time_ms"] for call in side["calls"])
    calls = [call for call in side["calls"] if call["call"] == f"MPI_{name}"]
    time = sum(call["time_ms"] for call in calls)
    return time, 100 * time / all_ms if all_ms else 0


def sizes(side, name):
    """Sends of a call and their mean bytes."""
    calls = [call for call in side["calls"] if call["call"] == f"MPI_{name}"]
    sends = sum(call["sends"] for call in calls)
    sent = sum(call["bytes"] for call in calls)
    return sends, sent / sends if sends else 0


CORES = (
    "48 ranks on 8 NUMA nodes contend for memory, which the second copy loads most; here {n} ranks "
    "on one"
)
CPMD = "the calls of CPMD in their sizes and proportions (cpmd.c), not the application"
FFTW = "the calls of FFTW's mpi-bench (fftw_bench.c), not the application"
CPMD_CALLS = {
    "Alltoall": ((2.88e6, 1.02e7), (90.32, 97.71)),
    "Bcast": ((1.15e5, 1.08e5), (3.59, 1.03)),
    "Allreduce": ((1.12e5, 1.05e5), (3.52, 1.00)),
    "Barrier": ((7.01e4, None), (2.20, None)),
}
FFTW_CALLS = {
    "Bcast": ((9.59e5, 6.07e6), (61.98, 88.9)),
    "Sendrecv": ((3.52e5, 4.82e5), (22.78, 7.07)),
    "Scatterv": ((1.65e5, 1.33e5), (10.69, 1.95)),
    "Gatherv": ((5.86e4, 1.39e5), (3.79, 2.03)),
}
FFTW_SIZES = {"Bcast": (19488, 1.44e7), "Sendrecv": (710888, 1.61e4), "Gatherv": (19488, 2.99e5)}


def totals(table, what, paper, found, why):
    """Rows of Tables 1 and 5: application and MPI time of both sides."""
    rows = []
    for name, key, numbers in (("application", "app_s", paper[0]), ("MPI", "mpi_s", paper[1])):
        here = pair([side[key]["median"] for side in found], "s") if found else MISSING
        rows.append((table, f"{what}: {name} time", pair(numbers, "s"), here, why))
    shares = [100 * mpi / app for app, mpi in zip(paper[0], paper[1])]
    here = pair([side["mpi_percent"] for side in found], "%") if found else MISSING
    rows.append((table, f"{what}: MPI's share of it", pair(shares, "%"), here, why))
    return rows


def calls(table, what, paper, found, why):
    """Rows of Tables 2 and 3: the calls that take most of the time."""
    rows = []
    for name, (times, shares) in paper.items():
        both = None not in times
        said = f"{times[0]:.3g} ms, {shares[0]} %"
        if both:
            said = f"{pair(times, 'ms')}, {shares[0]} and {shares[1]} %"
        here = MISSING
        if found:
            (direct, one), (shared, other) = (of_call(side, name) for side in found)
            here = f"{pair((direct, shared), 'ms')}, {one:.1f} and {other:.1f} %"
        rows.append((table, f"{what}: {name}", said, here, why))
    return rows


def ma2011(directory):
    """All rows, with the numbers of ranks that were run."""
    counts = sorted(int(folder.name[5:]) for folder in directory.glob("cpmd-*"))
    most = counts[-1] if counts else 0
    cpmd, fftw = sides(directory, "cpmd", most), sides(directory, "fftw", most)
    why = f"{CORES.format(n=most)}; {CPMD}"
    rows = totals("Table 1", "CPMD", ((276, 423), (74.4, 229)), cpmd, why)
    why = f"{CPMD}; times are sums of {most} ranks, not 48"
    rows += calls("Table 2", "CPMD", CPMD_CALLS, cpmd, why)
    why = f"{FFTW}; times are sums of {most} ranks, not 48"
    rows += calls("Table 3", "FFTW", FFTW_CALLS, fftw, why)
    for name, (count, mean) in FFTW_SIZES.items():
        said = f"{count:,} sends of {mean:,.0f} B"
        sends, sent = sizes(fftw[0], name) if fftw else (0, 0)
        here = f"{sends:,} sends of {sent:,.0f} B" if fftw else MISSING
        rows.append(("Table 4", f"FFTW: {name}", said, here, "fewer transforms, and fewer ranks"))
    why = f"{CORES.format(n=most)}; {FFTW}"
    rows += totals("Table 5", "FFTW", ((107, 216), (38.1, 143)), fftw, why)
    why = "no OpenMP form of fftw_bench.c"
    rows.append(("Table 5", "FFTW: OpenMP mode", "49.5 s", MISSING, why))
    for ranks in counts:
        found = sides(directory, "cpmd", ranks)
        here = pair([side["app_s"]["median"] for side in found], "s") if found else MISSING
        why = "no numbers in the text; a block for each rank here, so work grows with the ranks"
        said = "direct is faster at every number; shared does not gain beyond 24"
        rows.append(("Figure 1", f"CPMD on {ranks} ranks", said, here, why))
    return "ma-2011: direct copy, then shared memory (quotient of the second to the first)", rows


# ---- chai-2009, chapter 2


def place(rank, cores_per_chip, chips_per_node):
    """The node and the chip of a rank, ranks in blocks."""
    chip = rank // cores_per_chip
    return chip // chips_per_node, chip


def shares(profile, cores_per_chip, chips_per_node):
    """Percent of messages and of bytes within chips, within nodes, and between nodes."""
    counted = {"messages": [0, 0, 0], "bytes": [0, 0, 0]}
    for row in profile["matrix"]:
        if row["from"] == row["to"]:
            continue
        (node, chip), (other_node, other_chip) = (
            place(row[end], cores_per_chip, chips_per_node) for end in ("from", "to")
        )
        level = 0 if chip == other_chip else 1 if node == other_node else 2
        for kind, values in counted.items():
            values[level] += row[kind] + row[f"collective_{kind}"]
    return {
        kind: [100 * value / max(sum(values), 1) for value in values]
        for kind, values in counted.items()
    }


def three(values):
    """Percent of three levels."""
    return ", ".join(f"{value:.0f}" for value in values) + " %"


# Rows of Tables 2.1 and 2.2: number of messages, data volume.
NAS = {
    "2.1": {
        "IS": ((13, 18, 69), (7, 13, 80)),
        "FT": ((9, 16, 75), (7, 13, 80)),
        "CG": ((45, 45, 10), (36, 37, 27)),
        "MG": ((32, 32, 36), (25, 25, 50)),
        "BT": ((1, 33, 66), (0, 33, 67)),
        "SP": ((1, 33, 66), (0, 33, 67)),
        "LU": ((1, 50, 49), (0, 50, 50)),
    },
    "2.2": {
        "IS": ((1, 4, 95), (1, 4, 95)),
        "FT": ((1, 3, 96), (1, 2, 97)),
        "CG": ((23, 47, 30), (20, 41, 39)),
        "MG": ((15, 32, 53), (20, 19, 61)),
        "BT": ((0, 29, 71), (0, 29, 71)),
        "SP": ((0, 29, 71), (0, 29, 71)),
        "LU": ((0, 47, 53), (0, 47, 53)),
    },
}
# Ours in their place, and why the two differ.
STAND_INS = {
    "IS": (
        "integer_sort",
        "integer sort of bench/src, as NAS's IS; a block of a collective counts as one message",
    ),
    "FT": (
        "fft_transpose",
        "an FFT by transposes; NAS's FT sends the same blocks; reductions are counted as blocks",
    ),
    "CG": (
        "cg",
        "ours exchanges the faces of a grid, NAS's CG rows and columns of a matrix",
    ),
}
NOT_PACKAGED = (
    "NAS's own sources are in no package of Debian, and no program of bench/src communicates alike"
)


def distribution(directory, table, ranks, cores_per_chip, chips_per_node):
    """Rows of a table of NAS's benchmarks."""
    rows = []
    for bench, (messages, volume) in NAS[table].items():
        here, why = MISSING, NOT_PACKAGED
        if bench in STAND_INS:
            name, why = STAND_INS[bench]
            profile = read(directory / f"{name}-{ranks}" / "profile.json")
            if not profile:
                why = "chai2009.sh runs 256 ranks with -l"
            else:
                found = shares(profile, cores_per_chip, chips_per_node)
                here = f"{three(found['messages'])}; {three(found['bytes'])}"
        said = f"{three(messages)}; {three(volume)}"
        what = f"{bench} on {ranks} cores: messages; bytes"
        rows.append((f"Table {table}", what, said, here, why))
    return rows


def linpack(directory, figure, ranks, cores_per_chip, chips_per_node, said):
    """A row of HPL's distribution."""
    profile = read(directory / f"hpl-{ranks}" / "profile.json")
    here = MISSING
    if profile:
        found = shares(profile, cores_per_chip, chips_per_node)
        here = f"{three(found['messages'])}; {three(found['bytes'])}"
    why = "HPL was not built (bench/sim_programs.sh)"
    if (directory / "hpl-16").is_dir():
        why = "chai2009.sh runs 256 ranks with -l"
    if profile:
        why = "HPL of Debian's hpcc, the same code, with a smaller matrix in a square grid"
    return (figure, f"HPL on {ranks} cores: messages; bytes", said, here, why)


def figures(directory, name):
    """The lines of figures that a program of bench/src has printed, by measure and bytes."""
    file = directory / f"{name}.out"
    found = {}
    for line in file.read_text().splitlines() if file.is_file() else []:
        if line.startswith("{"):
            figure = json.loads(line)
            found[figure["measure"], figure["bytes"]] = figure["value"]
    return found


def levels(directory):
    """Rows of Figure 2.1."""
    rows = []
    paper = (
        ("near", "intra-CMP", 0.42, 6684),
        ("far", "inter-CMP", 0.89, 1258),
        ("nodes", "inter-node", 2.83, 1532),
    )
    reasons = {
        "near": "two cores of 2020 and later against two of 2006",
        "far": "this machine has one package: no two cores without a common cache or chip",
        "nodes": "TCP over the loopback between virtual nodes, not InfiniBand",
    }
    for name, level, latency, bandwidth in paper:
        times = {size: us for (_, size), us in figures(directory, f"pingpong-{name}").items()}
        here = MISSING
        if times:
            peak = max(size / us for size, us in times.items())
            here = f"{times[min(times)]:.2f} us, {peak:,.0f} MB/s"
        what = f"{level}: latency, peak bandwidth"
        said = f"{latency} us, {bandwidth:,} MB/s"
        rows.append(("Figure 2.1", what, said, here, reasons[name]))
    return rows


def seconds(directory, name):
    """The application time of the slowest rank."""
    profile = read(directory / name / "profile.json")
    return profile and max(rank["app_ns"] for rank in profile["ranks"]) * 1e-9


def contention(directory):
    """Rows of Figure 2.5: 4 ranks on 1, 2 and 4 nodes, normalized to 4."""
    rows = []
    for name, bench in (("integer_sort", "IS"), ("fft_transpose", "FT"), ("cg", "CG")):
        times = [seconds(directory, f"{name}-4-on-{nodes}") for nodes in (1, 2, 4)]
        here = MISSING
        if all(times):
            here = ", ".join(f"{time / times[2]:.2f}" for time in times)
        why = "virtual nodes have the same cores and memory: what differs is the network alone"
        said = "1x4 slower, 2x2 as 4x1 (no numbers in the text)"
        rows.append(("Figure 2.5", f"{bench}: time on 1x4, 2x2, 4x1", said, here, why))
    return rows


def tiling(directory):
    """Rows of Figure 2.6."""
    rows = []
    for ranks, said in ((2, 70), (4, 60), (8, 50), (16, 50)):
        found = figures(directory, f"tiling-{ranks}")
        benefit = [value for (name, _), value in found.items() if name == "data tiling benefit"]
        here, why = MISSING, "more ranks than this machine runs in the time"
        if benefit:
            here = f"{benefit[0]:.0f} %"
            why = "caches hold more of the whole data than 4 MB; more ranks than cores take turns"
        what = f"time saved by tiling, {ranks} ranks"
        rows.append(("Figure 2.6", what, f"{said} %", here, why))
    return rows


def scalability(directory):
    """Rows of Figure 2.7: speed-up from 2 ranks."""
    rows = []
    for name, bench in (("integer_sort", "IS"), ("fft_transpose", "FT"), ("cg", "CG")):
        times = {ranks: seconds(directory, f"{name}-{ranks}") for ranks in (2, 4, 8, 16)}
        here = MISSING
        if all(times.values()):
            here = ", ".join(f"{times[2] / time:.2f}" for time in times.values())
        why = "all ranks share this machine's cores, so more of them than cores gain nothing"
        said = "below the single-core cluster's (no numbers in the text)"
        rows.append(("Figure 2.7", f"{bench}: speed-up at 2, 4, 8, 16 ranks", said, here, why))
    return rows


def chai2009(directory):
    """All rows."""
    rows = levels(directory)
    said = "90 % of 4 to 64 KB; of these 10, 30, 60 %"
    why = "NAMD may not be redistributed, so Debian has no package"
    rows.append(("Figure 2.2", "NAMD on 16 cores", said, MISSING, why))
    said = "nearly all within nodes (4 x 4 processes)"
    rows.append(linpack(directory, "Figure 2.3", 16, 2, 2, said))
    rows += distribution(directory, "2.1", 16, 2, 2)
    said = "15.4, 42.6, 42.0 %; 3.5, 19.9, 76.6 %"
    rows.append(linpack(directory, "Figure 2.4", 256, 2, 4, said))
    rows += distribution(directory, "2.2", 256, 2, 4)
    rows += contention(directory) + tiling(directory) + scalability(directory)
    return "chai-2009, chapter 2: within a chip, within a node, between nodes", rows


# ---- leon-2009, 5.4

SYMBOLS = {
    "latency": "L",
    "send_overhead": "o",
    "receive_overhead": "o_r",
    "gap": "g",
    "gap_per_byte": "G",
}
THESIS = {
    "fft": (
        "FFT",
        "G: dominated by the bandwidth of long messages",
        {"header": "about 0 %", "payload": "7 %"},
        "a smaller transform, so that more of the time is in short steps",
    ),
    "amg": (
        "AMG",
        "L and o: short messages, over 20 % of communication in waits",
        {"header": "gains more than payload", "payload": "gains less than header"},
        "hypre's solver of today on a smaller grid; a wait does not poll memory here",
    ),
}


def leon2009(directory):
    """All rows."""
    rows = []
    for program, (name, depends, gains, why) in THESIS.items():
        found = read(directory / f"{program}-sensitivity.json")
        here = MISSING
        if found:
            parts = [(SYMBOLS[row["parameter"]], row["elasticity"]) for row in found["rows"]]
            here = ", ".join(f"{symbol} {value:.3f}" for symbol, value in parts)
        what = f"{name}: % of time for each % of a parameter"
        rows.append(("5.4", what, depends, here, why))
        policies = ("base", *gains)
        times = {policy: read(directory / f"{program}-{policy}.json") for policy in policies}
        for policy, said in gains.items():
            here = MISSING
            if all(times.values()):
                gain = 100 * (1 - times[policy]["region_ns"] / times["base"]["region_ns"])
                here = f"{gain:.1f} %"
            rows.append(("5.4", f"{name}: time saved by {policy} injection", said, here, why))
    return "leon-2009, 5.4: parameters of LogGP and cache injection (simulated)", rows


HEADER = ("item", "what", "paper", "here", "why they differ")
PAPERS = {"ma2011": ma2011, "chai2009": chai2009, "leon2009": leon2009}


def text(title, rows):
    """The table for a terminal: the reasons once, under it."""
    widths = [max(len(row[at]) for row in [HEADER, *rows]) for at in range(4)]
    reasons = []
    lines = [title, ""]
    for row in [HEADER, *rows]:
        mark = ""
        if row is not HEADER:
            if row[4] not in reasons:
                reasons.append(row[4])
            mark = f"[{reasons.index(row[4]) + 1}]"
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append("  ".join([*cells, mark]).rstrip())
    lines.append("")
    lines += [f"[{at}] {reason}" for at, reason in enumerate(reasons, 1)]
    return "\n".join(lines) + "\n"


def markdown(title, rows):
    """The table as Markdown."""
    lines = [f"# {title}", "", "| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in PAPERS:
        sys.exit(f"usage: paper_tables.py {'|'.join(PAPERS)} DIR")
    directory = pathlib.Path(sys.argv[2])
    title, rows = PAPERS[sys.argv[1]](directory)
    (directory / "paper.txt").write_text(text(title, rows))
    (directory / "paper.md").write_text(markdown(title, rows))
    print(text(title, rows), end="")


if __name__ == "__main__":
    main()
