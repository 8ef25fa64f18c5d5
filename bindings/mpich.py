"""The front end of MPICH's ABI (`crates/mpich/src/generated`): the functions, each parameter by its kind, and the constants of
both ABIs in pairs.

Values come from `data/mpich-abi-constants.tsv` and `data/mpi5-abi-constants.tsv`, the functions from `data/mpich-abi-symbols.txt`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import api
from api import Function, Param

# Kind in the Forum's description -> kind of handle (crates/mpich/src/handle.rs).
HANDLES = {
    "COMMUNICATOR": "Comm",
    "DATATYPE": "MpichDatatype",
    "ERRHANDLER": "Errhandler",
    "FILE": "MpichFile",
    "GROUP": "Group",
    "INFO": "Info",
    "MESSAGE": "Message",
    "OPERATION": "Op",
    "REQUEST": "Request",
    "SESSION": "Session",
    "WINDOW": "Win",
}

# Kind -> kind of integer (crates/mpich/src/value.rs).
VALUES = {
    "ACCESS_MODE": "AccessMode",
    "ASSERT": "Assertion",
    "BIND_TYPE": "Binding",
    "CALLBACK_SAFETY": "CallbackSafety",
    "COMBINER": "Combiner",
    "COMM_COMPARISON": "Comparison",
    "DISTRIB_ENUM": "Distribution",
    "DTYPE_DISTRIBUTION": "DistributionArgument",
    "ERROR_CLASS": "ErrorCode",
    "ERROR_CODE": "ErrorCode",
    "GROUP_COMPARISON": "Comparison",
    "KEYVAL": "Keyval",
    "LOCK_TYPE": "LockType",
    "ORDER": "Order",
    "PVAR_CLASS": "VariableClass",
    "RANK": "Rank",
    "RANK_NNI": "Rank",
    "SOURCE_ORDERING": "SourceOrder",
    "SPLIT_TYPE": "SplitType",
    "TAG": "Tag",
    "THREAD_LEVEL": "ThreadLevel",
    "TOOL_VAR_VERBOSITY": "Verbosity",
    "TOPOLOGY_TYPE": "Topology",
    "TYPECLASS": "TypeClass",
    "UPDATE_MODE": "Seek",
    "VARIABLE_SCOPE": "Scope",
}

# Arrays of ranks have no constants in them but here.
TRANSLATES = "MPI_Group_translate_ranks"

# Families of constants: name in Rust, the names of the constants.
FAMILIES = {
    "ACCESS_MODE": r"MPI_MODE_(?!NO).*",
    "ASSERTION": r"MPI_MODE_NO.*",
    "BINDING": r"MPI_T_BIND_.*",
    "CALLBACK_SAFETY": r"MPI_T_CB_.*",
    "COMBINER": r"MPI_COMBINER_.*",
    "COMPARISON": r"MPI_(IDENT|CONGRUENT|SIMILAR|UNEQUAL)",
    "DISTRIBUTION": r"MPI_DISTRIBUTE_(BLOCK|CYCLIC|NONE)",
    "DISTRIBUTION_ARGUMENT": r"MPI_DISTRIBUTE_DFLT_DARG",
    "ERROR_CODE": r"MPI_SUCCESS|MPI_(T_)?ERR_(?!LASTCODE).*",
    "KEYVAL": r"MPI_KEYVAL_INVALID|MPI_(TAG_UB|IO|HOST|WTIME_IS_GLOBAL|APPNUM|LASTUSEDCODE|UNIVERSE_SIZE)"
    r"|MPI_WIN_(BASE|DISP_UNIT|SIZE|CREATE_FLAVOR|MODEL)",
    "LOCK_TYPE": r"MPI_LOCK_.*",
    "ORDER": r"MPI_ORDER_.*",
    "RANK": r"MPI_(ANY_SOURCE|PROC_NULL|ROOT)",
    "SCOPE": r"MPI_T_SCOPE_.*",
    "SEEK": r"MPI_SEEK_.*",
    "SOURCE_ORDER": r"MPI_T_SOURCE_.*",
    "SPLIT_TYPE": r"MPI_COMM_TYPE_.*",
    "TAG": r"MPI_ANY_TAG",
    "THREAD_LEVEL": r"MPI_THREAD_.*",
    "TOPOLOGY": r"MPI_(GRAPH|CART|DIST_GRAPH)",
    "TYPE_CLASS": r"MPI_TYPECLASS_.*",
    "VARIABLE_CLASS": r"MPI_T_PVAR_CLASS_.*",
    "VERBOSITY": r"MPI_T_VERBOSITY_.*",
    "WINDOW_FLAVOR": r"MPI_WIN_FLAVOR_.*",
    "WINDOW_MODEL": r"MPI_WIN_(SEPARATE|UNIFIED)",
}
HANDLE_FAMILIES = {
    "COMM": r"MPI_COMM_(NULL|WORLD|SELF)",
    "DATATYPE": None,
    "ERRHANDLER": r"MPI_ERRHANDLER_NULL|MPI_ERRORS_.*",
    "GROUP": r"MPI_GROUP_.*",
    "INFO": r"MPI_INFO_(NULL|ENV)",
    "MESSAGE": r"MPI_MESSAGE_.*",
    "OP": r"MPI_(OP_NULL|SUM|MIN|MAX|PROD|BAND|BOR|BXOR|LAND|LOR|LXOR|MINLOC|MAXLOC|REPLACE|NO_OP)",
    "REQUEST": r"MPI_REQUEST_NULL",
    "SESSION": r"MPI_SESSION_NULL",
    "WIN": r"MPI_WIN_NULL",
}

# Single constants: name in Rust, name in C, type.
SINGLE = (
    ("BIND_NO_OBJECT", "MPI_T_BIND_NO_OBJECT", "c_int"),
    *((f"BIND_MPI_{kind}", f"MPI_T_BIND_MPI_{kind}", "c_int")
      for kind in ("COMM", "DATATYPE", "ERRHANDLER", "FILE", "GROUP", "OP", "REQUEST", "WIN", "MESSAGE", "INFO", "SESSION")),
    ("BSEND_OVERHEAD", "MPI_BSEND_OVERHEAD", "c_int"),
    ("COMBINER_DARRAY", "MPI_COMBINER_DARRAY", "c_int"),
    ("COMBINER_SUBARRAY", "MPI_COMBINER_SUBARRAY", "c_int"),
    ("ERR_ARG", "MPI_ERR_ARG", "c_int"),
    ("HOST", "MPI_HOST", "c_int"),
    ("IO", "MPI_IO", "c_int"),
    ("LASTUSEDCODE", "MPI_LASTUSEDCODE", "c_int"),
    ("WIN_CREATE_FLAVOR", "MPI_WIN_CREATE_FLAVOR", "c_int"),
    ("WIN_MODEL", "MPI_WIN_MODEL", "c_int"),
)
# Pairs of single constants: name in Rust, name in C, type.
SINGLE_PAIRS = (
    ("BUFFER_AUTOMATIC", "MPI_BUFFER_AUTOMATIC", "usize"),
    ("DISPLACEMENT_CURRENT", "MPI_DISPLACEMENT_CURRENT", "i64"),
    ("IN_PLACE", "MPI_IN_PLACE", "usize"),
    ("LAST_CODE", "MPI_ERR_LASTCODE", "c_int"),
    ("MAX_PROCESSOR_NAME", "MPI_MAX_PROCESSOR_NAME", "usize"),
)
# Those of the standard ABI alone.
STANDARD = (
    ("FILE_NULL", "MPI_FILE_NULL"),
    ("T_PVAR_ALL_HANDLES", "MPI_T_PVAR_ALL_HANDLES"),
    ("UNWEIGHTED", "MPI_UNWEIGHTED"),
    ("WEIGHTS_EMPTY", "MPI_WEIGHTS_EMPTY"),
)

# Names of MPICH alone for types of the standard ABI. What the library returns has this name: programs of older versions of MPICH know no
# other, and no C program says MPI_REAL2.
SAME_TYPE = {"MPIX_C_FLOAT16": "MPI_REAL2"}

# The values of these enumerations follow one another, in MPICH's order; the table has their first.
ENUMERATIONS = (
    ("MPI_T_VERBOSITY_", "USER_BASIC USER_DETAIL USER_ALL TUNER_BASIC TUNER_DETAIL TUNER_ALL MPIDEV_BASIC MPIDEV_DETAIL MPIDEV_ALL"),
    ("MPI_T_BIND_", "NO_OBJECT MPI_COMM MPI_DATATYPE MPI_ERRHANDLER MPI_FILE MPI_GROUP MPI_OP MPI_REQUEST MPI_WIN MPI_MESSAGE MPI_INFO"
     " MPI_SESSION"),
    ("MPI_T_SCOPE_", "CONSTANT READONLY LOCAL GROUP GROUP_EQ ALL ALL_EQ"),
    ("MPI_T_PVAR_CLASS_", "STATE LEVEL SIZE PERCENTAGE HIGHWATERMARK LOWWATERMARK COUNTER AGGREGATE TIMER GENERIC"),
    ("MPI_T_CB_REQUIRE_", "NONE MPI_RESTRICTED THREAD_SAFE ASYNC_SIGNAL_SAFE"),
    ("MPI_T_SOURCE_", "ORDERED UNORDERED"),
)

# What a file of Rust names without defining it: a function of the standard ABI, or a comment.
NAMED = re.compile(r"(?:(?:standard|converted|binding)!\(|=\s+)MPI_\w+|//.*")
DEFINED = re.compile(r"\bMPI_\w+")


def names() -> list[str]:
    """The functions and data of MPICH's library."""
    return (api.DATA / "mpich-abi-symbols.txt").read_text().split()


