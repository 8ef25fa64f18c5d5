"""The wrappers of the profiler's library, `crates/profile-preload`: one macro call for each call that it times, with what
the call moves as its arguments say it.

Which argument is the count, the datatype, the peer, the communicator is read from the parameters' names, which the Forum's
description keeps uniform. What a wrapper may say is `CallTraffic` in `crates/profile-preload/src/traffic.rs`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace

import api
from api import Function

# Calls that are local and cheap, of the families that are timed; the other families are left out as a whole.
FAMILIES = ("collectives", "communicators", "files", "partitioned", "point_to_point", "processes", "topologies", "windows")
LOCAL = re.compile(
    r"MPI_(Op_.*|Group_.*|.*keyval|Attr_.*|Comm_(size|rank|compare|test_inter|group|remote_.*|[gs]et_.*|get_parent)"
    r"|(Type|Win)_[gs]et_name|File_(get_(info|group|amode|atomicity|view|type_extent)|set_info)|Register_datarep"
    r"|(Buffer|Comm|Session)_(attach|detach)_.*|Buffer_(attach|detach)|Get_count|Status_.*|Test_cancelled|Request_get_.*"
    r"|Cart_(coords|get|rank|shift|map)|Cartdim_get|Graph_(get|map|neighbors.*)|Graphdims_get|Dims_create|Topo_test"
    r"|Dist_graph_neighbors.*|Win_(shared_query|get_group|[gs]et_info|attach|detach)|Session_(?!finalize).*|Initialized"
    r"|Finalized|Query_thread|Is_thread_main|(Publish|Unpublish|Lookup)_name|(Open|Close)_port"
    # By hand in `session.rs`.
    r"|Init|Init_thread|Finalize|Abort|Session_init|Session_finalize)(_c)?"
)
BEFORE = {
    "MPI_Comm_free": "comm::forget(comm)",
    "MPI_Comm_disconnect": "comm::forget(comm)",
    "MPI_Win_free": "comm::forget(win)",
    "MPI_File_close": "files::forget(fh)",
    "MPI_Request_free": "persistent::forget(request)",
    "MPI_Type_free": "thread::forget_datatypes()",
}
FLOWS = {
    "bcast": "Broadcast", "scatter": "Scatter", "scatterv": "Scatter", "gather": "Gather", "gatherv": "Gather",
    "allgather": "ToAll", "allgatherv": "ToAll", "alltoall": "ToAll", "alltoallv": "ToAll", "alltoallw": "ToAll",
    "allreduce": "ToAll", "reduce": "Reduce", "scan": "Chain", "exscan": "Chain",
}
COLLECTIVE = re.compile(
    r"mpi_i?(barrier|bcast|gatherv?|scatterv?|allgatherv?|alltoall[vw]?|reduce_scatter(?:_block)?|reduce|allreduce"
    r"|scan|exscan|neighbor_allgatherv?|neighbor_alltoall[vw]?)(_init)?"
)


def timed(functions: list[Function]) -> list[Function]:
    """The functions that are wrapped, in the ABI's order; a function's number is its place here."""
    return [
        f for f in functions
        if f.errors and (f.plain == "MPI_Type_free" or (f.family in FAMILIES and not LOCAL.fullmatch(f.plain)))
    ]


def files(functions: list[Function], note: str) -> dict[str, str]:
    """The files of `crates/profile-preload/src/generated/`."""
    wrapped = timed(functions)
    number = {f.name: i for i, f in enumerate(wrapped)}
    texts, families = {}, []
    for family, chapter, _ in api.FAMILIES:
        members = [f for f in wrapped if f.family == family]
        if not members:
            continue
        families.append(family)
        body = api.paragraphs(_wrappers(members, number))
        texts[f"wrappers_{family}.rs"] = (
            f"//! Wrappers of MPI 5.0, chapter {chapter}.\n//!\n//! {note}\n\n{_uses(body)}\n\n{body}\n"
        )
    modules = "\n".join(f"mod wrappers_{family};" for family in sorted(families))
    names = "\n".join(textwrap.wrap(" ".join(f.name for f in wrapped), 95, initial_indent="    ", subsequent_indent="    "))
    texts["mod.rs"] = (
        "//! The calls that are timed, by chapter of the standard, and their names.\n//!\n"
        f"//! {note}\n\n// The same text serves `int` and `MPI_Count`.\n#![allow(clippy::unnecessary_cast)]\n\n{modules}\n\n"
        f"/// How many calls there are.\npub const CALLS: usize = {len(wrapped)};\n\n"
        f'/// Their names; a call\'s number is its place here.\npub const NAMES: &str = "\\\n{names}";\n'
    )
    return texts


def _wrappers(members: list[Function], number: dict[str, int]) -> list[str]:
    """One macro call for each function; for `MPI_X` and `MPI_X_c` together, where they differ in the types of counts alone."""
    forms = {f.name: f for f in members}
    texts = []
    collectives = api.collective_forms(members)
    for function in members:
        if (call := collectives.get(function.name)) and (kind := COLLECTIVE.fullmatch(f"mpi_{call.name}")):
            if function is call.forms[0][0]:
                texts.append(_all_forms(call, kind[1], number))
            continue
        plain, large = forms[function.plain], forms.get(f"{function.plain}_c")
        params = api.same_but_for_counts(plain, large) if large else None
        names = [f"{number[f.name]} {f.name}".replace(" ", api.GLUE) for f in (plain, large) if f]
        if params is None:
            texts.append(_wrapper(function, names[function.large]))
        elif function is plain:
            texts.append(_wrapper(replace(plain, params=params), ", ".join(names)))
    return [text if isinstance(text, str) else _macro(*text) for text in api.together(texts)]


def _all_forms(call: api.CollectiveForms, kind: str, number: dict[str, int]) -> str:
    """The macro call for all forms of a collective call."""
    params = ", ".join(f"{p.rust_name}: {_type(p)}".replace(" ", api.GLUE) for p in call.params)
    names = " ".join(f"{number[f.name]} {f.name}".replace(" ", api.GLUE) for f in call.functions)
    root, flow, data = _moved({p.name: p for p in call.params}, kind)
    lines = ["wrap_collective! {", *api.wrap(f"({params}) on comm:"), *api.wrap(names), *api.wrap(f"=> {root}, {flow}, {data}"), "}"]
    return "\n".join(lines).replace(api.GLUE, " ")


def _wrapper(function: Function, names: str) -> tuple[str, str, str, str]:
    """The macro call for the functions of these names: macro, names, signature, what it moves."""
    params = ", ".join(f"{p.rust_name}: {_type(p)}".replace(" ", api.GLUE) for p in function.params if not p.variadic)
    before = BEFORE.get(function.plain)
    before = f" before {{ {before} }}" if before else ""
    return "wrap!", names, f"({params}){before}", _traffic(function)


def _macro(name: str, names: str, signature: str, traffic: str) -> str:
    line = f"{name} {{ {names}{signature} => {traffic} }}"
    if len(line) <= 100:
        return line.replace(api.GLUE, " ")
    return "\n".join([f"{name} {{", *api.wrapped(names, signature), *api.wrap(f"=> {traffic}"), "}"]).replace(api.GLUE, " ")


def _type(param) -> str:
    return "usize" if param.callback else param.rust


def _traffic(function: Function) -> str:
    names = {p.name: p for p in function.params}
    out = {p.name: p for p in function.params if p.kind == "COMMUNICATOR" and p.depth == 1}
    base = function.plain.lower()
    if function.plain in BEFORE:
        return "CallTraffic::Nothing"
    if base in ("mpi_start", "mpi_startall"):
        return "CallTraffic::Start(request, 1)" if base == "mpi_start" else "CallTraffic::Start(array_of_requests, count)"
    if found := COLLECTIVE.fullmatch(base):
        return _collective(names, base, *found.groups())
    if "win" in names and "target_rank" in names:
        count = "origin_count" if "origin_count" in names else "1"
        datatype = "origin_datatype" if "origin_datatype" in names else "datatype" if "datatype" in names else ""
        if datatype:
            # The result of MPI_Get_accumulate comes back even where nothing is sent.
            if "result_count" in names:
                count, datatype = "target_count", "target_datatype"
            return f"CallTraffic::Target {{ win, peer: target_rank, count: {_wide(count)}, datatype }}".replace(
                "datatype }", f"datatype: {datatype} }}" if datatype != "datatype" else "datatype }")
        return "CallTraffic::Nothing"
    if base == "mpi_file_open":
        return "CallTraffic::OpenFile(filename, fh)"
    if base.startswith("mpi_file_") and "buf" in names and "count" in names:
        place = "At(offset)" if "offset" in names else "Shared" if re.search("shared|ordered", base) else "Pointer"
        return f"CallTraffic::File {{ file: fh, place: FilePlace::{place}, count: {_wide('count')}, datatype }}"
    if base.startswith("mpi_file_") and "fh" in names:
        use = {"mpi_file_seek": "Seeks", "mpi_file_set_view": "SetsView(etype)"}.get(base, "Manages")
        return f"CallTraffic::OnFile(fh, FileUse::{use})"
    if "dest" in names:
        count, datatype = ("sendcount", "sendtype") if "sendcount" in names else ("count", "datatype")
        count = f"{_wide('partitions')} * {_wide('count')}" if "partitions" in names else _wide(count)
        value = "datatype" if datatype == "datatype" else f"datatype: {datatype}"
        tags = "TagPair::both(sendtag, recvtag)" if "sendtag" in names else "TagPair::one(tag)"
        message = f"{{ comm, peer: dest, tags: {tags}, count: {count}, {value} }}"
        if base.endswith("_init"):
            return f"CallTraffic::Prepare(request, MessageTraffic {message})"
        return f"CallTraffic::To(MessageTraffic {message})"
    if "source" in names and "comm" in names and names["source"].depth == 0:
        return "CallTraffic::From(comm, source, tag)"
    if out and "idup" not in base and "spawn" not in base:
        return f"CallTraffic::NewComm({next(iter(out))})"
    if "comm" in names and names["comm"].depth == 0:
        return "CallTraffic::On(comm)"
    return "CallTraffic::Nothing"


def _collective(names, base: str, kind: str, init: str | None) -> str:
    start = "Persistent(request)" if init else "Started" if base.startswith("mpi_i") else "Blocking"
    root, flow, data = _moved(names, kind)
    return f"CallTraffic::Collective(CollectiveTraffic {{ comm, root: {root}, flow: Flow::{flow}, start: DataStart::{start}, data: {data} }})"


def _moved(names, kind: str) -> tuple[str, str, str]:
    """The root, the flow and the data of a collective call."""
    flow = "Neighbors" if kind.startswith("neighbor") else FLOWS.get(kind, "Mixed")
    return "root" if "root" in names else "NO_ROOT", flow, _data(names, kind)


def _data(names, kind: str) -> str:
    if kind == "barrier":
        return "Data::None"
    if kind == "bcast":
        return f"Data::block({_wide('count')}, datatype)"
    if kind == "reduce_scatter":
        return "Data::Blocks(recvcounts.into(), datatype)"
    if kind == "reduce_scatter_block":
        return f"Data::block({_wide('recvcount')}, datatype)"
    if "sendtype" not in names and "sendtypes" not in names:
        return f"Data::block({_wide('count')}, datatype)"
    send = _part(names, "send")
    # Where the data is in place, what would be sent is described by the arguments of the receive.
    if kind in ("gather", "allgather", "alltoall", "alltoallv", "alltoallw"):
        return f"Data::unless_in_place(sendbuf, {send}, {_part(names, 'recv')})"
    if kind in ("gatherv", "allgatherv"):
        return f"Data::unless_in_place(sendbuf, {send}, Data::Own(recvcounts.into(), recvtype))"
    return send


def _part(names, side: str) -> str:
    if f"{side}types" in names:
        return f"Data::Each({side}counts.into(), {side}types)"
    if f"{side}counts" in names:
        return f"Data::Blocks({side}counts.into(), {side}type)"
    return f"Data::block({_wide(f'{side}count')}, {side}type)"


def _wide(name: str) -> str:
    return name if name.isdigit() else f"{name} as i64".replace(" ", api.GLUE)


def _uses(body: str) -> str:
    words = set(re.findall(r"\w+", body))
    lines = []
    if ffi := sorted(words & {"c_char", "c_int", "c_void"}):
        lines.append(f"use std::ffi::{{{', '.join(ffi)}}};")
    lines.append("")
    crate = sorted(m for m in ("comm", "files", "persistent", "thread") if f"{m}::" in body)
    lines += [f"use crate::{module};" for module in crate]
    traffic = [t for t in ("CallTraffic", "CollectiveTraffic", "Data", "DataStart", "FilePlace", "FileUse", "Flow", "MessageTraffic", "NO_ROOT", "TagPair") if re.search(rf"(?<!::)\b{t}\b", body)]
    lines.append(f"use crate::traffic::{{{', '.join(traffic)}}};")
    wraps = [name for name in ("wrap", "wrap_collective") if f"{name}! {{" in body]
    lines.append(f"use crate::trampoline::{{{', '.join(wraps)}}};")
    if types := sorted(w for w in words if w in _TYPES):
        lines.append(f"use crate::types::{{{', '.join(types)}}};")
    return "\n".join(lines).strip("\n")


_TYPES = {
    "MPI_Aint", "MPI_Comm", "MPI_Count", "MPI_Datatype", "MPI_Errhandler", "MPI_File", "MPI_Group", "MPI_Info",
    "MPI_Message", "MPI_Offset", "MPI_Op", "MPI_Request", "MPI_Session", "MPI_Status", "MPI_Win",
}
