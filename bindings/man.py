"""The manual pages of the functions, section 3: one file, `docs/man/functions.3`, which `scripts/install_man.sh` divides. A line
`=== FILE` stands before each page, a line `=== NAME` without a dot before a text that pages share, and a line `@NAME` is where one goes.

Bindings and parameters are as the Forum describes them, what a function does is in `data/summaries.txt`, how calls behave towards other
processes in the tables here, and what Mica lacks is what `docs/coverage.md` says.
"""

from __future__ import annotations

import re
import textwrap

import api
import constants
import header
from api import Function, Param
from exports import Shims

# Lines of code: a terminal of 80 columns, of which 7 are margin.
WIDTH = 72
# When MPI 5.0 was approved: pages want a date that does not change with the day they are made.
DATE = "2025-06-05"

# How calls behave towards other processes, which the Forum's description does not say. Patterns match whole names, without `MPI_` and `_c`.
COLLECTIVE = re.compile(
    r"I?neighbor_.*|Comm_(i?dup.*|create|split.*|free|disconnect|set_info|spawn.*|accept|connect)|Intercomm_(create|merge)"
    r"|Cart_(create|sub)|Graph_create|Dist_graph_create.*|Win_(create(_dynamic)?|allocate.*|free|fence|set_info)|Finalize"
    r"|File_(open|close|set_(size|view|atomicity|info)|preallocate|sync|seek_shared|.*_all(_begin|_end)?|.*_ordered.*)",
    re.IGNORECASE,
)
COLLECTIVE_OF_GROUP = re.compile(r"Comm_create_(from_)?group|Intercomm_create_from_groups")
LOCAL = re.compile(
    r"(Group|Info|Type|Op|Errhandler|Status|Aint|Attr|Keyval|Add_error|Remove_error|Error)_.*|.*_(toint|fromint|keyval|attr)"
    r"|(Comm|File|Session|Win)_([gs]et|create)_errhandler|(Comm|Type|Win)_[gs]et_name|Comm_(size|rank|compare|test_inter|group|remote_.*)"
    r"|(Un)?[Pp]ack.*|Get_(address|count|elements.*|version|library_version|processor_name|hw_resource_info)|Wti(me|ck)|Query_thread"
    r"|Is_thread_main|Initialized|Finalized|Test_cancelled|Cart_(coords|get|rank|shift)|Cartdim_get|Graph_(get|neighbors.*)|Graphdims_get"
    r"|Dims_create|Topo_test|Dist_graph_neighbors.*|Win_(shared_query|get_group|attach|detach)|(Alloc|Free)_mem|Reduce_local"
)
ONE_SIDED = re.compile(r"Put|Get|Accumulate|Get_accumulate|Fetch_and_op|Compare_and_swap")

# Parameters that the standard lists without a description, by kind.
UNDESCRIBED = {
    "ARGUMENT_COUNT": "pointer to the argument of main, or null",
    "ARGUMENT_LIST": "pointer to the argument of main, or null",
    "ASSERT": "assertion about the program",
    "ERRHANDLER": "error handler",
    "ERROR_CLASS": "error class",
    "ERROR_CODE": "error code",
    "INFO": "hints",
    "KEY_INDEX": "integer that stands for a handle",
    "OPERATION": "operator",
    "VARARGS": "arguments for a profiling tool",
}
# For SEE ALSO: forms of one operation, words of names that say nothing of the subject, and those that stand for another.
FORMS = [
    (r"^i?[bsr]?send(?!recv)", "send"),
    (r"^i?m?recv", "recv"),
    (r"^i?m?probe", "probe"),
    (r"^(wait|test)(all|any|some)", r"\1"),
    (r"^i(?=neighbor|all|bar|bc|exs|gath|red|scan|scat|sendr)", ""),
    (r"(gather|scatter|alltoall)[vw]$", r"\1"),
    (r"(?<=_)i(?=read|write|dup|flush)", ""),
    (r"^win_(start|complete|post|wait|test)$", "epoch"),
    (r"^(alloc|free)_mem", "mem"),
    (r"^(t_)?(init|finaliz)\w*$", "init"),
    (r"^session_finalize$", "session"),
    (r"_(to|from)int$", ""),
    (r"^r(?=put|get|acc)", ""),
]
COMMON_WORDS = {"comm", "type", "win", "file", "session", "t", "get", "set", "c", "x", "all", "local", "and", "with", "from", "at"}
SAME_WORDS = {
    "unlock": "lock", "detach": "attach", "free": "create", "delete": "create", "unpack": "pack", "dup": "create", "test": "wait",
    "close": "open", "publish": "name", "unpublish": "name", "lookup": "name",
}
RELATED = 8  # functions in SEE ALSO
SHARE = 1 / 3  # of the words of both names that are in both

