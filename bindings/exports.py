"""The extern "C" exports of `crates/mpi5`: one macro call for each name, bound to its shim where there is one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import api
import methods
from api import Function, Param

# A by-value parameter of one of these kinds says on which object an error is raised.
TARGETS = {"COMMUNICATOR": "Comm", "WINDOW": "Win", "FILE": "File", "SESSION": "Session"}
# What concerns files, and none that is open for certain.
NO_FILE_YET = ("MPI_File_open", "MPI_File_close", "MPI_File_delete", "MPI_Register_datarep", "MPI_Register_datarep_c")

SHIM = re.compile(r"^pub (?:unsafe )?fn (mpi_[a-z0-9_]+)", re.MULTILINE)
LEAF = re.compile(r"^pub (?:unsafe )?fn leaf_([a-z0-9_]+)", re.MULTILINE)
PREPARES_CALL = re.compile(r"^(?:pub (?:unsafe )?fn (?=\w+\([^{]*-> Result<CheckedCall> \{)|    (?=\w+ as [A-Z]))(\w+)", re.MULTILINE)
# Sends differ in their mode alone.
SEND = re.compile(r"^mpi_(i?)([sr]?)send$")
SEND_MODES = {"": "Standard", "s": "Synchronous", "r": "Ready"}
# The consecutive parameters of collective calls that describe one buffer, by their names, and what takes them
# (`crates/abi/src/collective/buffers.rs`). The name that stands in parentheses is its first argument, for errors.
BUFFERS = [
    (re.compile(r"\w+buf (\w+counts) \w*displs \w+types?"), "UserBlocks"),
    (re.compile(r"(?:\w+buf|buffer) (\w*count) \w*type"), "UserBuffer"),
    (re.compile(r"sendbuf recvbuf \w*count datatype"), "UserOperands"),
]
# Those of other calls that describe elements, in this process or at the target (`crates/abi/src/elements.rs`,
# `shims/rma_sides.rs`).
SIDES = [
    (re.compile(r"(?:(?:send|recv|in|out)?buf|origin_addr|result_addr) \w*count \w*type"), "UserElements"),
    (re.compile(r"target_rank target_disp target_count target_datatype"), "TargetElements"),
]
FAST_PATH = re.compile(r"^pub (?:unsafe )?fn ([a-z_]+)", re.MULTILINE)


@dataclass
class Shims:
    """What the exports call."""

    module: dict[str, str]
    """Module of each hand-written shim, by the shim's name."""
    leaves: dict[str, str]
    """Module of each leaf, which carries out the usual case of a call, by the name of the shim."""
    collectives: set[str]
    """The collective calls whose arguments `collective` converts: the shims of their three forms are generated."""
    fast_paths: set[str]
    """Those of them whose blocking form tries a fast path first."""
    methods: dict[str, str]
    """The expression of each call that is a method of the library."""

    def __contains__(self, shim: str) -> bool:
        known = shim in self.module or shim in self.methods or shim.endswith(("_toint", "_fromint"))
        return known or SEND.match(shim) is not None or self._form(shim) is not None

    def call(self, function: Function, taken: list[Param], arguments: list[str]) -> str | None:
        """What the export of `function` calls, if there is something; `taken` are the parameters that `arguments` are for."""
        shim, names = function.shim, [p.name for p in taken]
        if expression := self.methods.get(shim):
            merged = _with_buffers(names, arguments, SIDES)
            if merged is not arguments:
                # The elements have the name of their buffer.
                taken = [p for p, n in zip(taken, _without_counts(names, SIDES)) if n]
            return self._with_leaf(shim, arguments, methods.call(expression, function, taken, merged))
        # A handle and its integer have the same bits. What is no handle passes through: the call that uses it reports the error.
        if shim.endswith("_toint"):
            return f"{arguments[0]}.raw() as c_int"
        if shim.endswith("_fromint"):
            return f"{function.returns}::from_raw({arguments[0]} as u32)"
        if module := self.module.get(shim):
            arguments = _with_buffers(names, arguments, SIDES)
            return self._with_leaf(shim, arguments, f"{module}::{shim}({', '.join(arguments)})")
        if send := SEND.match(shim):
            elements = _with_buffers(names, arguments, SIDES)
            return f"pt2pt::{send[1]}send({', '.join([f'pt2pt::Mode::{SEND_MODES[send[2]]}', *elements])})"
        if (form := self._form(shim)) is None:
            return None
        base, kind = form
        # The last arguments are the request, and before it the hints of a persistent call.
        own = {"blocking": 0, "nonblocking": 1, "persistent": 2}[kind]
        arguments, last = arguments[: len(arguments) - own], arguments[len(arguments) - own :]
        prepare = f"{base}({', '.join(_with_buffers(names, arguments, BUFFERS))})"
        if kind != "blocking":
            start = "start" if kind == "nonblocking" else "make_persistent"
            return f"collective::{start}({', '.join(reversed(last))}, || collective::{prepare})"
        run = f"collective::{prepare}.and_then(CheckedCall::run)"
        return f"fast_path::{prepare}.unwrap_or_else(|| {run})" if base in self.fast_paths else run

    def _with_leaf(self, shim: str, arguments: list[str], call: str) -> str:
        if leaf := self.leaves.get(shim):
            return f"leaf {leaf}::{shim.replace('mpi_', 'leaf_', 1)}({', '.join(arguments)}), {call}"
        return call

    def _form(self, shim: str) -> tuple[str, str] | None:
        name = shim.removeprefix("mpi_")
        forms = {"blocking": name, "nonblocking": name.removeprefix("i"), "persistent": name.removesuffix("_init")}
        return next(((base, kind) for kind, base in forms.items() if base in self.collectives), None)


