"""The functions and callbacks of the MPI 5.0 standard ABI, in a form that the writers can print.

Facts come from `pympistandard` (signatures), `data/mpi5-abi-functions.txt` (which names exist) and the few tables here
(what the first two do not say).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pympistandard

DATA = Path(__file__).parent / "data"

# Large-count names that the ABI lists and apis.json does not: their signature is the plain one's.
SAME_AS = {
    "MPI_Psend_init_c": "MPI_Psend_init",
    "MPI_Precv_init_c": "MPI_Precv_init",
}

# Where apis.json and the text of the standard differ: levels of pointer of one parameter.
POINTERS = {("MPI_Info_create_env", "argv"): 1}

# apis.json marks nothing as deprecated.
DEPRECATED = {
    "MPI_Attr_delete": "MPI 2.0",
    "MPI_Attr_get": "MPI 2.0",
    "MPI_Attr_put": "MPI 2.0",
    "MPI_Keyval_create": "MPI 2.0",
    "MPI_Keyval_free": "MPI 2.0",
    "MPI_Copy_function": "MPI 2.0",
    "MPI_Delete_function": "MPI 2.0",
    "MPI_Info_get": "MPI 4.0",
    "MPI_Info_get_valuelen": "MPI 4.0",
    "MPI_Get_elements_x": "MPI 4.1",
    "MPI_Status_set_elements_x": "MPI 4.1",
    "MPI_Type_get_extent_x": "MPI 4.1",
    "MPI_Type_get_true_extent_x": "MPI 4.1",
    "MPI_Type_size_x": "MPI 4.1",
}

# Chapter of MPI 5.0 and file of exports for each function: the first pattern that matches the whole name (without MPI_,
# without _c) decides.
FAMILIES = [
    ("tools", "15 Tool support", r"T_.*|Pcontrol"),
    ("handles", "19 Handle conversion", r".*_(toint|fromint)"),
    ("files", "14 Input and output", r"File_(?!.*errhandler).*|Register_datarep"),
    (
        "windows",
        "12 One-sided communication",
        r"Win_(create|allocate|attach|detach|free|shared|fence|start|complete|post|wait|test|lock|unlock|flush|sync"
        r"|get_group|set_info|get_info)(?!_keyval|_errhandler).*"
        r"|Put|Get|Accumulate|Get_accumulate|Fetch_and_op|Compare_and_swap|R(put|get|accumulate|get_accumulate)",
    ),
    (
        "topologies",
        "8 Virtual topologies",
        r"Cart.*|Graph.*|Dist_graph.*|Dims_create|Topo_test|I?neighbor_.*|Neighbor_.*",
    ),
    (
        "collectives",
        "6 Collective communication",
        r"I?(barrier|bcast|gatherv?|scatterv?|allgatherv?|alltoall[vw]?|reduce.*|allreduce|scan|exscan)(_init)?|Op_.*",
    ),
    ("partitioned", "4 Partitioned communication", r"P(send|recv)_init|Pready.*|Parrived"),
    (
        "point_to_point",
        "3 Point-to-point communication",
        r"I?[bsr]?send(_init)?|I?m?recv(_init)?|I?sendrecv.*|I?m?probe|Start.*|(Wait|Test)(all|any|some)?|Cancel"
        r"|Test_cancelled|Request_.*|Get_count|(Buffer|Comm|Session)_(attach|detach|flush|iflush).*"
        r"|Status_(get|set)_(source|tag|error)",
    ),
    (
        "datatypes",
        "5 Datatypes",
        r"(?!.*(keyval|attr|name)$)Type_.*|(Un)?[Pp]ack.*|Get_address|Aint_.*|Get_elements.*",
    ),
    (
        "communicators",
        "7 Groups, contexts, communicators, caching",
        r"Group_(?!from_session).*|Comm_(size|rank|compare|dup.*|idup.*|create|create_group|split.*|free|test_inter"
        r"|remote.*|group|set_info|get_info)|Intercomm_(create|merge)|.*(keyval|attr)|(Comm|Type|Win)_(get|set)_name|Keyval.*|Attr.*",
    ),
    ("external", "13 External interfaces", r"Grequest.*|Status_set.*"),
    (
        "processes",
        "11 Process initialization, creation and management",
        r"Session_(?!.*errhandler).*|Group_from.*|.*_from_groups?|Comm_(spawn.*|accept|connect|disconnect|join|get_parent)"
        r"|(Open|Close)_port|(Publish|Unpublish|Lookup)_name|Init.*|Finalize.*|Abort|Query_thread|Is_thread_main",
    ),
    ("info", "10 The info object", r"Info_.*"),
    ("environment", "9, 20 Environmental management and the ABI", r".*"),
]


def by_chapter() -> list[tuple[str, str, str]]:
    """The families in the order of the standard's chapters."""
    return sorted(FAMILIES, key=lambda family: int(family[1].split()[0].rstrip(",")))


