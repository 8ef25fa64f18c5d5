"""The front end of Fortran (`crates/fortran/src/generated`): the functions, each parameter by its kind, and constants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import api
import mpich
import pympistandard
from api import Function, Param

# Kinds of the Forum's description that are handles of Fortran's INTEGER.
HANDLES = {
    "COMMUNICATOR": "MPI_Comm",
    "DATATYPE": "MPI_Datatype",
    "ERRHANDLER": "MPI_Errhandler",
    "FILE": "MPI_File",
    "GROUP": "MPI_Group",
    "INFO": "MPI_Info",
    "MESSAGE": "MPI_Message",
    "OPERATION": "MPI_Op",
    "REQUEST": "MPI_Request",
    "SESSION": "MPI_Session",
    "WINDOW": "MPI_Win",
}

# Buffers that hold a block for each of several processes: no datatype of one element can stand for a section.
SEVERAL_BLOCKS = re.compile(
    r"MPI_I?(?:(?:neighbor_)?(?:(?P<one>(?:all)?gather)(?P<ov>v?)|(?P<all>alltoall)[vw]?)|(?P<scatter>scatter)v?)(?:_init)?(?:_c)?", re.IGNORECASE
)
# Functions that `use mpi` knows by a second specific name, for a base address that is a TYPE(C_PTR).
WITH_C_PTR = ("MPI_Alloc_mem", "MPI_Win_allocate", "MPI_Win_allocate_shared", "MPI_Win_shared_query")

PERSISTENT = re.compile(r"MPI_\w+_init(_c)?")

MPICH_TABLE = "mpich-abi-constants.tsv"

# Constructors of datatypes.
COMBINERS = (
    "NAMED", "DUP", "CONTIGUOUS", "VECTOR", "HVECTOR", "INDEXED", "HINDEXED", "INDEXED_BLOCK", "HINDEXED_BLOCK", "STRUCT", "SUBARRAY", "DARRAY",
    "F90_REAL", "F90_COMPLEX", "F90_INTEGER", "RESIZED", "VALUE_INDEX",
)
# Values that crates/fortran needs: name in Rust, type.
RUST_CONSTANTS = (
    ("SUCCESS", "c_int"), ("ERR_BUFFER", "c_int"), ("ERR_COUNT", "c_int"), ("ERR_TYPE", "c_int"), ("ERR_OTHER", "c_int"),
    ("ERR_NO_MEM", "c_int"), ("UNDEFINED", "c_int"),
    *((f"COMBINER_{name}", "c_int") for name in COMBINERS), ("ORDER_C", "c_int"),
    ("DISTRIBUTE_BLOCK", "c_int"), ("DISTRIBUTE_CYCLIC", "c_int"), ("DISTRIBUTE_DFLT_DARG", "c_int"),
    ("TAG_UB", "c_int"), ("IO", "c_int"), ("HOST", "c_int"), ("WTIME_IS_GLOBAL", "c_int"), ("APPNUM", "c_int"), ("LASTUSEDCODE", "c_int"),
    ("UNIVERSE_SIZE", "c_int"), ("WIN_SIZE", "c_int"), ("WIN_DISP_UNIT", "c_int"), ("WIN_CREATE_FLAVOR", "c_int"),
    ("WIN_MODEL", "c_int"),
    ("IN_PLACE", "usize"), ("BUFFER_AUTOMATIC", "usize"), ("UNWEIGHTED", "usize"), ("WEIGHTS_EMPTY", "usize"),
    *((name, "Word") for name in (
        "COMM_SELF", "DATATYPE_NULL", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE", "REAL", "INTEGER",
        "DOUBLE_PRECISION", "FLOAT_INT", "DOUBLE_INT", "LONG_INT", "SHORT_INT", "LONG_DOUBLE_INT", "2INT", "2REAL", "2INTEGER",
        "2DOUBLE_PRECISION",
    )),
)
# Those of MPICH's ABI alone.
MPICH_CONSTANTS = (("STATUS_IGNORE", "usize"), ("COMM_NULL", "Word"), ("CART", "c_int"), ("GRAPH", "c_int"), ("DIST_GRAPH", "c_int"))
# Keys that MPI has, whose numbers differ in C and Fortran of MPICH's ABI.
KEYVALS = (
    "TAG_UB", "IO", "HOST", "WTIME_IS_GLOBAL", "APPNUM", "LASTUSEDCODE", "UNIVERSE_SIZE", "WIN_BASE", "WIN_SIZE", "WIN_DISP_UNIT",
    "WIN_CREATE_FLAVOR", "WIN_MODEL",
)
# Addresses that are the same in Mica's libraries of both ABIs, since its libmpi.so.12 takes them from the other.
OF_THE_STANDARD = ("UNWEIGHTED", "WEIGHTS_EMPTY")


@dataclass(frozen=True)
class Form:
    """A function of Fortran: MPI_X, or MPI_X_c for large counts."""

    c: Function | None
    """The function of C, if there is one."""
    name: str
    """Its specific name, MPI_X or MPI_X_c."""
    generic: str
    """The name by which mpi_f08 knows it."""
    f08: object
    f90: object
    """As the Forum describes them; either may be missing."""

    @property
    def large(self) -> bool:
        return self.name.endswith("_c") and self.f90 is None

    @property
    def params(self) -> list:
        """The parameters without `ierror`."""
        params = list((self.f08 or self.f90).parameters)
        return [p for p in params if p.name.lower() != "ierror"]

    @cached_property
    def has_choice(self) -> bool:
        return any(p.kind.name == "BUFFER" for p in self.params)

    @property
    def returns(self) -> str | None:
        return (self.f08 or self.f90).return_type

    @property
    def texts(self) -> list[str]:
        return [p.name.lower() for p in self.params if "CHARACTER" in p.type]


def forms(functions: list[Function]) -> list[Form]:
    """All functions of Fortran, in the order of the ABI's list, then those that C lacks."""
    named = {f.name: f for f in functions}
    found = []
    described = {symbol.name.lower(): symbol for symbol in (pympistandard.PROCEDURES[key] for key in pympistandard.PROCEDURES)}
    order = [f.name for f in functions if not f.large] + ["MPI_F_sync_reg", "MPI_Sizeof", "MPI_Status_f2f08", "MPI_Status_f082f"]
    for name in order:
        symbol = described.get(name.lower())
        if symbol is None:
            continue
        attributes = symbol._parseset["attributes"]
        f08 = symbol.express.f08 if attributes["f08_expressible"] else None
        f90 = symbol.express.f90 if attributes["f90_expressible"] else None
        if f08 is None and f90 is None:
            continue
        found.append(Form(named.get(name), name, name, f08, f90))
        if f08 is not None and symbol.has_embiggenment() and f"{name}_c" in named:
            large = symbol.express.embiggen.f08
            generic = large.name if large.name != f08.name else name
            if generic == name and _types(large) == _types(f08):
                # An address is as long as a count: one function is both.
                continue
            found.append(Form(named[f"{name}_c"], f"{name}_c", generic, large, None))
    return found