def find_shims(source: Path, functions: list[Function]) -> Shims:
    """The shims of the crate whose sources are in `source`."""
    folder, collective = source / "shims", source / "collective"
    wanted = {f.shim for f in functions}
    shims: dict[str, str] = {}
    leaves: dict[str, str] = {}
    for module in _modules(folder):
        text = (folder / f"{module}.rs").read_text()
        leaves |= {f"mpi_{name}": module for name in LEAF.findall(text)}
        for name in SHIM.findall(text):
            if name not in wanted:
                raise SystemExit(f"shims/{module}.rs: {name}: no function of the ABI has this name")
            if name in shims:
                raise SystemExit(f"shims/{module}.rs: {name} is also in shims/{shims[name]}.rs")
            shims[name] = module
    prepared = {name for file in collective.glob("*.rs") for name in PREPARES_CALL.findall(file.read_text())}
    fast_paths = set(FAST_PATH.findall((collective / "fast_path.rs").read_text()))
    for name in sorted(prepared | fast_paths):
        if f"mpi_{name}" not in wanted or name not in prepared:
            raise SystemExit(f"collective: {name}: no collective call of the ABI has this name, or nothing prepares it")
    table = methods.table()
    for name in sorted(table):
        if name not in wanted or name in shims:
            raise SystemExit(f"methods.py: {name}: no function of the ABI has this name, or it has a shim")
    for name in leaves.keys() - shims.keys() - table.keys():
        raise SystemExit(f"shims/{leaves[name]}.rs: {name.replace('mpi_', 'leaf_', 1)}: there is no shim {name}")
    found = Shims(shims, leaves, prepared, fast_paths, table)
    for function in functions:
        if not function.errors and function.shim not in found:
            raise SystemExit(f"{function.name} returns a value and needs a shim: {shim_signature(functions, function.name)}")
    return found


def shims_mod(folder: Path, note: str) -> str:
    """The text of `shims/mod.rs`."""
    lines = [
        "//! Shims: validate, convert, call `mica_mpi`, convert back. One for `MPI_X` and `MPI_X_c`; the",
        "//! conventions are in `docs/design/bindings.md`.",
        "//!",
        f"//! {note}",
        "",
        *(f"pub mod {module};" for module in _modules(folder)),
    ]
    return "\n".join(lines) + "\n"


