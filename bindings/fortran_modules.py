"""The sources of Fortran's modules and of `mpif.h` (`include/fortran`).

`mpi_f08` and `mpi` declare functions of `libmpifort_abi.so.1`, whose names crates/fortran/src/export.rs explains. They define
no more than a compiler must know for itself: types, constants, comparisons of handles.

Declarations come from the Forum's description, values from `data/mpi5-abi-constants.tsv`.
"""

from __future__ import annotations

import re
import textwrap

import api
import constants
import fortran
import pympistandard
from api import Function
from fortran import Form

# Callbacks that MPI defines: Fortran calls them by these names, or passes them on.
PREDEFINED = {
    "MPI_Comm_copy_attr_function": ("MPI_COMM_NULL_COPY_FN", "MPI_COMM_DUP_FN"),
    "MPI_Comm_delete_attr_function": ("MPI_COMM_NULL_DELETE_FN",),
    "MPI_Type_copy_attr_function": ("MPI_TYPE_NULL_COPY_FN", "MPI_TYPE_DUP_FN"),
    "MPI_Type_delete_attr_function": ("MPI_TYPE_NULL_DELETE_FN",),
    "MPI_Win_copy_attr_function": ("MPI_WIN_NULL_COPY_FN", "MPI_WIN_DUP_FN"),
    "MPI_Win_delete_attr_function": ("MPI_WIN_NULL_DELETE_FN",),
    "MPI_Datarep_conversion_function": ("MPI_CONVERSION_FN_NULL",),
    "MPI_Datarep_conversion_function_c": ("MPI_CONVERSION_FN_NULL_C",),
}
# Those of functions that MPI has deprecated, which mpi_f08 lacks.
DEPRECATED_CALLBACKS = ("MPI_NULL_COPY_FN", "MPI_DUP_FN", "MPI_NULL_DELETE_FN")

# The block of variables whose addresses stand for something: crates/fortran/src/sentinel.rs knows their order, and that they are 24
# words. Name, type in mpi_f08, type in the others, dimensions there.
SENTINELS = (
    ("MPI_BOTTOM", "integer", "INTEGER", ""),
    ("MPI_IN_PLACE", "integer", "INTEGER", ""),
    ("MPI_BUFFER_AUTOMATIC", "integer", "INTEGER", ""),
    ("MPI_UNWEIGHTED", "integer", "INTEGER", "(1)"),
    ("MPI_WEIGHTS_EMPTY", "integer", "INTEGER", "(1)"),
    ("MPI_ERRCODES_IGNORE", "integer", "INTEGER", "(1)"),
    ("MPI_STATUS_IGNORE", "type(MPI_Status)", "INTEGER", "(MPI_STATUS_SIZE)"),
    ("MPI_STATUSES_IGNORE", "type(MPI_Status)", "INTEGER", "(MPI_STATUS_SIZE,1)"),
    ("MPI_ARGV_NULL", "character(len=4)", "CHARACTER*4", "(1)"),
    ("MPI_ARGVS_NULL", "character(len=4)", "CHARACTER*4", "(1,1)"),
)

# Constants of Fortran alone.
KINDS = (("MPI_ADDRESS_KIND", 8), ("MPI_COUNT_KIND", 8), ("MPI_INTEGER_KIND", 4), ("MPI_OFFSET_KIND", 8))
STATUS = (("MPI_STATUS_SIZE", 8), ("MPI_SOURCE", 1), ("MPI_TAG", 2), ("MPI_ERROR", 3))


def files(functions: list[Function], note: str) -> dict[str, str]:
    """The files of `include/fortran`."""
    all_forms = fortran.forms(functions)
    return {"mpi_f08.f90": _f08(all_forms, note), "mpi.f90": _f90(all_forms, note), "mpif.h": _header(note)}


