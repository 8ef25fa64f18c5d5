"""The functions of Fortran as the Forum's description declares them, in each interface and in C."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bindings"))

import api
import pympistandard

# Elements of each array, and the value of the parameters that say how many there are.
ELEMENTS = 3
# Kinds of integers by the names of their constants.
WIDE = ("MPI_ADDRESS_KIND", "MPI_COUNT_KIND", "MPI_OFFSET_KIND")


@dataclass(frozen=True)
class Argument:
    """An argument of Fortran, and the parameter of C that it becomes."""

    name: str
    form: str
    """choice, handle, integer, logical, pointer, procedure, status or text."""
    type: str
    """Of a handle in mpi_f08; of others as the interface declares it."""
    wide: bool
    direction: str
    lengths: str
    """In the declaration of an array, empty for a scalar."""
    c: api.Param | None

    @property
    def elements(self) -> int:
        return 0 if not self.lengths else 3 * ELEMENTS if "," in self.lengths else ELEMENTS


@dataclass(frozen=True)
class Function:
    """A function of an interface."""

    name: str
    generic: str
    """As the program calls it."""
    arguments: tuple[Argument, ...]
    returns: bool
    c: api.Function | None


def functions(interface: str) -> list[Function]:
    """All functions of `f08`, or of `mpi` and `mpif`, from their declarations."""
    in_c = {f.name: f for f in api.load()[0]}
    found = []
    for symbol in (pympistandard.PROCEDURES[key] for key in pympistandard.PROCEDURES):
        declared = [("f08", symbol.express.f08), ("f90", symbol.express.f90)]
        declared = {name: form for name, form in declared if symbol._parseset["attributes"][f"{name}_expressible"]}
        form = declared.get("f08" if interface == "f08" else "f90")
        if form is None:
            continue
        # What mpi_f08 says of handles and directions holds for the others.
        small = declared.get("f08", form)
        name = next((n for n in in_c if n.lower() == symbol.name.lower()), small.name)
        found.append(_function(name, form.name, form, small, in_c.get(name)))
        if interface == "f08" and symbol.has_embiggenment() and f"{name}_c" in in_c:
            large = symbol.express.embiggen.f08
            if large.name != small.name or _kinds(large) != _kinds(small):
                found.append(_function(f"{name}_c", large.name, large, large, in_c[f"{name}_c"]))
    return found


def _kinds(form) -> list[str]:
    """What a compiler tells specific functions apart by."""
    return [re.sub("|".join(WIDE), "8", p.type) for p in form.parameters]


def _function(name, generic, form, described, c) -> Function:
    of_c = {p.name.lower(): p for p in c.params} if c else {}
    own = {p.name.lower(): p for p in form.parameters}
    arguments = []
    for parameter in described.parameters:
        lower = parameter.name.lower()
        if lower != "ierror":
            arguments.append(_argument(own[lower], parameter, of_c.get(lower)))
    return Function(name, generic, tuple(arguments), form.return_type is not None, c)


def _argument(own, described, c) -> Argument:
    kind = described.type.upper()
    declaration = getattr(described, "descriptor", kind).upper()
    lengths = getattr(described, "name_length", None) or getattr(described, "dimensions", "")
    handle = next((f"MPI_{h}" for h in ("Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request",
                                        "Session", "Win") if f"TYPE(MPI_{h})".upper() in kind), "")
    if not handle and kind == "INTEGER" and c and c.base.startswith("MPI_") and c.base not in ("MPI_Aint", "MPI_Count", "MPI_Offset"):
        handle = c.base
    if handle:
        form = "handle"
    elif "TYPE(MPI_STATUS)" in kind:
        form = "status"
    elif "TYPE(*)" in kind or kind == "<TYPE>":
        form, lengths = "choice", ""
    elif "C_PTR" in kind:
        form = "choice" if own.type == "<type>" else "pointer"
    elif "CHARACTER" in kind:
        form = "text"
    elif "LOGICAL" in kind:
        form = "logical"
    elif "PROCEDURE" in kind or kind == "EXTERNAL":
        form = "procedure"
    else:
        assert kind.startswith("INTEGER"), kind
        form = "integer"
    said = re.search(r"INTENT\((\w+)\)", declaration)
    writes = c is not None and c.depth > 0 and not c.const
    direction = said[1].lower() if said else "out" if writes and form != "choice" else "in"
    return Argument(described.name.lower(), form, handle or own.type, any(w in own.type for w in WIDE), direction, lengths or "", c)
