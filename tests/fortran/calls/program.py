"""A program of one interface, and what its record must be. The numbers are those of recorder.h."""

from __future__ import annotations

import re
import textwrap

from declarations import api


def number(k: int, i: int, e: int = 0) -> int:
    return k * 1000 + i * 10 + e


def handle_number(k: int, i: int, e: int = 0) -> int:
    """Some have the sign of an INTEGER: C must get no sign."""
    return (0xC0000000 if (k + i) % 2 else 0x40000000) + number(k, i, e)


def signed(handle: int) -> int:
    return handle - (1 << 32) if handle >= 1 << 31 else handle


def result(k: int, i: int, e: int = 0) -> int:
    return 1000000000 + number(k, i, e)


def handle_result(k: int, i: int, e: int = 0) -> int:
    return signed((0xA0000000 if k % 2 else 0x20000000) + number(k, i, e))


def column(k: int, i: int) -> int:
    """The column of the block, of 8 integers each, that a choice buffer is."""
    return 1 + (k * 7 + i) % 60


def listed(values) -> str:
    return ",".join(str(value) for value in values)


class Program:
    """A program of one interface, and what its record must be."""

    def __init__(self, interface: str):
        self.interface = interface
        self.calls = 0
        self.called: set[str] = set()
        self.expected: list[str] = []
        self.procedures: list[str] = []

    # What differs between the interfaces.

    def handle(self, kind: str, value: int) -> str:
        value = signed(value)
        return f"{kind}({value})" if self.interface == "f08" else str(value)

    def handle_type(self, kind: str) -> str:
        return f"type({kind})" if self.interface == "f08" else "integer"

    def value(self, variable: str) -> str:
        """The number of a variable for a handle, or the numbers of those in an array."""
        return f"{variable}%MPI_VAL" if self.interface == "f08" else variable

    def status_type(self, name: str, elements: int = 0) -> str:
        if self.interface == "f08":
            return f"type(MPI_Status) :: {name}" + (f"({elements})" if elements else "")
        return f"integer :: {name}(MPI_STATUS_SIZE" + (f", {elements})" if elements else ")")

    def status_field(self, name: str, field: str, element: int = 0) -> str:
        if self.interface == "f08":
            return f"{name}({element})%{field}" if element else f"{name}%{field}"
        return f"{name}({field}, {element})" if element else f"{name}({field})"

    def call(self, lines, name, arguments, arrives, back=(), code=0, special=0, prefix="", ierror=True, generic=None):
        """Adds a call to the lines of a procedure; see `statement`. In mpi_f08 `ierror` may be missing."""
        if ierror or self.interface != "f08":
            arguments, back = [*arguments, "ierror"], [("ierror", "ierror", str(code)), *back]
            lines.append("ierror = -1")
        self.statement(lines, name, f"call {prefix}{generic or name}({', '.join(arguments)})", arrives, back, code, special, prefix)

    def statement(self, lines, name, statement, arrives, back=(), code=0, special=0, prefix=""):
        """Adds a call: what arrives in C, texts `name=value`, or none if nothing does; whole lines of callbacks begin with a line
        break. What comes back is for each variable its name, an expression, and the text that is expected."""
        self.calls += 1
        self.called.add(name)
        lines += [f"call next({self.calls}, {code}, {special})", statement]
        lines += [f"call back('{name}', {shown})" for name, shown, _ in back]
        self.expected.append(f"# {self.calls}")
        if arrives is not None:
            own = [text for text in arrives if not text.startswith("\n")]
            self.expected.append(" ".join(own if own and own[0].startswith("table") else [prefix + name, *own]))
            self.expected += [text[1:] for text in arrives if text.startswith("\n")]
        if back:
            self.expected.append(" ".join(["back", *(f"{name}={value}" for name, _, value in back)]))

    def procedure(self, name: str, declarations, lines) -> None:
        """Adds a procedure of the program."""
        body = [f"subroutine call_{name.lower()}()", *(f"  {d}" for d in declarations), "  integer :: ierror"]
        self.procedures += [*body, *(f"  {line}" for line in lines), "end subroutine", ""]

    def text(self, others: str = "") -> str:
        """The whole program. `others` are procedures for callbacks, which come before it."""
        names = [line.split()[1] for line in self.procedures if line.startswith("subroutine call_")]
        module = {"f08": "  use mpi_f08", "mpi": "  use mpi", "mpif": ""}[self.interface]
        header = "  include 'mpif.h'" if self.interface == "mpif" else ""
        uses = ["  use, intrinsic :: iso_c_binding", "  use reports", "  use callbacks", module, "  implicit none", header]
        lines = [
            "program calls", *filter(None, uses),
            "  integer, target, save :: block(8, 64)", "  call open_record(block)", *(f"  call {name}" for name in names), "contains", "",
            *(wrapped for line in self.procedures for wrapped in wrap(line)), "end program",
        ]
        return others + "\n".join(lines) + "\n"


def wrap(line: str) -> list[str]:
    """A statement of free form in lines that every compiler takes; a text is not divided."""
    glued = re.sub(r"'[^']*'", lambda found: found[0].replace(" ", api.GLUE), line)
    indent = len(line) - len(line.lstrip())
    parts = textwrap.wrap(glued.strip(), 96 - indent, break_long_words=False, break_on_hyphens=False) or [""]
    shown = [" " * (indent + (4 if i else 0)) + part + (" &" if i + 1 < len(parts) else "") for i, part in enumerate(parts)]
    return [part.replace(api.GLUE, " ") for part in shown]