# C type -> Rust type; everything else that starts with MPI_ keeps its name.
RUST = {"int": "c_int", "char": "c_char", "void": "c_void", "double": "f64"}

# Stands for a space at which a line must not break.
GLUE = "\u00a0"

RUST_KEYWORDS = {"type", "in", "ref", "match", "move", "loop", "fn", "use", "where", "mod"}


@dataclass(frozen=True)
class Listed:
    """What the standard's text says of a parameter, for all languages."""

    direction: str
    """`IN`, `OUT` or `INOUT`: of a handle, what becomes of its object."""
    text: str
    """In LaTeX; empty where the name says it all."""
    root_only: bool
    """It counts at the root alone."""


@dataclass(frozen=True)
class Param:
    """One parameter in C."""

    name: str
    base: str
    const: bool
    pointers: int
    array: str
    kind: str
    direction: str
    large_only: bool
    length: str
    """The parameter that says how many elements an array has, if one does."""
    listed: Listed = field(compare=False)

    @property
    def variadic(self) -> bool:
        return self.kind == "VARARGS"

    @property
    def callback(self) -> bool:
        return "FUNCTION" in self.kind

    @property
    def c(self) -> str:
        if self.variadic:
            return "..."
        const = "const " if self.const else ""
        pointers, array = self.pointers, self.array
        if self.kind == "WEIGHT" and array == "[]":
            # MPI_UNWEIGHTED is an address that nothing lies at; GCC warns when it is passed for an array.
            pointers, array = pointers + 1, ""
        return f"{const}{self.base} {'*' * pointers}{self.name}{array}"

    @property
    def depth(self) -> int:
        """Levels of pointer, an array being one."""
        return self.pointers + (1 if self.array else 0)

    @property
    def rust_name(self) -> str:
        return f"r#{self.name}" if self.name in RUST_KEYWORDS else self.name

    @property
    def rust(self) -> str:
        if self.callback:
            return "usize"
        base = RUST.get(self.base, self.base)
        inner = re.fullmatch(r"\[\]\[(\d+)\]", self.array)
        if inner:
            base = f"[{base}; {inner[1]}]"
        if self.depth == 0:
            return base
        return ("*const " if self.const else "*mut ") + "*mut " * (self.depth - 1) + base


@dataclass(frozen=True)
class Function:
    """One name of the ABI."""

    name: str
    returns: str
    params: tuple[Param, ...]

    @property
    def plain(self) -> str:
        """Its name without the large-count suffix."""
        return self.name.removesuffix("_c")

    @property
    def large(self) -> bool:
        return self.name.endswith("_c")

    @property
    def shim(self) -> str:
        return self.plain.lower()

    @property
    def tool(self) -> bool:
        return self.name.startswith("MPI_T_")

    @property
    def errors(self) -> bool:
        """Whether what it returns is an error code."""
        return self.returns == "int" and not self.name.endswith("_toint")

    @cached_property
    def family(self) -> str:
        bare = self.plain.removeprefix("MPI_")
        for family, _, pattern in FAMILIES:
            for case in (bare, bare[0].lower() + bare[1:]):
                if re.fullmatch(pattern, case):
                    return family
        raise AssertionError(bare)

    def prototype(self, prefix: str = "") -> str:
        params = ", ".join(p.c.replace(" ", GLUE) for p in self.params) or "void"
        space = "" if self.returns.endswith("*") else " "
        return f"{self.returns}{space}{prefix}{self.name}({params})"