def _types(express) -> list[str]:
    """What tells specific functions of one generic name apart."""
    return [re.sub("MPI_(ADDRESS|COUNT|OFFSET)_KIND", "8", p.type) for p in express.parameters]


def by_hand(source: Path, candidates: list[str]) -> set[str]:
    """The functions that the crate defines without the generator."""
    paths = [*sorted(source.glob("*.rs")), source / "standard/by_hand.rs"]
    text = "".join(path.read_text() for path in paths)
    lower = {f"mpi_{name}" for name in re.findall(r'"(\w+)"\s+"[A-Z0-9_]+"', text)} | {f"mpi_{name}_c" for name in re.findall(r'large "(\w+)"', text)}
    found = re.findall(r"\b(MPI_\w+_c) \"|\b(MPI_\w+_c),|\"(MPI_\w+)_fts\"", text)
    lower |= {name.lower() for names in found for name in names if name}
    return {name for name in candidates if name.lower() in lower}


def files(functions: list[Function], source: Path, note: str) -> dict[str, str]:
    """The files of `crates/fortran/src/generated`."""
    all_forms = forms(functions)
    own = by_hand(source, [f.name for f in all_forms])
    wanted = [f for f in all_forms if f.name not in own]
    if missing := [f.name for f in wanted if f.c is None]:
        raise SystemExit(f"fortran.py: no function of C for {', '.join(missing)}: write it by hand")
    texts = {"standard_constants.rs": _standard_constants(note), "mpich_constants.rs": _mpich_constants(note)}
    texts["mpich_handles.rs"] = _mpich_handles(note)
    families = []
    for family, chapter, _ in api.FAMILIES:
        members = [f for f in wanted if f.c.family == family]
        if not members:
            continue
        families.append(family)
        body = api.paragraphs([_macro(*call) for call in api.together([_call(f) for f in members])])
        texts[f"{family}.rs"] = f"//! Functions of MPI 5.0, chapter {chapter}.\n//!\n//! {note}\n\n{_uses(body)}\n\n{body}\n"
    by_abi = ["#[cfg(mpich_abi)]\npub mod mpich_constants;", "#[cfg(mpich_abi)]\nmod mpich_handles;",
              "#[cfg(not(mpich_abi))]\npub mod standard_constants;"]
    modules = "\n".join([*(f"mod {family};" for family in sorted(families)), *by_abi])
    texts["mod.rs"] = f"//! The functions, by chapter of the standard, and the constants.\n//!\n//! {note}\n\n{modules}\n"
    return texts


