"""The constants of the MPI 5.0 standard ABI: `crates/objects/src/constants.rs`, and what the header needs to know."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import api


@dataclass
class Section:
    """Constants of one purpose and one type."""

    title: str
    c_type: str
    rust_type: str
    constants: list[tuple[str, int, str]] = field(default_factory=list)  # name, value, description


def load() -> list[Section]:
    """The sections of `data/descriptions.txt`, with the values of `data/mpi5-abi-constants.tsv`."""
    values = {name: value for name, value in api.constants() if "(" not in name}
    sections: list[Section] = []
    seen = set()
    for line in (api.DATA / "descriptions.txt").read_text().splitlines():
        if line.startswith("["):
            sections.append(Section(*(part.strip() for part in line[1:-1].split("|"))))
        elif line and not line.startswith("#"):
            name, text = line.split(" ", 1)
            if name not in values or name in seen:
                raise SystemExit(f"descriptions.txt: {name}: no such constant, or described twice")
            seen.add(name)
            sections[-1].constants.append((name, values[name], text))
    if missing := values.keys() - seen:
        raise SystemExit(f"descriptions.txt: no description of {', '.join(sorted(missing))}")
    return sections


def rust_name(name: str) -> str:
    """`MPI_SUM` -> `SUM`; `MPI_2INT` -> `TWOINT`, since a name cannot start with a digit."""
    bare = name.removeprefix("MPI_")
    return "TWO" + bare[1:] if bare[0] == "2" else bare


def rust(note: str) -> str:
    """The text of `constants.rs`."""
    out = [
        "//! The constants of the MPI 5.0 standard ABI (MPI 5.0, chapter 20 and annex A), without the",
        "//! `MPI_` prefix.",
        "//!",
        "//! Handles are `u32`: an object's internal handle is what C sees. Ranks, tags, classes and the",
        "//! like are `i32`, lengths `usize`, and so are the addresses and function pointers that stand for",
        "//! something special.",
        "//!",
        f"//! {note}",
    ]
    out += [
        "",
        "/// Defines constants of one type.",
        "macro_rules! constants {",
        "    ($type:ty: $($name:ident = $value:literal, $text:literal;)*) => {",
        "        $(#[doc = $text] pub const $name: $type = $value;)*",
        "    };",
        "}",
    ]
    for rust_type, sections in itertools.groupby(load(), key=lambda section: section.rust_type):
        out += ["", f"constants! {{ {rust_type}:"]
        for section in sections:
            out += [f"    // {section.title}"]
            for name, value, text in section.constants:
                shown = f"0x{value:x}" if rust_type == "u32" else str(value)
                row = f'    {rust_name(name)} = {shown}, "{text}";'
                out += [row] if len(row) <= 100 else [row[: row.index(", ") + 1], f'        "{text}";']
        out += ["}"]
    return "\n".join(out) + "\n"