def _constants() -> list[tuple[str, str, str]]:
    """Type in mpi_f08, name and value of each constant of Fortran."""
    handles = set(fortran.HANDLES.values())
    found = []
    for section in constants.load():
        if section.title.startswith(("Tools", "Fortran statuses")):
            continue
        for name, value, _ in section.constants:
            if section.rust_type == "u32" and section.c_type in handles:
                found.append((section.c_type, name, str(value)))
            elif section.rust_type == "i32":
                found.append(("integer", name, str(value)))
            elif section.title.startswith("Lengths"):
                # Fortran's texts need no room for a zero.
                found.append(("integer", name, str(value - 1)))
            elif section.title == "Space":
                found.append(("integer", name, str(value)))
            elif section.c_type == "MPI_Offset":
                found.append(("integer(kind=MPI_OFFSET_KIND)", name, str(value)))
    return found


# True where interfaces describe sections and say what is asynchronous.
LOGICALS = ("MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING")


def _wrap(line: str, indent: int) -> list[str]:
    """A statement of free form, in lines of at most 100 columns."""
    parts = textwrap.wrap(line, 96 - indent, break_long_words=False, break_on_hyphens=False)
    return [" " * (indent if i == 0 else indent + 4) + part + (" &" if i + 1 < len(parts) else "") for i, part in enumerate(parts)]


def _common(style: str) -> list[str]:
    """The block of variables that stand for something."""
    lines = []
    for name, f08, f90, dims in SENTINELS:
        if style == "f08":
            dims = {"(MPI_STATUS_SIZE)": "", "(MPI_STATUS_SIZE,1)": "(1)"}.get(dims, dims)
        lines.append((f08 if style == "f08" else f90, name + dims))
    names = [name for name, *_ in SENTINELS]
    return [*(f"{kind} :: {name}" for kind, name in lines), f"common /mica_fortran/ {', '.join(names)}"]


# ---------------------------------------------------------------------------------------------------------------------------
# mpi_f08


def _f08(all_forms: list[Form], note: str) -> str:
    out = [
        "! The module mpi_f08 (MPI 5.0, 19.1), for every compiler that knows Fortran 2018's descriptors.",
        f"! {note}",
        "",
        *_types(),
        "module mpi_f08",
        "  use, intrinsic :: iso_c_binding, only: c_ptr",
        "  use mica_fortran_types",
        "  implicit none",
        "  private :: c_ptr",
        "",
    ]
    for kind, name, value in _constants():
        shown = f"{kind}({value})" if kind.startswith("MPI_") else value
        kind = f"type({kind})" if kind.startswith("MPI_") else kind
        out.append(f"  {kind}, parameter :: {name} = {shown}")
    out += [f"  logical, parameter :: {name} = .true." for name in LOGICALS]
    out += ["", *(line for statement in _common("f08") for line in _wrap(statement, 2)), ""]
    out += _abstract_interfaces()
    generics: dict[str, list[Form]] = {}
    for form in all_forms:
        if form.f08 is not None:
            generics.setdefault(form.generic, []).append(form)
    for prefix in ("", "P"):
        for generic, members in generics.items():
            if members[0].returns:
                out += ["  interface", *_function(members[0].f08, prefix), "  end interface"]
                continue
            out.append(f"  interface {prefix}{generic}")
            for form in members:
                out += _subroutine_f08(form, prefix)
            out.append("  end interface")
    handles = sorted(set(fortran.HANDLES.values()))
    for operator, _ in OPERATORS:
        out.append(f"  interface operator({operator})")
        out += [f"    module procedure {_comparison(handle, operator)}" for handle in handles]
        out.append("  end interface")
    out += ["  private :: " + _comparison(handle, operator) for handle in handles for operator, _ in OPERATORS]
    out += ["", "contains", ""]
    for handle in handles:
        for operator, _ in OPERATORS:
            name = _comparison(handle, operator)
            out += [
                f"  elemental logical function {name}(a, b)",
                f"    type({handle}), intent(in) :: a, b",
                f"    {name} = a%MPI_VAL {operator} b%MPI_VAL",
                "  end function",
            ]
    out.append("end module")
    return "\n".join(out) + "\n"


OPERATORS = (("==", "same"), ("/=", "other"))


def _comparison(handle: str, operator: str) -> str:
    return f"{dict(OPERATORS)[operator]}_{handle.removeprefix('MPI_').lower()}"