def _call(form: Form) -> tuple[str, str, str]:
    """Macro, name and parameters of a function."""
    lower = form.name.lower().removeprefix("mpi_").removesuffix("_c" if form.large else "")
    texts = form.texts
    params = ", ".join(f"{p.rust_name}: {_kind(form, p)}".replace(" ", api.GLUE) for p in form.c.params)
    trailing = f"; {', '.join(f'{t}_len' for t in texts)}" if texts else ""
    name = f'{form.name} "{lower}"' if form.large else f'{form.name} "{lower}" "{lower.upper()}"'
    if form.name in WITH_C_PTR:
        name += f'; {form.name} "{lower}_cptr" "{lower.upper()}_CPTR"'
    macro = ("choice" if form.has_choice else "forward") + ("_large!" if form.large else "!")
    sections = _sections(form) if form.has_choice else ""
    return macro, name.replace(" ", api.GLUE), f"({params}{trailing}){sections}"


def _macro(name: str, names: str, params: str) -> str:
    line = f"{name} {{ {names}{params} }}"
    if len(line) <= 100 and ";" not in names and "{" not in params:
        return line.replace(api.GLUE, " ")
    signature, _, sections = params.partition("{")
    lines = [f"{name} {{", *api.wrapped(names, signature.strip())]
    if sections:
        lines[-1] += " {"
        lines += [f"        {line};" for line in sections.rstrip("}").strip().rstrip(";").split("; ")] + ["    }"]
    return "\n".join([*lines, "}"]).replace(api.GLUE, " ")


def _uses(body: str) -> str:
    words = set(re.findall(r"\w+", body))
    lines = api.uses_of_types(words)
    lines.append(f"use crate::argument::{{{', '.join(sorted(words & PARAMETERS))}}};")
    macros = [m for m in ("choice", "choice_large", "forward", "forward_large") if re.search(rf"\b{m}!", body)]
    lines.append(f"use crate::export::{{{', '.join(macros)}}};")
    if lengths := sorted(words & {"dimensions", "neighbors", "partners"}):
        lines.append(f"use crate::processes::{{{', '.join(lengths)}}};")
    if texts := sorted(words & {"InInfoText", "InText", "OutText"}):
        lines.append(f"use crate::text::{{{', '.join(texts)}}};")
    return "\n".join(lines)


PARAMETERS = {
    "ChoiceBuffer", "File", "Handle", "Handles", "In", "InLogical", "InLogicals", "InOutFile", "InOutHandle", "OutFile", "OutHandle",
    "OutHandles", "OutLogical", "OutLogicals", "SentinelPlace", "Same", "Status",
}