def files(functions: list[Function], shims: Shims, note: str) -> dict[str, str]:
    """The files of `generated/`."""
    forms: dict[str, dict[bool, Function]] = {}
    for function in functions:
        forms.setdefault(function.plain, {})[function.large] = function
    texts = {}
    families = []
    for family, chapter, _ in api.FAMILIES:
        members = [f for f in functions if f.family == family]
        families.append(family)
        body = api.paragraphs(_exports(members, forms, shims))
        texts[f"exports_{family}.rs"] = (
            f"//! Exports of MPI 5.0, chapter {chapter}.\n//!\n//! {note}\n\n{_uses(body)}\n\n{body}\n"
        )
    modules = "\n".join(f"mod exports_{family};" for family in sorted(families))
    texts["mod.rs"] = f'//! The extern "C" functions, `MPI_X` and `PMPI_X`, by chapter of the standard.\n//!\n//! {note}\n\n{modules}\n'
    return texts


def shim_signature(functions: list[Function], name: str) -> str:
    """What the shim of `name` must look like."""
    forms = {f.large: f for f in functions if f.plain.lower() == name.lower().removesuffix("_c")}
    if False not in forms:
        raise SystemExit(f"{name}: no function of the ABI has this name")
    plain, large = forms[False], forms.get(True, forms[False])
    taken = [p for p in large.params if not p.variadic]
    params = _merged([p.name for p in taken], [f"{p.rust_name}: {_shim_type(_of(plain, p.name), p)}" for p in taken])
    if _wants_form(plain, large):
        params.append("form: CountForm")
    returns = plain.returns if plain.returns != "double" else "f64"
    if plain.errors:
        returns = "Result<(), c_int>" if plain.tool else "mica_mpi::Result<()>"
    elif returns == "int":
        returns = "c_int"
    return f"pub unsafe fn {plain.shim}({', '.join(params)}) -> {returns}"


def _with_buffers(names: list[str], arguments: list[str], buffers: list[tuple[re.Pattern, str]]) -> list[str]:
    """The arguments, those that describe a buffer in one; `names` may be longer."""
    for i in range(len(arguments)):
        for length in (3, 4):
            for pattern, buffer in buffers:
                if found := pattern.fullmatch(" ".join(names[i : i + length])):
                    label = [f'"{name}"' for name in found.groups()]
                    whole = f"{buffer}::new({', '.join([*label, *arguments[i : i + length]])})"
                    rest = _with_buffers(names[i + length :], arguments[i + length :], buffers)
                    return [*arguments[:i], whole, *rest]
    return arguments


def _merged(names: list[str], params: list[str]) -> list[str]:
    """The parameters of a shim, those that describe elements in one of the name of the first."""
    stays = _without_counts(names, SIDES)
    whole = [s and not t for s, t in zip(stays, [*stays[1:], True])]
    kind = [next((k for n in (3, 4) for p, k in SIDES if p.fullmatch(" ".join(names[i : i + n]))), "") for i in range(len(names))]
    return [f"{names[i]}: {kind[i]}" if whole[i] else params[i] for i in range(len(names)) if stays[i]]


def _without_counts(names: list[str], buffers: list[tuple[re.Pattern, str]]) -> list[bool]:
    """For each parameter, whether it stays one after [`_with_buffers`]."""
    stays = [True] * len(names)
    for i in range(len(names)):
        for length in (3, 4):
            if stays[i] and any(pattern.fullmatch(" ".join(names[i : i + length])) for pattern, _ in buffers):
                stays[i + 1 : i + length] = [False] * (length - 1)
    return stays


def _modules(folder: Path) -> list[str]:
    return sorted(p.stem for p in folder.glob("*.rs") if p.stem != "mod")


def _of(function: Function, name: str) -> Param | None:
    return next((p for p in function.params if p.name == name), None)