def _types() -> list[str]:
    """The module of kinds and types, which both modules have."""
    out = ["module mica_fortran_types", "  implicit none"]
    out += [f"  integer, parameter :: {name} = {value}" for name, value in (*KINDS, *STATUS)]
    for handle in sorted(set(fortran.HANDLES.values())):
        out += [f"  type, bind(C) :: {handle}", "    integer :: MPI_VAL", "  end type"]
    out += [
        "  type, bind(C) :: MPI_Status",
        "    integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR",
        "    integer, private :: MPI_internal(5)",
        "  end type",
        "end module",
        "",
    ]
    return out


def _declaration(param, in_c: bool) -> str:
    """A parameter in mpi_f08. A text is as long as the program's variable."""
    descriptor = re.sub(r"CHARACTER\(LEN=\w+\)", "CHARACTER(LEN=*)", param.descriptor)
    if in_c and "CHARACTER" in descriptor:
        # A descriptor has the length, for which an interface of C has no other way.
        descriptor = "TYPE(*), DIMENSION(..), INTENT(IN)"
    return f"{descriptor} :: {param.name}{param.name_length}"


def _declarations(params, in_c: bool = False) -> list[str]:
    # Lengths before the arrays that have them.
    ordered = sorted(params, key=lambda p: bool(p.name_length))
    return [_declaration(p, in_c) for p in ordered]


def _procedure(kind: str, name: str, params, declarations: list[str], tail: str = "") -> list[str]:
    """The interface of a subroutine or a function."""
    return [
        *_wrap(f"{kind} {name}({', '.join(p.name for p in params)}){tail}", 4),
        "      import",
        *(line for statement in declarations for line in _wrap(statement, 6)),
        f"    end {kind}",
    ]


def _subroutine_f08(form: Form, prefix: str) -> list[str]:
    name = f"{prefix}{form.name}_f08"
    tail = ""
    if form.has_choice:
        name += "ts"
        tail = f' bind(C, name="{name}")'
    params = form.f08.parameters
    return _procedure("subroutine", name, params, _declarations(params, form.has_choice), tail)


def _function(express, prefix: str) -> list[str]:
    name = prefix + express.name
    params = express.parameters
    return _procedure("function", name, params, [*_declarations(params), f"{express.return_type} :: {name}"])


def _callbacks():
    """Name and description of each callback of mpi_f08."""
    for key in pympistandard.CALLBACKS:
        symbol = pympistandard.CALLBACKS[key]
        if symbol._parseset["attributes"]["f08_expressible"]:
            yield symbol.express.f08
            if symbol.has_embiggenment():
                yield symbol.express.embiggen.f08


def _abstract_interfaces() -> list[str]:
    out = ["  abstract interface"]
    for express in _callbacks():
        out += _callback(express.name, express)
    out += ["  end interface", "", "  interface"]
    for express in _callbacks():
        for name in PREDEFINED.get(express.name, ()):
            out += _callback(name, express)
    return [*out, "  end interface", ""]


def _callback(name: str, express) -> list[str]:
    return _procedure("subroutine", name, express.parameters, _declarations(express.parameters))


# ---------------------------------------------------------------------------------------------------------------------------
# mpi


def _f90(all_forms: list[Form], note: str) -> str:
    out = [
        "! The module mpi (MPI 5.0, 19.1), for every compiler that knows Fortran 2018's descriptors.",
        f"! {note}",
        "",
        "module mpi",
        "  use, intrinsic :: iso_c_binding, only: c_ptr",
        "  use mica_fortran_types",
        "  implicit none",
        "  private :: c_ptr",
        "",
    ]
    for kind, name, value in _constants():
        kind = "integer" if kind.startswith("MPI_") else kind
        out.append(f"  {kind}, parameter :: {name} = {value}")
    out += [f"  logical, parameter :: {name} = .true." for name in LOGICALS]
    out += ["", *(line for statement in _common("f90") for line in _wrap(statement, 2)), ""]
    out += [f"  external :: {name}" for names in PREDEFINED.values() for name in names if not name.endswith("_C")]
    out += [f"  external :: {name}" for name in DEPRECATED_CALLBACKS]
    for prefix in ("", "P"):
        for form in all_forms:
            if form.f90 is None:
                continue
            if form.returns:
                out += ["  interface", *_function_f90(form, prefix), "  end interface"]
            elif form.name in fortran.WITH_C_PTR:
                out += [f"  interface {prefix}{form.name}", *_subroutine_f90(form, prefix, ""), *_subroutine_f90(form, prefix, "_CPTR"), "  end interface"]
            else:
                out += ["  interface", *_subroutine_f90(form, prefix, ""), "  end interface"]
    return "\n".join([*out, "end module"]) + "\n"