def _kind(form: Form, param: Param) -> str:
    """The parameter's type, a kind of crates/fortran/src/argument.rs or text.rs, and the length of an array or a text."""
    function = form.c
    if param.callback or param.variadic:
        raise SystemExit(f"fortran.py: {form.name} has a callback and must be written by hand")
    if param.kind not in KNOWN and not re.fullmatch(KNOWN_PATTERN, param.kind):
        raise SystemExit(f"fortran.py: {form.name}: {param.name} is of the unknown kind {param.kind}")
    length = _length(function, param)
    out = param.depth and not param.const and param.direction
    if param.kind == "STATUS":
        return "Status"
    if param.kind in HANDLES:
        if param.array:
            return ("OutHandles" if out == "out" else "Handles") + f"[{length}]"
        word = "File" if param.kind == "FILE" else "Handle"
        if not param.depth:
            return word
        return f"Out{word}" if out == "out" else f"InOut{word}"
    if param.kind == "LOGICAL":
        if param.array:
            return ("OutLogicals" if out == "out" else "InLogicals") + f"[{length}]"
        return "OutLogical" if param.depth else "InLogical"
    if param.kind == "STRING":
        if out == "out":
            return f"OutText[{param.name.lower()}_len]"
        kind = "InInfoText" if form.c.family == "info" else "InText"
        return f"{kind}[{param.name.lower()}_len]"
    if param.kind == "BUFFER":
        return "ChoiceBuffer"
    if param.kind == "WEIGHT":
        return "SentinelPlace<c_int>"
    if param.depth:
        return f"Same<{param.rust}>"
    return f"In<{param.rust}>"


# What passes as it is, a number or an address of numbers.
KNOWN = {
    "ACCESS_MODE", "ALLOC_MEM_NUM_BYTES", "ARRAY_LENGTH", "ARRAY_LENGTH_NNI", "ARRAY_LENGTH_PI", "ASSERT", "COLOR", "COMBINER",
    "COMM_COMPARISON", "COMM_SIZE", "COMM_SIZE_PI", "COORDINATE", "C_BUFFER", "DEGREE", "DIMENSION", "DISPLACEMENT", "DISTRIB_ENUM",
    "DTYPE_DISTRIBUTION", "ERROR_CLASS", "ERROR_CODE", "FILE_DESCRIPTOR", "GENERIC_DTYPE_COUNT", "GENERIC_DTYPE_INT", "GROUP_COMPARISON",
    "INDEX", "INFO_VALUE_LENGTH", "KEY", "KEYVAL", "KEY_INDEX", "LOCATION_SMALL", "LOCK_TYPE", "LOGICAL", "LOGICAL_VOID", "MATH",
    "NUM_BYTES", "NUM_BYTES_SMALL", "NUM_DIMS", "OFFSET", "ORDER", "PARTITION", "PROCESS_GRID_SIZE", "PROFILE_LEVEL", "RANK", "RANK_NNI",
    "RMA_DISPLACEMENT_NNI", "SPLIT_TYPE", "STATUS", "STRING", "STRING_LENGTH", "TAG", "THREAD_LEVEL", "TOPOLOGY_TYPE", "TYPECLASS",
    "TYPECLASS_SIZE", "UPDATE_MODE", "VERSION", "WEIGHT", "WINDOW_SIZE", "WIN_ATTACH_SIZE", "XFER_NUM_ELEM", "XFER_NUM_ELEM_NNI", "BUFFER",
    *HANDLES,
}
KNOWN_PATTERN = r"POLY(?!FUNCTION)\w+"


def _length(function: Function, param: Param) -> str:
    """The length of an array; of the dimensions of a grid no parameter says it."""
    is_grid = function.name == "MPI_Cart_sub" and param.array
    return "dimensions(comm)" if is_grid else api.array_length(function, param)


def _sections(form: Form) -> str:
    """What becomes of each choice buffer that is no contiguous section (crates/fortran/src/choice.rs)."""
    params = form.c.params
    reduces = any(p.kind == "OPERATION" for p in params) and form.c.family == "collectives"
    is_partitioned = PARTITIONED.fullmatch(form.name)
    typed, copied, contiguous, location = [], [], [], []
    for i, param in enumerate(params):
        if param.kind != "BUFFER":
            continue
        name = param.rust_name
        following = params[i + 1 : i + 3]
        has_elements = len(following) == 2 and following[1].kind == "DATATYPE" and not following[0].depth and not following[1].depth
        if form.name == "MPI_Get_address" or form.name.endswith("_end") or form.name in ONE_ELEMENT:
            location.append(f"location {name}")
        elif reduces or is_partitioned or _has_several_blocks(form.name, param.name) or form.name.removesuffix("_c") in ONE_BLOCK_OF_BYTES:
            copied.append(f"copied {name}({'Reads' if param.const else 'Updates'})")
        elif has_elements:
            typed.append(f"typed {name}({following[0].rust_name}, {following[1].rust_name})")
        else:
            contiguous.append(f"contiguous {name}")
    request = next((p.rust_name for p in params if p.kind == "REQUEST" and p.direction == "out"), None)
    texts = [f"text {text} {text}_len" for text in form.texts]
    lines = typed + copied + contiguous + location + texts
    if is_partitioned:
        lines.append(f"partitioned {request}(count, datatype)")
    elif request and copied:
        lines.append(f"request {request} {'Persistent' if PERSISTENT.fullmatch(form.name) else 'Once'}")
    return " { " + "; ".join(lines) + "; }"


