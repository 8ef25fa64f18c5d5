#!/usr/bin/env python3
"""Writes programs that call every function of Fortran, in its three interfaces, and what must arrive in C and come back.

    python calls.py FOLDER                      write recorder.c, names, and for f08, mpi and mpif calls_X.f90 and calls_X.expected
    python calls.py --compare EXPECTED RECORD   exit 1 and say what differs

Here are the calls that follow from the declarations (declarations.py), in by_hand.py the others; program.py writes calls and what
is expected. The programs are linked with the recorder (recorder.h) in place of libmpi_abi.so.1, and with reports.f90, by which
they say what came back. What must arrive follows from the declarations in C and in Fortran alone, not from the kinds that
bindings/fortran.py makes of the Forum's description: an error there must show here. Each function is called

1. as MPI_X with distinctive arguments; it succeeds,
2. as MPI_X without `ierror` (mpi_f08), with what stands for something (MPI_STATUS_IGNORE, MPI_IN_PLACE) where there is such,
3. as PMPI_X with a long text; it fails with a distinctive code, stores nothing, and no variable changes.

Numbers follow from those of the call, of the parameter and of the element (`number`), so that none can stand for another.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from declarations import ELEMENTS, Argument, Function, api, functions
from program import Program, column, handle_number, handle_result, listed, number, result, signed
from recorder import PARTNERS, asked, recorder

# Characters of the variables for texts; a special call has room for fewer.
ROOM, NARROW = 24, 4
NULL_REQUEST = 0x180
UNDEFINED = -32766


def add(program: Program, function: Function) -> None:
    """The three calls of a function."""
    writer = Calls(program, function)
    for special, prefix, code in ((0, "", 0), (1, "", 0), (0, "P", 7000)):
        writer.add(special, prefix, code)
    program.procedure(function.name, sorted(writer.declared), writer.lines)


class Calls:
    """Writes the calls of a function."""

    def __init__(self, program: Program, function: Function):
        self.program, self.function = program, function
        self.declared: set[str] = set()
        self.lines: list[str] = []

    def add(self, special: int, prefix: str, code: int) -> None:
        k = self.program.calls + 1
        given, arrives, back = [], {}, []
        code = code and code + k
        for i, argument in enumerate(self.function.arguments):
            write = getattr(self, argument.form)
            shown, arrived, returned = write(argument, k, i, special, code)
            given.append(shown)
            arrives[argument.name] = arrived
            back += [(argument.name, *pair) for pair in returned]
        in_order = [f"{p.name.lower()}={arrives.get(p.name.lower(), missing(p))}" for p in self.function.c.params if not p.variadic]
        f = self.function
        self.program.call(self.lines, f.name, given, in_order, back, code, special, prefix, not special, generic=f.generic)

    # For each form: what the program passes, what arrives, and what it reports afterwards with what is expected.

    def variable(self, name: str, kind: str, elements: int, initial: list[str]) -> str:
        """A variable, with its value before the call."""
        self.declared.add(f"{kind} :: {name}" + (f"({elements})" if elements else ""))
        self.lines.append(f"{name} = " + (f"[{', '.join(initial)}]" if elements else initial[0]))
        return name

    def written(self, argument: Argument, i: int, special: int, code: int, before: list, after: list) -> list:
        """What is in a variable after the call."""
        n = argument.elements or 1
        if code:
            return before
        if argument.type == "MPI_Request" and argument.direction == "inout":
            # A request that is complete, or none: see stored().
            return [signed(NULL_REQUEST) if e % 2 == 0 and not self.function.name.startswith("MPI_Start") else before[e] for e in range(n)]
        some = self.function.name.endswith("some")
        if argument.name == "outcount" and some:
            return [UNDEFINED if special else 2]
        if argument.name == "array_of_indices" and some:
            return before if special else [1, 3, before[2]]
        if argument.name == "index" and argument.direction == "out" and not argument.lengths:
            return [UNDEFINED if special else 2]
        return after

    def handle(self, argument, k, i, special, code):
        n = argument.elements
        values = [handle_number(k, i, e) for e in range(n or 1)]
        comms = asked(self.function.name)
        comm = comms[2 if code else special] if comms else 0
        if comm and argument.name == "comm":
            values = [comm]
        arriving = values
        if argument.name in ("sendtypes", "recvtypes"):
            arriving = values[: PARTNERS[comm][argument.name == "recvtypes"]]
        shown = [self.program.handle(argument.type, value) for value in values]
        if argument.direction == "in":
            return f"[{', '.join(shown)}]" if n else shown[0], listed(arriving), []
        variable = self.variable(argument.name, self.program.handle_type(argument.type), n, shown)
        after = [handle_result(k, i, e) for e in range(n or 1)]
        after = self.written(argument, i, special, code, [signed(v) for v in values], after)
        arrived = "place" if argument.direction == "out" else listed(values)
        return variable, arrived, [(self.program.value(variable), listed(after))]

    def integer(self, argument, k, i, special, code):
        n = argument.elements
        values = [number(k, i, e) + (argument.wide << 40) for e in range(n or 1)]
        lengths = " ".join(a.lengths for a in self.function.arguments).lower()
        if re.search(rf"\b{argument.name}\b", lengths):
            values = [ELEMENTS]
        shown = [f"{value}_8" if argument.wide else str(value) for value in values]
        if argument.name.endswith("weights") and special:
            which = "MPI_WEIGHTS_EMPTY" if argument.name == "destweights" else "MPI_UNWEIGHTED"
            return which, "empty" if argument.name == "destweights" else "unweighted", []
        if argument.direction == "in":
            array = f"[{', '.join(shown)}]"
            array = f"reshape({array}, [3, {ELEMENTS}])" if "," in argument.lengths else array
            return array if n else shown[0], listed(values), []
        variable = self.variable(argument.name, "integer(8)" if argument.wide else "integer", n, shown)
        after = [result(k, i, e) + (argument.wide << 41) for e in range(n or 1)]
        after = self.written(argument, i, special, code, values, after)
        arrived = "place" if argument.direction == "out" else listed(values)
        return variable, arrived, [(variable, listed(after))]

    def logical(self, argument, k, i, special, code):
        n = argument.elements
        values = [(k + i + e) // 2 % 2 for e in range(n or 1)]
        shown = [".true." if value else ".false." for value in values]
        if argument.direction == "in":
            return f"[{', '.join(shown)}]" if n else shown[0], listed(values), []
        variable = self.variable(argument.name, "logical", n, shown)
        after = values if code else [(k + i + e) % 2 for e in range(n or 1)]
        return variable, "place", [(variable, listed(after))]

    def status(self, argument, k, i, special, code):
        n, name, program = argument.elements, argument.name, self.program
        if special and argument.direction == "out":
            return "MPI_STATUSES_IGNORE" if n else "MPI_STATUS_IGNORE", "null", []
        self.declared.add(program.status_type(name, n))
        back, before = [], []
        for e in range(n or 1):
            for at, field in enumerate(("MPI_SOURCE", "MPI_TAG", "MPI_ERROR")):
                shown = program.status_field(name, field, e + 1 if n else 0)
                value = number(k, i, 3 * e + at)
                self.lines.append(f"{shown} = {value}")
                before.append(value)
                stored = argument.direction != "in" and not code and not (self.function.name.endswith("some") and e == 2)
                back.append((shown, str(result(k, i, 3 * e + at) if stored else value)))
        return name, "place" if argument.direction == "out" else listed(before), back

    def text(self, argument, k, i, special, code):
        if argument.direction == "in":
            # No text, one with blanks around it, one that is longer than what is kept on the stack.
            text = "" if special else f"  t {k}.{i}".ljust(124 if code else 0, "x")
            # Blanks around keys and values of info objects are not part of them (MPI 5.0, 10).
            arrived = text.lstrip() if self.function.name.startswith("MPI_Info_") else text
            if code:
                # gfortran 11 cannot describe a text of 128 characters or more.
                name = self.variable(argument.name, "character(len=126)", 0, [f"'{text[:40]}' // repeat('x', {len(text[40:])})"])
                return name, f'"{arrived}"', []
            return f"'{text}   '", f'"{arrived}"', []
        before = "unchanged unchanged uncha"[:ROOM]
        variable = self.variable(argument.name, f"character(len={ROOM})", 0, [f"'{before}'"])
        text = f"out {k}.{i}".ljust(ROOM)
        after = before if code else text[:NARROW] + before[NARROW:] if special else text
        return variable + (f"(1:{NARROW})" if special else ""), "place", [(variable, f'"{after}"')]

    def choice(self, argument, k, i, special, code):
        if argument.name == "buffer_addr":
            # Fortran gets the size alone.
            return f"block(1, {column(k, i)})", "place", []
        if special:
            if argument.name == "buffer":
                return "MPI_BUFFER_AUTOMATIC", "automatic", []
            names = [a.name for a in self.function.arguments]
            if argument.name in ("sendbuf", "recvbuf") and {"sendbuf", "recvbuf", "comm"} <= set(names) and (k + i) % 2:
                return "MPI_IN_PLACE", "in_place", []
            return "MPI_BOTTOM", "null", []
        j = column(k, i)
        # Without interfaces all calls must look alike.
        shapes = (f"block(1, {j})", f"block(:, {j})", f"block(:, {j}:{j + 2})", f"block(2:5, {j})")
        which = 0 if self.program.interface == "mpif" else (k + i) % 4
        return shapes[which], f"block+{32 * (j - 1) + (4 if which == 3 else 0)}", []

    def pointer(self, argument, k, i, special, code):
        after = f"{32 * (column(k, i) - 1)}"
        if self.program.interface == "f08" or self.program.interface == "mpi" and special:
            self.declared.add(f"type(c_ptr) :: {argument.name}_c")
            self.lines.append(f"{argument.name}_c = c_loc(block(3, 1))")
            variable, shown = f"{argument.name}_c", f"transfer({argument.name}_c, 0_8)"
        else:
            variable = self.variable(argument.name, "integer(8)", 0, ["transfer(c_loc(block(3, 1)), 0_8)"])
            shown = variable
        shown += " - transfer(c_loc(block), 0_8)"
        return variable, "place", [(shown, "8" if code else after)]


def missing(parameter: api.Param) -> str:
    """What C gets for a parameter that Fortran has not."""
    return "null" if parameter.depth else "0"


# ---------------------------------------------------------------------------------------------------------------------------


def names(predefined) -> list[str]:
    """The names that compilers give the functions of `mpif.h`, and the callbacks that MPI has."""
    functions_of = [f.name for f in functions("mpif") if f.name != "MPI_Sizeof"]
    all_names = [prefix + name for prefix in ("", "P") for name in functions_of] + sorted(predefined)
    return [form for name in all_names for form in (f"{name.lower()}_", f"{name.lower()}__", name.lower(), name.upper())]


def compare(expected: Path, record: Path) -> int:
    """Says which calls differ from what is expected."""
    paragraphs = []
    for path in (expected, record):
        parts = ("\n" + path.read_text(errors="replace")).split("\n# ")[1:]
        paragraphs.append(dict(part.partition("\n")[::2] for part in parts))
    wanted, found = paragraphs
    wrong = [k for k in wanted if wanted[k].rstrip() != found.get(k, "").rstrip()]
    for k in wrong[:40]:
        print(f"call {k}: expected\n{wanted[k].rstrip()}\nfound\n{found.get(k, 'nothing').rstrip()}\n")
    extra = len(found.keys() - wanted.keys())
    print(f"{expected.stem}: {len(wanted)} calls, {len(wrong)} of them wrong" + (f", {extra} more" if extra else ""))
    return 1 if wrong or extra else 0


def main() -> int:
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        return compare(Path(sys.argv[2]), Path(sys.argv[3]))
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    import by_hand

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for interface in ("f08", "mpi", "mpif"):
        program = Program(interface)
        known = functions(interface)
        for function in known:
            if function.name not in by_hand.NAMES:
                add(program, function)
        callbacks = by_hand.add(program)
        if missed := {f.name for f in known} - program.called - by_hand.ABSENT.get(interface, set()):
            raise SystemExit(f"calls.py: {interface}: not called: {', '.join(sorted(missed))}")
        (folder / f"calls_{interface}.f90").write_text(program.text(callbacks))
        (folder / f"calls_{interface}.expected").write_text("\n".join(program.expected) + "\n")
        print(f"{interface}: {len(known)} functions, {program.calls} calls")
    (folder / "names").write_text("\n".join(names(by_hand.PREDEFINED)) + "\n")
    (folder / "recorder.c").write_text(recorder(by_hand.NAMES_IN_C))
    return 0


if __name__ == "__main__":
    sys.exit(main())