def by_hand(source: Path) -> set[str]:
    """The functions that the crate defines without the generator."""
    modules = ("by_hand", "representation", "tools")
    texts = (NAMED.sub("", (source / f"{module}.rs").read_text()) for module in modules)
    return {name for text in texts for name in DEFINED.findall(text)}


def files(functions: list[Function], source: Path, note: str) -> dict[str, str]:
    """The files of `generated/`."""
    own, listed = by_hand(source), set(names())
    wanted = [f for f in functions if f.name in listed and f.name not in own]
    named = {f.name: f for f in wanted}
    texts = {"constants.rs": _constants(note)}
    families = []
    for family, chapter, _ in api.FAMILIES:
        members = [f for f in wanted if f.family == family]
        if not members:
            continue
        families.append(family)
        body = api.paragraphs([_macro(*call) for call in api.together(_calls(members, named))])
        texts[f"{family}.rs"] = f"//! Functions of MPI 5.0, chapter {chapter}.\n//!\n//! {note}\n\n{_uses(body)}\n\n{body}\n"
    modules = "\n".join([f"pub mod constants;", *(f"mod {family};" for family in sorted(families))])
    texts["mod.rs"] = f"//! The functions, by chapter of the standard, and the constants.\n//!\n//! {note}\n\n{modules}\n"
    return texts