def _wants_form(plain: Function, large: Function) -> bool:
    return plain is not large and any(p.kind == "POLYFUNCTION" or p.large_only for p in large.params)


def _poly(plain: Param | None, large: Param) -> bool:
    return plain is not None and not large.callback and plain.rust != large.rust


def _shim_type(plain: Param | None, large: Param) -> str:
    if not _poly(plain, large):
        return large.rust
    if large.depth == 0:
        return "MPI_Count"
    return "PolyArray" if large.const else "PolyOut"


def _argument(plain: Param | None, large: Param, own: Param | None) -> str:
    """What the export passes to the shim for one parameter of the large form; `own` is the export's parameter."""
    if own is None:
        return "0" if large.depth == 0 else "null_mut()"
    if not _poly(plain, large) or (large.depth == 0 and own.rust == "MPI_Count"):
        return own.rust_name
    if large.depth == 0:
        return f"MPI_Count::from({own.rust_name})" if own.base in ("int", "Int") else f"{own.rust_name} as MPI_Count".replace(" ", api.GLUE)
    return f"{'PolyArray' if large.const else 'PolyOut'}::new({own.rust_name})"


def _exports(members: list[Function], forms: dict[str, dict[bool, Function]], shims: Shims) -> list[str]:
    """One macro call for each function; for `MPI_X` and `MPI_X_c` together, where they differ in nothing but the types of counts."""
    texts = []
    collectives = api.collective_forms(members)
    for function in members:
        if (call := collectives.get(function.name)) and call.name in shims.collectives:
            if function is call.forms[0][0]:
                texts.append(_collective(call, forms, shims))
            continue
        plain, large = (forms[function.plain].get(is_large) for is_large in (False, True))
        params = None if None in (plain, large) else api.same_but_for_counts(plain, large)
        if params is None:
            texts.append(_export(function, forms[function.plain], shims))
        elif function is plain:
            texts.append(_export(replace(plain, params=params), forms[function.plain], shims, large.name))
    return [text if isinstance(text, str) else _macro(*text) for text in api.together(texts)]


def _collective(call: api.CollectiveForms, forms: dict[str, dict[bool, Function]], shims: Shims) -> str:
    """The macro call for all forms of a collective call."""
    blocking = replace(call.forms[0][0], params=call.params)
    plain, large = forms[blocking.plain][False], forms[blocking.plain][True]
    arguments = [_argument(_of(plain, p.name), p, _of(blocking, p.name)) for p in large.params]
    arguments = _with_buffers([p.name for p in large.params], arguments, BUFFERS)
    params = ", ".join(_declaration(p) for p in call.params)
    fast = f"fast{api.GLUE}" if call.name in shims.fast_paths else ""
    names = " ".join(f.name for f in call.functions)
    lines = ["collective! {", *api.wrap(f"{fast}{call.name}({params}){api.GLUE}on{api.GLUE}comm:"), *api.wrap(names), *api.wrap(f"=> {', '.join(arguments)}"), "}"]
    return "\n".join(lines).replace(api.GLUE, " ")


def _export(function: Function, forms: dict[bool, Function], shims: Shims, also: str | None = None) -> tuple[str, str, str, str]:
    """The macro call for `function`, and for the one named `also`, whose text is the same: macro, names, signature, call."""
    params = [p for p in function.params if not p.variadic]
    plain = forms.get(False, function)
    large = forms.get(True, plain)
    names = f"{function.name}{f', {also}' if also else ''}"
    signature = f"({', '.join(_declaration(p) for p in params)})"
    taken = [p for p in large.params if not p.variadic]
    arguments = [_argument(_of(plain, p.name), p, _of(function, p.name)) for p in taken]
    if _wants_form(plain, large):
        arguments.append("CountForm::Large" if function.large else "CountForm::Plain")
    call = shims.call(function, taken, arguments)
    if call is None:
        raise SystemExit(f"{function.name} has no shim")
    if also:
        call = call.replace("CountForm::Plain", "FORM")
    if not function.errors:
        returns = api.RUST.get(function.returns, function.returns)
        return "value!", names, f"{signature}{api.GLUE}->{api.GLUE}{returns}", call
    if function.tool:
        return "tool!", names, signature, call
    target = next(
        (f"{TARGETS[p.kind]}({p.rust_name})" for p in params if p.kind in TARGETS and p.depth == 0), "Default"
    )
    if function.name in NO_FILE_YET:
        target = "NULL_FILE"
    return "both!" if also else "call!", names, f"{signature}{api.GLUE}on{api.GLUE}{target}", call