SHARED = {
    "LIBRARY": "Mica, libmpi_abi (\\-lmpi_abi), which\n.BR mpicc (1)\nlinks to.\n",
    "RETURNS": "MPI_SUCCESS, or an error code, of which\n.BR MPI_Error_class (3)\ngives the class.\n",
    "ERRORS": """\
Before it returns an error, the function calls the error handler of its
communicator, window, file or session; where there is none, that of
MPI_COMM_SELF.
The handler that is set at first, MPI_ERRORS_ARE_FATAL, ends the job; with
MPI_ERRORS_RETURN the caller gets the code.
.BR MPI (3)
lists the error classes.
""",
    "TOOLRETURNS": "MPI_SUCCESS, or an error code of the tools interface (MPI_T_ERR_...).\n",
    "TOOLERRORS": "No error handler is called.\n.BR MPI (3)\nlists the error codes.\n",
    "OVERVIEW": """\
Mica has the functions of MPI 5.0, with the standard ABI.
Each has a page of this section.
Each has a second name, PMPI_X for MPI_X, so that a tool can stand before it.
Where a function has counts or displacements, MPI_X_c takes them with 64 bits;
both have one page.
""",
    "COPYRIGHT": """\
Bindings and descriptions of parameters are those of the MPI standard, version
5.0, as the MPI Forum publishes them for programs (pympistandard).
""",
}


def text(functions: list[Function], shims: Shims, note: str) -> str:
    """The text of `docs/man/functions.3`."""
    manual = _Manual(functions, shims)
    out = [f"# {note.replace('`', '')}\n"]
    out += [f"=== {name}\n{shared}" for name, shared in SHARED.items()]
    out.append(f"=== MPI.3\n{manual.overview()}")
    for function in functions:
        page = f".so man3/{function.plain}.3\n" if function.large else manual.page(function)
        out.append(f"=== {function.name}.3\n{page}")
    return "".join(out)