PARTITIONED = re.compile(r"MPI_P(send|recv)_init(_c)?")
# A number of bytes describes their buffers.
ONE_BLOCK_OF_BYTES = {"MPI_Pack", "MPI_Pack_external", "MPI_Unpack", "MPI_Unpack_external"}
# Their buffers are one element, which lies at the address.
ONE_ELEMENT = {"MPI_Fetch_and_op", "MPI_Compare_and_swap"}


def _has_several_blocks(function: str, buffer: str) -> bool:
    found = SEVERAL_BLOCKS.fullmatch(function)
    if not found:
        return False
    if found["all"]:
        return True
    return buffer == ("sendbuf" if found["scatter"] else "recvbuf")


def _rust_name(name: str) -> str:
    """A name cannot start with a digit."""
    return f"TWO_{name[1:]}S" if name[0] == "2" else name


def _constants(abi: str, values: dict[str, int], wanted: tuple, note: str) -> list[str]:
    """The lines of an ABI's constants."""
    out = [f"//! Constants of {abi}.", "//!", f"//! {note}", "", "use std::ffi::c_int;", "", "use crate::abi::Word;", ""]
    for name, kind in wanted:
        value = values[f"MPI_{name}"]
        value = value % 2**64 if kind == "usize" else value
        out += [f"/// `MPI_{name}`.", f"pub const {_rust_name(name)}: {kind} = {_signed(value) if kind == 'Word' else value};"]
    return out


def _signed(handle: int) -> int:
    """A handle of 32 bits as an integer of C."""
    return handle - 2**32 if handle >= 2**31 else handle


def _standard_constants(note: str) -> str:
    return "\n".join(_constants("the standard ABI", dict(api.constants()), RUST_CONSTANTS, note)) + "\n"


def _mpich_constants(note: str) -> str:
    values = dict(api.constants(MPICH_TABLE))
    values |= {name: value for name, value in api.constants() if name.removeprefix("MPI_") in OF_THE_STANDARD}
    out = _constants("MPICH's ABI", values, RUST_CONSTANTS + MPICH_CONSTANTS, note)
    keyvals = ", ".join(str(values[f"MPI_{name}"]) for name in KEYVALS)
    out += ["/// Keys of attributes that MPI has.", f"pub const KEYVALS: [c_int; {len(KEYVALS)}] = [{keyvals}];"]
    datatypes = sorted({_signed(value) for name, value in _mpich_handles_of("DATATYPE", values)})
    listed = ", ".join(map(str, datatypes))
    out += ["/// Handles of datatypes that MPI has, in order.", f"pub const DATATYPES: [Word; {len(datatypes)}] = [{listed}];"]
    return "\n".join(out) + "\n"


def _mpich_handles_of(kind: str, values: dict[str, int]) -> list[tuple[str, int]]:
    pattern = mpich.HANDLE_FAMILIES[kind]
    if pattern is None:
        return [(name, value) for name, value in values.items() if name.startswith("MPI") and mpich.is_datatype(value)]
    return [(name, value) for name, value in values.items() if re.fullmatch(pattern, name)]


def _mpich_handles(note: str) -> str:
    """Handles as variables of MPICH's module `mpi_f08_compile_constants`."""
    values = dict(api.constants(MPICH_TABLE))
    rows = [row for kind in mpich.HANDLE_FAMILIES for row in _mpich_handles_of(kind, values)]
    rows += [("MPI_DATATYPE_NULL", values["MPI_DATATYPE_NULL"]), ("MPI_FILE_NULL", 0)]
    lines = [f'    "{name.lower()}" = {_signed(value)};' for name, value in rows if name.startswith("MPI_")]
    head = ["//! The predefined handles as variables of MPICH's module.", "//!", f"//! {note}", ""]
    return "\n".join([*head, "use crate::mpich::modules::link_constants;", "", "link_constants! {", *lines, "}"]) + "\n"