@dataclass(frozen=True)
class Callback:
    """A function type."""

    name: str
    returns: str
    params: tuple[Param, ...]

    @property
    def typedef(self) -> str:
        return f"typedef {self.returns} ({self.name})({', '.join(p.c.replace(' ', GLUE) for p in self.params)});"


def load() -> tuple[list[Function], list[Callback]]:
    """All functions, in the ABI list's order, and all callbacks, by name."""
    pympistandard.use_api_version(1, force_bundled=True)
    described: dict[str, Function] = {}
    for symbol in _values(pympistandard.PROCEDURES):
        if symbol._parseset["attributes"]["c_expressible"]:
            for express in _forms(symbol):
                described[express.name] = Function(express.name, express.return_type, _params(express))
    functions = []
    for name in (DATA / "mpi5-abi-functions.txt").read_text().split():
        source = described[SAME_AS.get(name, name)]
        functions.append(Function(name, source.returns, source.params))
    callbacks = [
        Callback(express.name, express.return_type, _params(express))
        for symbol in _values(pympistandard.CALLBACKS)
        for express in _forms(symbol)
    ]
    return functions, sorted(callbacks, key=lambda c: c.name)


def same_but_for_counts(plain: Function, large: Function) -> tuple[Param, ...] | None:
    """The parameters of both, where they differ in the types of counts alone: `Int` is `int` or `MPI_Count`, `Displ` is
    `int` or `MPI_Aint`, `Offset` is `MPI_Aint` or `MPI_Count`."""
    names = {("int", "MPI_Count"): "Int", ("int", "MPI_Aint"): "Displ", ("MPI_Aint", "MPI_Count"): "Offset"}
    if len(plain.params) != len(large.params):
        return None
    params = []
    for own, other in zip(plain.params, large.params):
        base = own.base if own.base == other.base else names.get((own.base, other.base))
        if base is None or replace(own, base=base) != replace(other, base=base, kind=own.kind, length=own.length) or other.kind == "POLYFUNCTION":
            return None
        params.append(replace(own, base=base))
    return tuple(params)


# Calls with an array of datatypes, one for each process.
ALL_TO_ALL = re.compile(r"MPI_(I?(?P<neighbor>neighbor_)?alltoallw(_init)?)(_c)?", re.IGNORECASE)


def array_length(function: Function, param: Param) -> str:
    """The length of an array, as a front end computes it: the parameter that says it, the one of the array of requests, or the number of
    partners."""
    if param.length or not param.array:
        return param.length
    if (found := ALL_TO_ALL.fullmatch(function.name)) and param.kind == "DATATYPE":
        return f"neighbors(comm).{0 if param.name == 'sendtypes' else 1}" if found["neighbor"] else "partners(comm)"
    return next((p.length for p in function.params if p.kind == "REQUEST" and p.array), "")


def uses_of_types(words: set[str]) -> list[str]:
    """What a front end's file of functions imports for the types of C among these words."""
    ffi = sorted(words & {"c_char", "c_int", "c_void"} | {"c_int"})
    lines = [f"use std::ffi::{{{', '.join(ffi)}}};\n"]
    if types := sorted(words & {"MPI_Aint", "MPI_Count", "MPI_Offset"}):
        lines.append(f"use mica_front_end::types::{{{', '.join(types)}}};\n")
    return lines


def wrap(text: str) -> list[str]:
    """The lines of a text within a macro call."""
    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="        ", break_long_words=False)