def _calls(members: list[Function], functions: dict[str, Function]) -> list[tuple[str, str, str]]:
    """Macro, names and parameters of each function; of `MPI_X` and `MPI_X_c` together, where they differ in the types of counts alone."""
    calls = []
    for function in members:
        plain, large = functions.get(function.plain), functions.get(f"{function.plain}_c")
        params = api.same_but_for_counts(plain, large) if plain and large else None
        if params is None:
            calls.append(("forward!", function.name, _params(function, function.params)))
        elif function is plain:
            calls.append(("forward!", f"{plain.name}, {large.name}", _params(function, params)))
    return calls


def _params(function: Function, params: tuple[Param, ...]) -> str:
    own = replace(function, params=params)
    return f"({', '.join(f'{p.rust_name}: {_kind(own, p)}'.replace(' ', api.GLUE) for p in params)})"


def _macro(name: str, names: str, params: str) -> str:
    line = f"{name} {{ {names}{params} }}"
    if len(line) <= 100 and ";" not in names:
        return line.replace(api.GLUE, " ")
    lines = [f"{name} {{", *api.wrapped(names, params), "}"]
    return "\n".join(lines).replace(api.GLUE, " ")


def _uses(body: str) -> str:
    words = set(re.findall(r"\w+", body))
    lines = api.uses_of_types(words)
    lines.append(f"use crate::argument::{{{', '.join(sorted(words & PARAMETERS))}}};")
    lines.append("use crate::export::forward;")
    if kinds := sorted(words & set(HANDLES.values())):
        lines.append(f"use crate::handle::{{{', '.join(kinds)}}};")
    if lengths := sorted(words & {"neighbors", "partners"}):
        lines.append(f"use crate::processes::{{{', '.join(lengths)}}};")
    if kinds := sorted(words & (set(VALUES.values()) | ADDRESSES)):
        lines.append(f"use crate::value::{{{', '.join(kinds)}}};")
    return "\n".join(lines)


PARAMETERS = {
    "InOutStatus", "InOutValue", "InOutValues", "InStatus", "OutStatus", "OutStatuses", "OutValue", "OutValues", "Same", "SpawnedCodes", "Value",
    "Values",
}
# Kinds of words that no description of the Forum names.
ADDRESSES = {"Displacement", "ReadBuffer", "WriteBuffer"}


