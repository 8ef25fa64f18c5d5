"""`docs/coverage.md`: which functions of the ABI are implemented."""

from __future__ import annotations

import api
from api import Function
from exports import Shims


def text(functions: list[Function], shims: Shims, note: str) -> str:
    out = [
        "# Coverage of MPI 5.0",
        "",
        f"{note}",
        "",
        "A function counts as implemented when it has a shim in `crates/abi/src/shims/`, or when `crates/abi/src/collective/`",
        "prepares its call; one shim serves a function and its large-count form.",
        "The numbers count the names of the standard ABI, large-count forms included.",
        "",
        "| chapter | functions | implemented |",
        "|---|---:|---:|",
    ]
    chapters = api.by_chapter()
    for family, chapter, _ in chapters:
        members = [f for f in functions if f.family == family]
        out.append(f"| {chapter} | {len(members)} | {sum(f.shim in shims for f in members)} |")
    out.append(f"| **all** | **{len(functions)}** | **{sum(f.shim in shims for f in functions)}** |")
    names = {f.name for f in functions}
    for family, chapter, _ in chapters:
        out += ["", f"## {chapter}", "", "| function | large-count form | implemented |", "|---|---|---|"]
        for f in functions:
            if f.family == family and not f.large:
                large = f"`{f.name}_c`" if f"{f.name}_c" in names else ""
                out.append(f"| `{f.name}` | {large} | {'yes' if f.shim in shims else 'no'} |")
    return "\n".join(out) + "\n"