def summaries(functions: list[Function]) -> dict[str, str]:
    """What each function does, by the names without `_c`."""
    plain = {f.plain for f in functions}
    said: dict[str, str] = {}
    for line in (api.DATA / "summaries.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, summary = line.split(" ", 1)
            if name not in plain or name in said:
                raise SystemExit(f"summaries.txt: {name}: no such function, or described twice")
            said[name] = summary
    derived = {name: _derived(name, said) for name in sorted(plain - said.keys())}
    if missing := [name for name, summary in derived.items() if not summary]:
        raise SystemExit(f"summaries.txt: no line for {', '.join(missing)}")
    return said | derived


def _derived(name: str, said: dict[str, str]) -> str | None:
    """The summary of a function that is another form of one which has a summary."""
    if conversion := re.fullmatch(r"MPI_(\w+)_(to|from)int", name):
        handle = "datatype" if conversion[1] == "Type" else conversion[1]
        ways = {"to": f"convert an MPI_{handle.capitalize()} to an integer", "from": f"convert an integer to an MPI_{handle.capitalize()}"}
        return ways[conversion[2]]
    if (blocking := _blocking(name)) in said:
        return f"{said[blocking]}, {'persistent' if name.endswith('_init') else 'nonblocking'}"
    return None


def _blocking(name: str) -> str:
    """The name of the blocking form, if `name` has the form of a nonblocking or persistent one."""
    if name.endswith("_init"):
        return name.removesuffix("_init")
    bare = name.removeprefix("MPI_")
    return f"MPI_{bare[1:2].upper()}{bare[2:]}" if bare.startswith("I") else ""


class _Manual:
    """The pages of all functions."""

    def __init__(self, functions: list[Function], shims: Shims):
        self.functions = [f for f in functions if not f.large]
        self.named = {f.name: f for f in functions}
        self.said = summaries(functions)
        self.shims = shims

    def page(self, function: Function) -> str:
        large = self.named.get(f"{function.name}_c")
        forms = [function, large] if large else [function]
        out = [_title(function.name), _name([f.name for f in forms], self.said[function.name]), _synopsis(_bindings(forms))]
        out += [".SH DESCRIPTION\n", ".PP\n".join(self._description(function, large))]
        # The large form can have more parameters.
        if params := max((f.params for f in forms), key=len):
            out += [".SH PARAMETERS\n", *map(_parameter, params)]
        if function.errors:
            tool = "TOOL" if function.tool else ""
            out.append(f".SH RETURN VALUE\n@{tool}RETURNS\n.SH ERRORS\n@{tool}ERRORS\n")
        elif function.returns != "void":
            out.append(".SH RETURN VALUE\n" + _text(f"The result, of type {function.returns}. There is no error code."))
        if notes := self._notes(function):
            out.append(".SH NOTES\n" + _text(notes))
        related = [other.name for other in self._related(function)] + _completed_by(function)
        out.append(_see_also([(name, 3) for name in [*related, "MPI"]]))
        return "".join(out) + ".SH COPYRIGHT\n@COPYRIGHT\n"

    def overview(self) -> str:
        """The page `MPI`: what all functions share, their names by chapter, and the error classes."""
        summary = "the functions of the Message Passing Interface, as Mica has them"
        out = [_title("MPI"), _name(["MPI"], summary), _synopsis("mpicc \\-o program program.c\nmpiexec \\-n 4 ./program\n")]
        out.append(".SH DESCRIPTION\n@OVERVIEW\n")
        for family, chapter, _ in api.by_chapter():
            members = [f.name for f in self.functions if f.family == family]
            out += [f".SS {chapter.lstrip('0123456789, ')}\n", _text(", ".join(members) + ".")]
        classes = next(section for section in constants.load() if section.title == "Error classes")
        out += [".SH ERRORS\n", *(f".TP\n.B {name}\n{_text(said)}" for name, _, said in classes.constants)]
        return "".join(out) + _see_also([("mica", 1), ("mpicc", 1), ("mpiexec", 1)])

    def _description(self, function: Function, large: Function | None) -> list[str]:
        bare = function.plain.removeprefix("MPI_")
        chapter = next(chapter for family, chapter, _ in api.FAMILIES if family == function.family)
        number, subject = re.fullmatch(r"([\d, ]+) (.*)", chapter).groups()
        out = [f"MPI 5.0 describes it in chapter {number.replace(', ', ' or ')}, {subject}."]
        if version := api.DEPRECATED.get(function.name):
            out.append(f"It is deprecated since {version}.")
        if members := _members(function, bare):
            out.append(f"It is collective: all processes {members} call it.")
        if LOCAL.fullmatch(bare):
            out.append("It is local: it does not wait for other processes.")
        if completion := self._completion(function, bare):
            out.append(completion)
        if large:
            out.append(f"{large.name} takes counts and displacements of 64 bits.")
        return [_text(sentence) for sentence in out]

    def _completion(self, function: Function, bare: str) -> str:
        """When the operation that a call is about is complete, and its other forms."""
        if ONE_SIDED.fullmatch(bare):
            return "It is nonblocking: the operation is complete after the synchronization that ends its epoch, or a flush."
        if _makes_request(function) and bare.endswith("_init"):
            return "It makes a persistent request: each MPI_Start starts the operation, and MPI_Wait or MPI_Test completes it."
        has_buffers = any(p.kind == "BUFFER" for p in function.params)
        if _makes_request(function) and bare != "Grequest_start":
            begun = "It is nonblocking: it starts the operation, and MPI_Wait or MPI_Test completes it."
            return begun + (" Until then the buffers belong to the operation." if has_buffers else "")
        others = [f.name for f in self.functions if _blocking(f.name) == function.name and _makes_request(f)]
        forms = [f" {other} is its {_form(other)} form." for other in others]
        ended = "It is blocking: when it returns, the buffers can be used again." if has_buffers else "It is blocking."
        return ended + "".join(forms) if forms else ""

    def _notes(self, function: Function) -> str:
        """What is of Mica alone."""
        if conversion := re.fullmatch(r"MPI_(\w+)_(to|from)int", function.name):
            old = {"to": "c2f", "from": "f2c"}[conversion[2]]
            return f"MPI_{conversion[1]}_{old} is a macro for it." if conversion[1] in header.CONVERTED else ""
        return ""

    def _related(self, function: Function) -> list[Function]:
        """Other functions of the chapter whose names share most of their words with this one's."""
        own = _words(function.name)

        def share(other: Function) -> float:
            words = _words(other.name)
            return len(own & words) / len(own | words)

        others = [f for f in self.functions if f.family == function.family and f is not function and share(f) >= SHARE]
        nearest = sorted(others, key=share, reverse=True)[:RELATED]
        return [f for f in others if f in nearest]


def _makes_request(function: Function) -> bool:
    return any(p.kind == "REQUEST" and p.listed.direction == "OUT" and not p.array for p in function.params)


def _completed_by(function: Function) -> list[str]:
    """The functions that take the request of a call."""
    if not _makes_request(function):
        return []
    return ["MPI_Start", "MPI_Wait"] if function.name.endswith("_init") else ["MPI_Test", "MPI_Wait"]


def _form(name: str) -> str:
    return "persistent" if name.endswith("_init") else "nonblocking"


def _members(function: Function, bare: str) -> str:
    """Of what all processes take part in a call, if it is collective."""
    if function.family == "collectives" and bare != "Reduce_local" and not bare.startswith("Op_"):
        return "of comm"
    if COLLECTIVE_OF_GROUP.fullmatch(bare):
        return "of the group" if bare.startswith("Comm") else "of both groups"
    if not COLLECTIVE.fullmatch(bare):
        return ""
    kinds = ("COMMUNICATOR", "WINDOW", "FILE")
    own = next((p.name for p in function.params if p.kind in kinds), None)
    return f"of {own}" if own else "of the job"


def _words(name: str) -> set[str]:
    """What a function is about, by its name."""
    bare = name.removeprefix("MPI_").removesuffix("_init").lower()
    for form, stem in FORMS:
        bare = re.sub(form, stem, bare)
    words = {SAME_WORDS.get(word, word) for word in bare.split("_")}
    return words - COMMON_WORDS or words


def _title(name: str) -> str:
    # Without hyphens in names.
    return f".TH {name} 3 {DATE} Mica MPI\n.nh\n.ad l\n"


def _name(names: list[str], summary: str) -> str:
    return f".SH NAME\n{', '.join(names)} \\- {summary}\n.SH LIBRARY\n@LIBRARY\n"


def _synopsis(code: str) -> str:
    return f".SH SYNOPSIS\n.nf\n.B #include <mpi.h>\n.PP\n{code}.fi\n"


def _bindings(forms: list[Function]) -> str:
    """The declarations, with the functions' names in bold and those of the parameters in italics."""
    declared = []
    for function in forms:
        text = header.declaration(function, width=WIDTH).replace(f"{function.name}(", f"\\fB{function.name}\\fP(")
        for name in {p.name for p in function.params if not p.variadic}:
            text = re.sub(rf"(?<=[ *]){name}(?=[,)[])", lambda found: f"\\fI{found[0]}\\fP", text)
        declared.append(text)
    return ".PP\n".join(declared)


def _parameter(param: Param) -> str:
    listed = param.listed
    text = _plain(listed.text) or UNDESCRIBED.get(param.kind) or param.kind.lower()
    if listed.root_only and "significant only" not in text:
        text += " (significant only at the root)"
    if param.large_only:
        text += " (of the large-count form only)"
    name = "..." if param.variadic else param.name
    return f".TP\n.IR {name} \" ({listed.direction})\"\n{_text(text)}"


def _plain(latex: str) -> str:
    """The text of a description."""
    text = re.sub(r"\$([^$]*)\$", r"\1", latex)
    marked = re.compile(r"\\(?:mpiarg|mpicode|mpiconst|mpifunc|code|mbox)\{([^{}]*)\}")
    while (bare := marked.sub(r"\1", text)) != text:
        text = bare
    text = re.sub(r"\\(MPI|RMA)/", r"\1", text).replace("\\mpi", "MPI").replace("\\_", "_").replace("~", " ")
    text = text.replace("``", '"').replace("''", '"')
    if left := re.search(r"[\\{}$]", text):
        raise SystemExit(f"man.py: {left[0]!r} in {latex!r}: no rule for it")
    return text


def _see_also(pages: list[tuple[str, int]]) -> str:
    return ".SH SEE ALSO\n" + ",\n".join(f".BR {name} ({section})" for name, section in pages).replace("),", ") ,") + "\n"


def _text(text: str) -> str:
    """A paragraph, in lines that are safe at their start."""
    lines = textwrap.wrap(text.replace("\\", "\\e"), 78, break_long_words=False, break_on_hyphens=False)
    return "".join(("\\&" if line[0] in ".'" else "") + line + "\n" for line in lines)