def _kind(function: Function, param: Param) -> str:
    """The parameter's type, a kind of crates/mpich/src/argument.rs, and the length of an array."""
    if param.callback:
        raise SystemExit(f"mpich.py: {function.name} has a callback and must be written by hand")
    length = api.array_length(function, param)
    out = param.depth and not param.const and param.direction
    if param.kind == "STATUS":
        if param.array:
            return f"OutStatuses[{length}]"
        return {"out": "OutStatus", "inout": "InOutStatus"}.get(out, "InStatus")
    if param.kind == "ERROR_CODE" and param.array and not length:
        return "SpawnedCodes"
    if kind := _word(function, param, length):
        if not param.depth:
            return f"Value<{kind}>"
        prefix = {"out": "Out", "inout": "InOut"}.get(out, "")
        if param.array:
            return f"{prefix}Values<{kind}>[{length}]"
        return f"{prefix or 'InOut'}Value<{kind}>"
    # An address is the program's own, even that of a constant.
    if param.kind == "BUFFER" and function.name != "MPI_Get_address":
        return f"Value<{'Read' if param.const else 'Write'}Buffer>"
    if param.kind == "C_BUFFER2":
        return "OutValue<WriteBuffer>"
    if param.kind == "OFFSET" and function.name == "MPI_File_set_view":
        return "Value<Displacement>"
    rust = re.sub(r"\bMPI_T_(?!cb|source)\w+", "usize", param.rust)
    return f"Same<{re.sub(r'MPI_T_(cb_safety|source_order)', 'c_int', rust)}>"


def _word(function: Function, param: Param, length: str) -> str | None:
    """The kind of word that the parameter is, or is a place or an array for."""
    if kind := HANDLES.get(param.kind):
        return kind
    kind = VALUES.get(param.kind)
    if kind and param.base in ("int", "MPI_T_cb_safety", "MPI_T_source_order"):
        # Without a length there is nothing that could be a constant.
        is_plain = param.array and (not length or kind == "Rank" and function.name != TRANSLATES)
        return None if is_plain else kind
    return None


def _constants(note: str) -> str:
    """The text of `constants.rs`."""
    standard, mpich = dict(api.constants()), dict(api.constants("mpich-abi-constants.tsv"))
    for prefix, members in ENUMERATIONS:
        first = mpich[prefix + members.split()[0]]
        mpich |= {prefix + name: first + i for i, name in enumerate(members.split())}
    out = [
        "//! The constants of MPICH's ABI and of the standard ABI: pairs, MPICH's first.",
        "//!",
        f"//! {note}",
        "",
        "use std::ffi::c_int;",
    ]
    for family, pattern in FAMILIES.items():
        named = [n for n in standard if re.fullmatch(pattern, n)]
        pairs = [(n, mpich[n], standard[n]) for n in named if n in mpich]
        if missing := [n for n in named if n not in mpich]:
            raise SystemExit(f"mpich-abi-constants.tsv: no {', '.join(missing)}")
        out += ["", f"/// {_first_words(pattern)}", f"pub const {family}: &[(c_int, c_int)] = &[", *_rows(pairs), "];"]
    # By the kind of object that a handle of MPICH names.
    types = [n for n in standard if is_datatype(mpich.get(n, 0))]
    for family, pattern in HANDLE_FAMILIES.items():
        named = [n for n in standard if re.fullmatch(pattern, n)] if pattern else ["MPI_DATATYPE_NULL", *types]
        pairs = [(n, mpich[n] & 0xFFFFFFFF, standard[n]) for n in named if n in mpich]
        if not pattern:
            pairs = [(n, mpich[n] & 0xFFFFFFFF, standard[same]) for n, same in SAME_TYPE.items()] + pairs
        out += ["", "/// Predefined handles.", f"pub const {family}: &[(u32, u32)] = &[", *_rows(pairs, "#x"), "];"]
    out.append("")
    for rust, name, kind in SINGLE:
        out += [f"/// `{name}` of MPICH's ABI.", f"pub const {rust}: {kind} = {mpich[name]};"]
    for rust, name, kind in SINGLE_PAIRS:
        values = ", ".join(str(v % 2**64 if kind == "usize" else v) for v in (mpich[name], standard[name]))
        out += [f"/// `{name}`.", f"pub const {rust}: ({kind}, {kind}) = ({values});"]
    for rust, name in STANDARD:
        out += [f"/// `{name}` of the standard ABI.", f"pub const {rust}: usize = {standard[name]};"]
    return "\n".join(out) + "\n"


def is_datatype(handle: int) -> bool:
    """Whether a handle of MPICH is that of a predefined datatype."""
    return (handle & 0xFFFFFFFF) >> 24 in (0x4C, 0x8C)


def _first_words(pattern: str) -> str:
    return f"`{pattern.split('|')[0].split('(')[0].rstrip('.*')}` and so on."


def _rows(pairs: list[tuple[str, int, int]], form: str = "") -> list[str]:
    return [f"    ({first:{form}}, {second}), // {name}" for name, first, second in pairs]