def _declaration(param: Param) -> str:
    return f"{param.rust_name}: {param.rust}".replace(" ", api.GLUE)


def _macro(name: str, names: str, signature: str, call: str) -> str:
    line = f"{name} {{ {names}{signature} => {call} }}"
    if len(line) <= 100:
        return line.replace(api.GLUE, " ")
    lines = [f"{name} {{", *api.wrapped(names, signature), *api.wrap(f"=> {call}"), "}"]
    return "\n".join(lines).replace(api.GLUE, " ")


def _uses(body: str) -> str:
    words = set(re.findall(r"\w+", body))
    macros = [m for m in ("both", "call", "collective", "tool", "value") if f"{m}! {{" in body]
    ffi = sorted(words & {"c_char", "c_int", "c_void"})
    types = sorted(w for w in words if w in _TYPES)
    poly = sorted(words & {"CountForm", "PolyArray", "PolyOut"})
    called = re.findall(r"=>\s+(?!leaf |collective|fast_path|method::|tool::|MPI_|User)(\w+)::", body) + re.findall(r"(\w+)::(?:leaf|mpi)_", body)
    called += re.findall(r"\b(attribute|buffer|errhandler|pack|rma)::", body)
    modules = sorted(set(called))
    buffers = sorted(words & {buffer for _, buffer in BUFFERS})
    sides = sorted(words & {side for _, side in SIDES})
    uses = (("self", "collective::"), ("CheckedCall", "CheckedCall::"), ("fast_path", "fast_path::"))
    collective = [name for name, use in uses if use in body]
    lines = []
    if ffi:
        lines.append(f"use std::ffi::{{{', '.join(ffi)}}};")
    if "null_mut" in words:
        lines.append("use std::ptr::null_mut;")
    lines.append("")
    if collective:
        lines.append(f"use mica_abi::collective::{{{', '.join(collective)}}};")
    if buffers:
        lines.append(f"use mica_abi::collective::buffers::{{{', '.join(buffers)}}};")
    lines.append(f"use mica_abi::export::{{{', '.join(macros)}}};")
    if "method::" in body:
        lines.append("use mica_abi::method::{self, *};")
    if "tool::" in body:
        lines.append("use mica_abi::tool::{self, *};")
    if poly:
        lines.append(f"use mica_abi::poly::{{{', '.join(poly)}}};")
    if modules:
        lines.append(f"use mica_abi::shims::{{{', '.join(modules)}}};")
    if sides:
        if "TargetElements" in sides:
            lines.append("use mica_abi::shims::rma_sides::TargetElements;")
        if "UserElements" in sides and "use mica_abi::method::{self, *};" not in lines:
            lines.append("use mica_abi::elements::UserElements;")
    if types:
        lines.append(f"use mica_abi::types::{{{', '.join(types)}}};")
    return "\n".join(lines).strip("\n")


_TYPES = {
    "MPI_Aint", "MPI_Comm", "MPI_Count", "MPI_Datatype", "MPI_Errhandler", "MPI_File", "MPI_Group", "MPI_Info",
    "MPI_Message", "MPI_Offset", "MPI_Op", "MPI_Request", "MPI_Session", "MPI_Status", "MPI_T_cb_safety",
    "MPI_T_cvar_handle", "MPI_T_enum", "MPI_T_event_instance", "MPI_T_event_registration", "MPI_T_pvar_handle",
    "MPI_T_pvar_session", "MPI_T_source_order", "MPI_Win",
}
