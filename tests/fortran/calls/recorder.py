"""The recorder's functions of C, for recorder.h."""

from __future__ import annotations

from declarations import Function, api, functions

# Communicators that the library asks for the sizes of arrays, one for each of the three calls: recorder.h answers, and writes
# nothing down. The numbers of processes to send to and to receive from: of one group, of two; of a graph, of one of MPI-1, of a
# grid, of another graph.
GRID, GROUPS = (0x7001,) * 3, (0x7002, 0x7003, 0x7002)
GRAPHS, GRAPHS_OF_NONBLOCKING = (0x7004, 0x7005, 0x7007), (0x7004, 0x7006, 0x7007)
PARTNERS = {0x7002: (3, 3), 0x7003: (3, 3), 0x7004: (3, 2), 0x7005: (3, 3), 0x7006: (2, 2), 0x7007: (2, 3)}
QUESTIONS = ("MPI_Comm_test_inter", "MPI_Comm_size", "MPI_Comm_remote_size", "MPI_Comm_rank", "MPI_Topo_test", "MPI_Cartdim_get",
             "MPI_Graph_neighbors_count", "MPI_Dist_graph_neighbors_count")


def asked(function: str) -> tuple[int, ...]:
    """The communicators of a function with an array whose length no parameter says."""
    if "eighbor_alltoallw" in function:
        return GRAPHS_OF_NONBLOCKING if "Ineighbor" in function else GRAPHS
    return GROUPS if "lltoallw" in function else GRID if function == "MPI_Cart_sub" else ()


def recorder(by_hand: set[str]) -> str:
    """All functions of C."""
    # Those with a callback go by the library's table.
    known = [f for interface in ("mpi", "f08") for f in functions(interface)]
    of_fortran = {f.name: f for f in known if all(a.form != "procedure" for a in f.arguments)}
    out = ['#include "recorder.h"', ""]
    ends = []
    for function in api.load()[0]:
        name = function.name
        if name not in by_hand:
            out += arrived(function, of_fortran.get(name))
        names = [p.name for p in function.params if not p.variadic]
        for prefix in ("", "P"):
            arguments = ", ".join([f'"{prefix}{name}"', *names])
            ends.append(f"{function.prototype(prefix)} {{ return arrived_{name}({arguments}); }}")
    return "\n".join([*out, '#include "by_hand.h"', "", *ends]).replace(api.GLUE, " ") + "\n"


def arrived(function: api.Function, of_fortran: Function | None) -> list[str]:
    """The function of C that writes down what has arrived, and stores results."""
    params = ", ".join(["const char *called", *(p.c for p in function.params if not p.variadic)])
    out = [f"static {function.returns} arrived_{function.name}({params})", "{"]
    if function.name in QUESTIONS:
        places = [p.name for p in function.params if p.depth] + ["NULL"] * 3
        out += [f"    if (answer(called, comm, {', '.join(places[:2])}))", "        return MPI_SUCCESS;"]
    out.append("    line(called);")
    if of_fortran is None:
        return [*out, "    end();", f"    return ({function.returns}) 0;" if function.returns != "void" else "", "}", ""]
    arguments = {a.name: (i, a) for i, a in enumerate(of_fortran.arguments)}
    stored = []
    for p in function.params:
        i, argument = arguments.get(p.name.lower(), (0, None))
        out.append(f"    {read(function, p, argument)}")
        if argument and argument.direction != "in" and (argument.form != "choice" or p.depth == 2):
            stored += store(function, p, argument, i)
    out.append("    if (CODE != MPI_SUCCESS)\n        return end();")
    return [*out, *(f"    {line}" for line in stored), "    return end();", "}", ""]


def read(function, p, argument) -> str:
    name = f'"{p.name.lower()}", {p.name}'
    if argument is None or argument.form in ("choice", "pointer"):
        return f"show_address({name});" if p.depth else f"show_integer({name});"
    if argument.direction == "out":
        return f"show_address({name});"
    macro = {"handle": "handle", "integer": "integer", "logical": "integer", "text": "text", "status": "status"}[argument.form]
    if macro in ("text", "status"):
        return f"show_{macro}({name});"
    if p.depth == 0:
        return f"show_{macro}({name});"
    values = f"(const int *) {p.name}" if p.base == "void" or "," in argument.lengths else p.name
    partners = {"sendtypes": "partners(comm, 0)", "recvtypes": "partners(comm, 1)"}
    n = partners.get(p.name, argument.elements or 1)
    return f'show_{macro}s("{p.name.lower()}", {values}, {n});'


def store(function, p, argument, i) -> list[str]:
    name, n = p.name, argument.elements or 1
    some = function.name.endswith("some")
    if argument.form == "status":
        count = 2 if some else n
        return [f"status_result({name}, {i}, {e});" for e in range(count)]
    if argument.form == "text":
        return [f"text_result({name}, {i});"]
    if argument.form in ("pointer", "choice"):
        return [f"*(void **) {name} = address_result({i});"]
    if argument.type == "MPI_Request" and argument.direction == "inout":
        return [] if function.name.startswith("MPI_Start") else [f"{name}[{e}] = MPI_REQUEST_NULL;" for e in range(0, n, 2)]
    if name == "outcount" and some:
        return [f"*{name} = SPECIAL ? MPI_UNDEFINED : 2;"]
    if name == "array_of_indices" and some:
        return [f"if (!SPECIAL) {name}[0] = 0, {name}[1] = 2;"]
    if name in ("index", "indx") and argument.direction == "out" and not argument.lengths:
        return [f"*{name} = SPECIAL ? MPI_UNDEFINED : 1;"]
    value = {"handle": "handle_result", "logical": "flag_result"}.get(argument.form, "wide_result" if argument.wide else "result")
    target = f"((int *) {name})" if p.base == "void" else name
    guard = f"if (!is_special({name})) " if argument.name.endswith("weights") else ""
    return [f"{guard}{target}[{e}] = {value}({i}, {e});" for e in range(n)]