def wrapped(names: str, signature: str) -> list[str]:
    """The lines of a function's name and parameters; those of several functions have the names first."""
    return [*wrap(names), *wrap(signature)] if ";" in names else wrap(names + signature)


def together(calls: list) -> list:
    """The macro calls of functions that differ in nothing but their names made one, where the first stands: each is macro, names,
    signature, text, or a text that is ready."""
    found: dict = {}
    for call in calls:
        key = call if isinstance(call, str) else (call[0], *call[2:])
        found.setdefault(key, []).append(call)
    return [
        calls[0] if len(calls) == 1 else (calls[0][0], "; ".join(call[1] for call in calls), *calls[0][2:])
        for calls in found.values()
    ]


def paragraphs(texts: list[str]) -> str:
    """The texts one below the other, with an empty line beside each of several lines."""
    out = ""
    for before, text in zip([""] + texts, texts):
        out += ("\n\n" if "\n" in before + text else "\n") + text
    return out.strip("\n")


@dataclass(frozen=True)
class CollectiveForms:
    """A collective call in its three forms, each for `int` and for `MPI_Count`, which have the same first parameters."""

    name: str
    """In lower case, without `mpi_`."""
    params: tuple[Param, ...]
    forms: tuple[tuple[Function, Function], ...]
    """Blocking, non-blocking (with a request), persistent (with hints and a request)."""

    @property
    def functions(self) -> list[Function]:
        return [function for form in self.forms for function in form]


def collective_forms(functions: list[Function]) -> dict[str, CollectiveForms]:
    """The collective calls that can be described once, by the names of their functions."""
    named = {f.name: f for f in functions}
    found: dict[str, CollectiveForms] = {}
    for blocking in functions:
        bare = blocking.name.removeprefix("MPI_")
        names = [bare, f"I{bare[0].lower()}{bare[1:]}", f"{bare}_init"]
        forms = [(named.get(f"MPI_{name}"), named.get(f"MPI_{name}_c")) for name in names]
        if any(function is None for form in forms for function in form):
            continue
        params = [same_but_for_counts(*form) for form in forms]
        own = len(blocking.params)
        if None in params or any(p[:own] != params[0] for p in params):
            continue
        if [tuple(p.name for p in ps[own:]) for ps in params] != [(), ("request",), ("info", "request")]:
            continue
        call = CollectiveForms(bare.lower(), params[0], tuple(forms))
        found |= {function.name: call for function in call.functions}
    return found


def constants(table: str = "mpi5-abi-constants.tsv") -> list[tuple[str, int]]:
    """Names and values of an ABI's constants, in the table's order (sizes and offsets included)."""
    rows = []
    for line in (DATA / table).read_text().splitlines():
        if line and not line.startswith("#"):
            name, value, _ = line.split("\t")
            rows.append((name, int(value)))
    return rows


def _values(storage):
    return [storage[key] for key in storage]


def _forms(symbol):
    yield symbol.express.iso_c
    if symbol.has_embiggenment():
        yield symbol.express.embiggen.iso_c


def _params(express) -> tuple[Param, ...]:
    return tuple(
        Param(
            name=p.name,
            base=p.base_type or "",
            const=bool(p.constant),
            pointers=_pointers(express.name, p),
            array=p.array,
            kind=p._parseset["kind"],
            direction=p._parseset["param_direction"],
            large_only=p._parseset["large_only"],
            length=_length(p._parseset["length"]),
            listed=_listed(p._parseset),
        )
        for p in express.parameters
    )


def _listed(parseset) -> Listed:
    return Listed(parseset["lis_direction"].upper(), parseset["desc"], parseset["root_only"])


def _length(said) -> str:
    # Of an array of triplets the first.
    first = said[0] if isinstance(said, list) and said else said
    return first if isinstance(first, str) and first.isidentifier() else ""


def _pointers(function: str, param) -> int:
    if "CB_FUNCTION" in param._parseset["kind"]:
        return 1
    return POINTERS.get((function, param.name), param.pointer_level)