def _declaration_f90(param, in_c: bool, with_c_ptr: bool) -> str:
    kind, name = param.type, param.name + param.dimensions
    if kind == "<type>" or in_c and "CHARACTER" in kind:
        return f"TYPE(*), DIMENSION(..) :: {param.name}"
    if kind == "EXTERNAL":
        return f"EXTERNAL :: {param.name}"
    if with_c_ptr and param.name == "BASEPTR":
        return f"TYPE(C_PTR) :: {param.name}"
    return f"{kind.replace('CHARACTER*(*)', 'CHARACTER(LEN=*)')} :: {name}"


def _declarations_f90(params, in_c: bool = False, with_c_ptr: bool = False) -> list[str]:
    ordered = sorted(params, key=lambda p: bool(p.dimensions))
    return [_declaration_f90(p, in_c, with_c_ptr) for p in ordered]


def _subroutine_f90(form: Form, prefix: str, suffix: str) -> list[str]:
    params = form.f90.parameters
    name, tail = f"{prefix}{form.name}{suffix}", ""
    # Of some the type is of no choice buffer in mpi_f08.
    in_c = any(p.type == "<type>" for p in params)
    if in_c:
        tail = f' bind(C, name="{name}_fts")'
    return _procedure("subroutine", name, params, _declarations_f90(params, in_c, bool(suffix)), tail)


def _function_f90(form: Form, prefix: str) -> list[str]:
    name, params = prefix + form.name, form.f90.parameters
    return _procedure("function", name, params, [*_declarations_f90(params), f"{form.returns} :: {name}"])


# ---------------------------------------------------------------------------------------------------------------------------
# mpif.h


def _header(note: str) -> str:
    """mpif.h, which must be read in fixed and in free form: statements from column 7 to 72, none of them continued."""
    out = [
        "! mpif.h (MPI 5.0, 19.1). It has no interfaces: a section of an array that is no contiguous one",
        "! arrives as a copy, which is gone when the call returns. Use the module mpi_f08 for such.",
        f"! {note}",
    ]
    for name, value in (*KINDS, *STATUS):
        out += [f"INTEGER {name}", f"PARAMETER ({name}={value})"]
    for kind, name, value in _constants():
        kind = "INTEGER(KIND=8)" if "KIND" in kind else "INTEGER"
        out += [f"{kind} {name}", f"PARAMETER ({name}={value})"]
    for name in LOGICALS:
        out += [f"LOGICAL {name}", f"PARAMETER ({name}=.FALSE.)"]
    for name, _, kind, dims in SENTINELS:
        out.append(f"{kind} {name}{dims}")
        out.append(f"COMMON /MICA_FORTRAN/ {name}")
    for names in (*PREDEFINED.values(), DEPRECATED_CALLBACKS):
        out += [f"EXTERNAL {name}" for name in names if not name.endswith("_C")]
    for prefix in ("", "P"):
        for kind, name in FUNCTIONS:
            out += [f"{kind} {prefix}{name}", f"EXTERNAL {prefix}{name}"]
    lines = [line if line.startswith("!") else f"      {line}" for line in out]
    if long := [line for line in lines if len(line) > 72 and not line.startswith("!")]:
        raise SystemExit(f"mpif.h: too long for fixed form: {long}")
    return "\n".join(lines) + "\n"


FUNCTIONS = (
    ("REAL*8", "MPI_WTIME"),
    ("REAL*8", "MPI_WTICK"),
    ("INTEGER(KIND=8)", "MPI_AINT_ADD"),
    ("INTEGER(KIND=8)", "MPI_AINT_DIFF"),
)
