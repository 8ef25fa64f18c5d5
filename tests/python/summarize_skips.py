"""Writes docs/mpi4py.md from what the last run of the suite skipped (target/mpi4py-skipped-RANKS.txt).

    cargo test -p mica-tests --test jobs -- mpi4py && python3 tests/python/summarize_skips.py
"""

import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

ranks_of = collections.defaultdict(set)
for path in sorted((ROOT / "target").glob("mpi4py-skipped-[0-9].txt")):
    ranks = int(re.search(r"(\d+)\.txt", path.name)[1])
    for line in path.read_text().splitlines():
        test, reason = re.fullmatch(r"skipped: (.*?\)): (.*)", line).groups()
        method, where = re.fullmatch(r"(\S+) \((\S+)\)", test).groups()
        ranks_of[where.removesuffix("." + method), method, reason].add(ranks)

rows = collections.defaultdict(list)
for (where, method, reason), ranks in ranks_of.items():
    rows[where, reason, ", ".join(map(str, sorted(ranks)))].append(method)

out = [
    "# mpi4py's test suite on Mica",
    "",
    "`make test` runs the suite of mpi4py 4.1.2 on 1, 2, 3 and 5 ranks, and on 2 nodes x 2 ranks (without those that spawn processes, which a job on one node can). Modules of what is not implemented yet are left out in",
    "[mpi4py-modules.txt](../tests/python/mpi4py-modules.txt), each with its reason. These tests are skipped in the modules that run,",
    "by mpi4py itself, for want of a Python package (numba, cupy, cffi,",
    "yaml, dill) or of ranks. Arrays of numpy take part on 2 ranks, and wherever a module needs them; modules that do not communicate",
    "(`ranks=1` in the list) run on 1 rank, with numpy. Written by `tests/python/summarize_skips.py`.",
    "",
    "| class | tests | reason | on ranks |",
    "|---|---|---|---|",
]
for (where, reason, ranks), methods in sorted(rows.items()):
    out.append(f"| `{where}` | {', '.join(sorted(methods))} | {reason} | {ranks} |")
(ROOT / "docs" / "mpi4py.md").write_text("\n".join(out) + "\n")
