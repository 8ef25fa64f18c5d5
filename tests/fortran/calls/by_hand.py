"""Functions whose arguments in Fortran and in C differ in more than their form: callbacks, attributes, arrays of texts, lengths
of texts, values that are returned. by_hand.h has their counterparts in C."""

from __future__ import annotations

from declarations import api
from program import Program, handle_result, listed, result

OBJECTS = ("Comm", "Type", "Win")
HANDLES = {"Comm": "MPI_Comm", "Type": "MPI_Datatype", "Win": "MPI_Win", "File": "MPI_File", "Session": "MPI_Session"}
# The kinds of objects in the library's table.
KINDS = {"Comm": 0, "Win": 1, "File": 2, "Session": 3, "Type": 4}

# What no other function is like, in C and in Fortran.
NAMES_IN_C = {
    *(f"MPI_{o}_{verb}_attr" for o in OBJECTS for verb in ("set", "get")), "MPI_Attr_put", "MPI_Attr_get", "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple", "MPI_Info_get", "MPI_Info_get_string", "MPI_Session_get_nth_pset", "MPI_Pcontrol", "MPI_Wtime", "MPI_Wtick",
    "MPI_Aint_add", "MPI_Aint_diff", "MPI_Grequest_start", "MPI_Register_datarep", "MPI_Register_datarep_c",
}
NAMES = NAMES_IN_C | {
    *(f"MPI_{o}_create_keyval" for o in OBJECTS), *(f"MPI_{o}_create_errhandler" for o in ("Comm", "Win", "File", "Session")),
    "MPI_Keyval_create", "MPI_Op_create", "MPI_Op_create_c", "MPI_F_sync_reg", "MPI_Sizeof", "MPI_Status_f2f08", "MPI_Status_f082f",
}
# Callbacks that MPI has.
PREDEFINED = {
    *(f"MPI_{o}{function}_FN" for o in ("", "COMM_", "TYPE_", "WIN_") for function in ("NULL_COPY", "DUP", "NULL_DELETE")),
    "MPI_CONVERSION_FN_NULL",
}
# It has a result for each type, and mpif.h no interfaces.
ABSENT = {"mpif": {"MPI_Sizeof"}}


def add(program: Program) -> str:
    """Adds the calls, and returns the module of the callbacks."""
    _buffers(program)
    _comparisons(program)
    _texts(program)
    _values(program)
    _attributes(program)
    _operators(program)
    _handlers(program)
    _keyvals(program)
    _predefined(program)
    _requests(program)
    _representations(program)
    return _callbacks(program)


def _buffers(p: Program) -> None:
    """Actual arguments of other kinds than the elements and sections of an array."""
    lines = ["part => block(:, 5)", "call c_f_pointer(c_loc(block(1, 6)), words, [8])"]
    arguments = ["5", p.handle("MPI_Datatype", 6), "7", "8", p.handle("MPI_Comm", 9), "ierror"]
    rest = ["count=5", "datatype=6", "dest=7", "tag=8", "comm=9"]
    buffers = [("part", 128), ("part(3:4)", 136), ("words", 160), ("words(2)", 164), ("words(3:8)", 168)]
    if p.interface == "mpif":
        # Without an interface all are of one type.
        buffers = [("part(1)", 128), ("part(3)", 136)]
    for buffer, offset in buffers:
        p.call(lines, "MPI_Send", [buffer, *arguments[:-1]], [f"buf=block+{offset}", *rest])
    for name, declared, given, offset in (("assumed_size", "*", "block(1, 7)", 192), ("assumed_shape", ":", "block(3:6, 8)", 232)):
        p.procedures += [f"subroutine {name}(buffer)", f"  integer :: buffer({declared}), ierror",
                         f"  call MPI_Send({'buffer(1)' if p.interface == 'mpif' else 'buffer'}, {', '.join(arguments)})", "end subroutine", ""]
        p.statement(lines, "MPI_Send", f"call {name}({given})", [f"buf=block+{offset}", *rest])
    p.procedure("buffers", ["integer, pointer :: part(:)", "character(len=4), pointer :: words(:)"], lines)


def _comparisons(p: Program) -> None:
    """Of handles, in mpi_f08."""
    if p.interface != "f08":
        return
    lines: list[str] = []
    for kind in ("Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session", "Win"):
        back = [(f"{a}{operator}{b}", f"MPI_{kind}({a}) {operator} MPI_{kind}({b})", str(int((a == b) == (operator == "=="))))
                for operator in ("==", "/=") for a, b in ((5, 5), (5, 6))]
        p.statement(lines, f"operators of MPI_{kind}", "continue", None, back)
    p.procedure("comparisons", [], lines)


# Calls of each function: prefix, code, whether `ierror` is there.
THREE = (("", 0, True), ("", 0, False), ("P", 7777, True))


def _texts(p: Program) -> None:
    info, session = p.handle("MPI_Info", 0x80001234), p.handle("MPI_Session", 21)
    given = f"info={0x80001234}"
    lines: list[str] = []
    # Room for 20 characters, or for 4; the second call finds nothing.
    for length, special, prefix, code in ((20, 0, "", 0), (4, 0, "", 0), (20, 1, "", 0), (20, 0, "P", 7777)):
        found = not special and not code
        before = "unchanged"
        text = ("0123456789"[:length] if found else before).ljust(20)
        lines += [f"value = '{before}'", "flag = .true.", f"length = {length}"]
        flag = ("flag", "flag", "0" if special else "1")
        value = ("value", "value", f'"{text}"')
        p.call(lines, "MPI_Info_get", [info, "'  a key '", str(length), "value", "flag"], [given, 'key="a key"', f"valuelen={length}"],
               [value, flag], code, special, prefix, not special)
        lines += [f"value = '{before}'", "flag = .true.", f"length = {length}"]
        after = 10 if found else length
        p.call(lines, "MPI_Info_get_string", [info, "'  a key '", "length", "value", "flag"],
               [given, 'key="a key"', f"buflen={length + 1}"], [value, flag, ("length", "length", str(after))], code, special, prefix,
               not special)
        if special:
            continue
        lines += [f"value = '{before}'", f"length = {length}"]
        p.call(lines, "MPI_Session_get_nth_pset", [session, info, "2", "length", "value"],
               ["session=21", given, "n=2", f"pset_len={length + 1}"], [value, ("length", "length", str(after))], code, 0, prefix, length == 20)
    # A value of no characters.
    lines += ["value = 'unchanged'", "flag = .false.", "length = 20"]
    p.call(lines, "MPI_Info_get_string", [info, "'empty'", "length", "value", "flag"], [given, 'key="empty"', "buflen=21"],
           [("value", "value", '"' + 20 * " " + '"'), ("flag", "flag", "1"), ("length", "length", "0")])
    # No room: the length alone.
    lines += ["value = 'unchanged'", "length = 0"]
    p.call(lines, "MPI_Session_get_nth_pset", [session, info, "2", "length", "value"], ["session=21", given, "n=2", "pset_len=0"],
           [("value", "value", '"' + "unchanged".ljust(20) + '"'), ("length", "length", "10")])
    p.procedure("texts", ["character(len=20) :: value", "integer :: length", "logical :: flag"], lines)
    _spawn(p)


def _spawn(p: Program) -> None:
    lines: list[str] = []
    info, comm = p.handle("MPI_Info", 0x80001234), p.handle("MPI_Comm", 33)
    infos = f"[{info}, {p.handle('MPI_Info', 22)}]"
    for prefix, code, ierror in THREE:
        k = p.calls + 1
        lines += [f"child = {p.handle('MPI_Comm', 44)}", "codes = [7, 8, 9]"]
        plain = ierror
        child = 44 if code else handle_result(k, 0)
        codes = listed(7 + e if code or not plain else result(k, 1, e) for e in range(3))
        back = [("child", p.value("child"), str(child)), ("codes", "codes", codes)]
        argv = "['one    ', ' two 2 ', '       ']" if plain else "MPI_ARGV_NULL"
        p.call(lines, "MPI_Comm_spawn", ["' a command  '", argv, "3", info, "1", comm, "child", "codes" if plain else "MPI_ERRCODES_IGNORE"],
               ['command=" a command"', 'argv="one";" two 2";' if plain else "argv=null", "maxprocs=3", f"info={0x80001234}", "root=1",
                "comm=33", "array_of_errcodes=" + ("place" if plain else "null")], back, code, 0, prefix, ierror)
        k = p.calls + 1
        lines += [f"child = {p.handle('MPI_Comm', 44)}", "codes = [7, 8, 9]"]
        child = 44 if code else handle_result(k, 0)
        codes = listed(7 + e if code or not plain else result(k, 1, e) for e in range(3))
        back = [("child", p.value("child"), str(child)), ("codes", "codes", codes)]
        argvs = "reshape(['a1', 'b1', 'a2', '  ', '  ', '  '], [2, 3])" if plain else "MPI_ARGVS_NULL"
        first, second = ('argv="a1";"a2";', 'argv="b1";') if plain else ("argv=null", "argv=null")
        p.call(lines, "MPI_Comm_spawn_multiple", ["2", "['x ', 'yy']", argvs, "[1, 2]", infos, "1", comm, "child",
                                                  "codes" if plain else "MPI_ERRCODES_IGNORE"],
               ['command="x"', first, 'command="yy"', second, "maxprocs=1,2", f"infos={0x80001234},22", "root=1", "comm=33",
                "array_of_errcodes=" + ("place" if plain else "null")], back, code, 0, prefix, ierror)
    p.procedure("spawn", [f"{p.handle_type('MPI_Comm')} :: child", "integer :: codes(3)"], lines)


def _values(p: Program) -> None:
    lines: list[str] = []
    for prefix in ("", "P"):
        for name in ("Wtime", "Wtick"):
            k = p.calls + 1
            p.statement(lines, f"MPI_{name}", f"seconds = {prefix}MPI_{name}()", [], [("twice", "int(2 * seconds)", str(2 * k + 1))], prefix=prefix)
        for name in ("add", "diff"):
            k = p.calls + 1
            p.statement(lines, f"MPI_Aint_{name}", f"wide = {prefix}MPI_Aint_{name}(1099511627776_8, -5_8)",
                        ["first=1099511627776", "second=-5"], [("wide", "wide", str(result(k, 0) + (1 << 41)))], prefix=prefix)
        p.statement(lines, "MPI_Pcontrol", f"call {prefix}MPI_Pcontrol(-3)", ["level=-3"], prefix=prefix)
        p.statement(lines, "MPI_F_sync_reg", f"call {prefix}MPI_F_sync_reg(block(1, 1))", None, prefix=prefix)
        if p.interface != "mpif":
            for variable, size in (("block", 4), ("seconds", 8), ("text", 13), ("pairs", 16)):
                p.call(lines, "MPI_Sizeof", [variable, "length"], None, [("length", "length", str(size))], prefix=prefix, ierror=size != 4)
        # A status is the same in all interfaces, with its hidden words.
        ints, typed = "[11, 12, 13, 14, 15, 16, 17, 18]", "type(MPI_Status) :: typed"
        lines += [f"words = {ints}", "words_back = 0"]
        p.call(lines, "MPI_Status_f2f08", ["words", "typed"], None, [("source", p.status_field("typed", "MPI_SOURCE"), "11")], prefix=prefix)
        p.call(lines, "MPI_Status_f082f", ["typed", "words_back"], None, [("words", "words_back", "11,12,13,14,15,16,17,18")], prefix=prefix,
               ierror=False)
    if p.interface == "mpi":
        lines = [line.replace("typed(MPI_SOURCE)", "typed%MPI_SOURCE") for line in lines]
    if p.interface == "mpif":
        typed = "integer :: typed(MPI_STATUS_SIZE)"
    p.procedure("values", ["double precision :: seconds", "integer(8) :: wide", "character(len=13) :: text(2:5)", "complex(kind(1d0)) :: pairs(2)",
                           "integer :: length, words(MPI_STATUS_SIZE), words_back(MPI_STATUS_SIZE)", typed], lines)


def _attributes(p: Program) -> None:
    lines: list[str] = []
    keys = dict(api.constants())
    kinds = [(o, f"MPI_{o}_set_attr", f"MPI_{o}_get_attr", True) for o in OBJECTS]
    if p.interface != "f08":
        kinds.append(("Comm", "MPI_Attr_put", "MPI_Attr_get", False))
    for o, put, get, is_wide in kinds:
        object_, shown = p.handle(HANDLES[o], 0x8000ABCD), f"object={0x8000ABCD}"
        value, variable = (str(-(1 << 40) - 1) + "_8", "wide") if is_wide else ("-77", "number")
        plain = value.removesuffix("_8")
        for prefix, code, ierror in THREE:
            p.call(lines, put, [object_, "1", f"({value})"], [shown, "keyval=1", f"value={plain}"], [], code, 0, prefix, ierror)
        # What Fortran has set, what C has set, what MPI has set, nothing.
        found = [("1", plain), ("2", "123456"), ("3", "5"), (str(keys["MPI_TAG_UB"]), "4711"), (str(keys["MPI_WIN_BASE"]), "654321"),
                 (str(keys["MPI_WIN_MODEL"]), "4711")]
        if is_wide:
            found.append((str(keys["MPI_WIN_SIZE"]), str(1 << 42)))
        for key, after in found:
            lines += [f"{variable} = 5", "flag = .true."]
            p.call(lines, get, [object_, key, variable, "flag"], [shown, f"keyval={key}"],
                   [("value", variable, after), ("flag", "flag", "0" if key == "3" else "1")], ierror=key != "2")
        lines += [f"{variable} = 5", "flag = .false."]
        p.call(lines, get, [object_, "1", variable, "flag"], [shown, "keyval=1"], [("value", variable, "5"), ("flag", "flag", "0")], 7777, 0, "P")
    p.procedure("attributes", ["integer(8) :: wide", "integer :: number", "logical :: flag"], lines)


def _made(p: Program, lines, name, arguments, variable, kind, arrives, callback=()):
    """Calls a function that creates something with a callback: as `THREE` says."""
    for prefix, code, ierror in THREE:
        k = p.calls + 1
        before = p.handle(kind, 44) if kind else "44"
        lines.append(f"{variable} = {before}")
        after = 44 if code else handle_result(k, 0) if kind else result(k, 0)
        value = p.value(variable) if kind else variable
        seen = [text.replace("HANDLE", str(handle_result(k, 1))) for text in callback]
        p.call(lines, name, arguments, [*arrives, *([] if code else seen)], [(variable, value, str(after))], code, 0, prefix, ierror)


def _operators(p: Program) -> None:
    lines: list[str] = []
    seen = "\ncallback operator invec=block+64 inoutvec=block+96 len={} datatype=HANDLE"
    for commute in (0, 1):
        _made(p, lines, "MPI_Op_create", ["operator_small", f".{'true' if commute else 'false'}.", "op"], "op", "MPI_Op",
              ["table op_create", f"most={2**31 - 1}", f"commute={commute}"], [seen.format(5)])
    if p.interface == "f08":
        _made(p, lines, "MPI_Op_create_c", ["operator_large", ".true.", "op"], "op", "MPI_Op",
              ["table op_create", f"most={2**63 - 1}", "commute=1"], [seen.format(1 << 33)])
    p.procedure("operators", [f"{p.handle_type('MPI_Op')} :: op"], lines)


def _handlers(p: Program) -> None:
    lines: list[str] = []
    for o in ("Comm", "Win", "File", "Session"):
        _made(p, lines, f"MPI_{o}_create_errhandler", [f"handler_{o.lower()}", "errhandler"], "errhandler", "MPI_Errhandler",
              ["table create_errhandler", f"kind={KINDS[o]}"], [f"\ncallback handler_{o.lower()} object=HANDLE code=17"])
    p.procedure("handlers", [f"{p.handle_type('MPI_Errhandler')} :: errhandler"], lines)


def _keyvals(p: Program) -> None:
    lines: list[str] = []
    kinds = [(o, f"MPI_{o}_create_keyval", f"{o.upper()}_", "_8") for o in OBJECTS]
    if p.interface != "f08":
        kinds.append(("Comm", "MPI_Keyval_create", "", ""))
    for o, name, fixed, kind in kinds:
        low = o.lower() if fixed else "old"
        arrives = ["table create_keyval", f"kind={KINDS[o]}"]
        extra = 1 << 40 if kind else 5
        copied = f"\ncallback copy_{low} object=HANDLE keyval=19 extra={{}} in=123456"
        deleted = f"\ncallback delete_{low} object=HANDLE keyval=19 value={{}} extra={{}}"
        # The procedure copies the value and 1; a state of 99 says that nothing is to be copied, one of 98 that it fails.
        _made(p, lines, name, [f"copy_{low}", f"delete_{low}", "keyval", f"{extra}{kind}"], "keyval", "", arrives,
              [copied.format(extra), "\nreturned code=0 flag=1 value=123457", deleted.format(123457, extra), "\nreturned code=35"])
        for state, code in ((99, 0), (98, 33)):
            _made(p, lines, name, [f"copy_{low}", f"delete_{low}", "keyval", f"{state}{kind}"], "keyval", "", arrives,
                  [copied.format(state), f"\nreturned code={code} flag={int(state == 98)}", deleted.format(123456, state), "\nreturned code=35"])
        for function, flag, value in (("NULL_COPY", 0, ""), ("DUP", 1, " value=123456")):
            _made(p, lines, name, [f"MPI_{fixed}{function}_FN", f"MPI_{fixed}NULL_DELETE_FN", "keyval", f"3{kind}"], "keyval", "",
                  arrives, [f"\nreturned code=0 flag={flag}{value}", "\nreturned code=0"])
    p.procedure("keyvals", ["integer :: keyval"], lines)


def _predefined(p: Program) -> None:
    """Programs call them, too."""
    lines: list[str] = []
    kinds = [(f"{o.upper()}_", HANDLES[o], "wide", "_8") for o in OBJECTS]
    if p.interface != "f08":
        kinds.append(("", "MPI_Comm", "number", ""))
    for fixed, kind, variable, suffix in kinds:
        start = f"{p.handle(kind, 5)}, 6, 7{suffix}"
        for function, flag, after in (("NULL_COPY", 0, 5), ("DUP", 1, 8)):
            name = f"MPI_{fixed}{function}_FN"
            lines += [f"{variable} = 5", f"flag = .{'false' if flag else 'true'}.", "ierror = -1"]
            p.statement(lines, name, f"call {name}({start}, 8{suffix}, {variable}, flag, ierror)", None,
                        [("ierror", "ierror", "0"), ("value", variable, str(after)), ("flag", "flag", str(flag))])
        name = f"MPI_{fixed}NULL_DELETE_FN"
        lines.append("ierror = -1")
        p.statement(lines, name, f"call {name}({start}, 8{suffix}, ierror)", None, [("ierror", "ierror", "0")])
    p.procedure("predefined", ["integer(8) :: wide", "integer :: number", "logical :: flag"], lines)


def _requests(p: Program) -> None:
    lines: list[str] = []
    for (prefix, code, ierror), complete in zip(THREE, (0, 1, 0)):
        k = p.calls + 1
        lines.append(f"request = {p.handle('MPI_Request', 44)}")
        seen = [
            f"\ncallback query extra={1 << 40}", "\nreturned code=41 status=51,52,53",
            f"\ncallback cancel extra={(1 << 40) + 1} complete={complete}", "\nreturned code=42",
            f"\ncallback free extra={(1 << 40) + 1}", "\nreturned code=43",
        ]
        after = 44 if code else handle_result(k, 0)
        p.call(lines, "MPI_Grequest_start", ["query_request", "free_request", "cancel_request", f"{1 << 40}_8", "request"], [] if code else seen,
               [("request", p.value("request"), str(after))], code, complete, prefix, ierror)
    p.procedure("requests", [f"{p.handle_type('MPI_Request')} :: request"], lines)


def _representations(p: Program) -> None:
    lines: list[str] = []
    forms = [("", "small", "MPI_CONVERSION_FN_NULL")]
    if p.interface == "f08":
        forms.append(("_c", "large", "MPI_CONVERSION_FN_NULL_C"))
    for suffix, size, null in forms:
        for prefix, code, ierror in THREE:
            k = p.calls + 1
            read = f"read_{size}" if ierror else null
            write = f"write_{size}" if not ierror or code else null
            state = f"extra={1 << 40}"
            seen = f"userbuf=block+64 datatype={handle_result(k, 1)} count=5 filebuf=block+96 position={1 << 40} {state}"
            arrives = ['datarep=" a name"']
            for function, which, returned in ((read, "read", 61), (write, "write", 62)):
                is_null = function == null
                arrives.append(f"\n{which} function=" + ("null" if is_null else "place"))
                arrives += [] if is_null else [f"\ncallback {which}_{size} {seen}", f"\nreturned code={returned}"]
            arrives += [f"\ncallback extent datatype={handle_result(k, 2)} {state}", f"\nreturned code=63 extent={1 << 41}"]
            p.call(lines, f"MPI_Register_datarep{suffix}", ["' a name  '", read, write, "extent", f"{1 << 40}_8"],
                   arrives[:1] if code else arrives, [], code, 0, prefix, ierror)
    p.procedure("representations", [], lines)


# ---------------------------------------------------------------------------------------------------------------------------
# The callbacks


def _callbacks(p: Program) -> str:
    """The module of the program's callbacks, which report what they see."""
    f08 = p.interface == "f08"
    out: list[str] = []

    def procedure(name, arguments, declarations, lines):
        out.extend([f"subroutine {name}({', '.join(arguments)})", *(f"  {d}" for d in declarations), *(f"  {line}" for line in lines),
                    "end subroutine", ""])

    def buffer(name):
        return f"type(c_ptr), value :: {name}" if f08 else f"integer, target :: {name}(*)"

    def place(name):
        return name if f08 else f"c_loc({name}(1))"

    for size, kind in (("small", "integer"), ("large", "integer(8)")):
        procedure(f"operator_{size}", ["invec", "inoutvec", "len", "datatype"],
                  [buffer("invec"), buffer("inoutvec"), f"{kind} :: len", f"{p.handle_type('MPI_Datatype')} :: datatype"],
                  ["call callback('operator')", f"call back_address('invec', {place('invec')})",
                   f"call back_address('inoutvec', {place('inoutvec')})", "call back('len', len)",
                   f"call back('datatype', {p.value('datatype')})"])
        for which, code in (("read", 61), ("write", 62)):
            procedure(f"{which}_{size}", ["userbuf", "datatype", "count", "filebuf", "position", "extra_state", "ierror"],
                      [buffer("userbuf"), buffer("filebuf"), f"{kind} :: count", f"{p.handle_type('MPI_Datatype')} :: datatype",
                       "integer(8) :: position, extra_state", "integer :: ierror"],
                      [f"call callback('{which}_{size}')", f"call back_address('userbuf', {place('userbuf')})",
                       f"call back('datatype', {p.value('datatype')})", "call back('count', count)",
                       f"call back_address('filebuf', {place('filebuf')})", "call back('position', position)",
                       "call back('extra', extra_state)", f"ierror = {code}"])
    procedure("extent", ["datatype", "extent_of", "extra_state", "ierror"],
              [f"{p.handle_type('MPI_Datatype')} :: datatype", "integer(8) :: extent_of, extra_state", "integer :: ierror"],
              ["call callback('extent')", f"call back('datatype', {p.value('datatype')})", "call back('extra', extra_state)",
               f"extent_of = {1 << 41}_8", "ierror = 63"])
    for o in ("Comm", "Win", "File", "Session"):
        procedure(f"handler_{o.lower()}", ["object", "code"], [f"{p.handle_type(HANDLES[o])} :: object", "integer :: code"],
                  [f"call callback('handler_{o.lower()}')", f"call back('object', {p.value('object')})", "call back('code', code)"])
    for o, low, kind in (*((o, o.lower(), "integer(8)") for o in OBJECTS), *([] if f08 else [("Comm", "old", "integer")])):
        procedure(f"copy_{low}", ["object", "keyval", "extra_state", "value_in", "value_out", "flag", "ierror"],
                  [f"{p.handle_type(HANDLES[o])} :: object", "integer :: keyval, ierror", f"{kind} :: extra_state, value_in, value_out",
                   "logical :: flag"],
                  [f"call callback('copy_{low}')", f"call back('object', {p.value('object')})", "call back('keyval', keyval)",
                   "call back('extra', extra_state)", "call back('in', value_in)", "value_out = value_in + 1", "flag = extra_state /= 99",
                   "ierror = merge(33, 0, extra_state == 98)"])
        procedure(f"delete_{low}", ["object", "keyval", "attribute", "extra_state", "ierror"],
                  [f"{p.handle_type(HANDLES[o])} :: object", "integer :: keyval, ierror", f"{kind} :: attribute, extra_state"],
                  [f"call callback('delete_{low}')", f"call back('object', {p.value('object')})", "call back('keyval', keyval)",
                   "call back('value', attribute)", "call back('extra', extra_state)", "ierror = 35"])
    status = [p.status_field("status", field) for field in ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR")]
    procedure("query_request", ["extra_state", "status", "ierror"], ["integer(8) :: extra_state", p.status_type("status"), "integer :: ierror"],
              ["call callback('query')", "call back('extra', extra_state)", "extra_state = extra_state + 1",
               *(f"{field} = {51 + i}" for i, field in enumerate(status)), "ierror = 41"])
    procedure("cancel_request", ["extra_state", "complete", "ierror"], ["integer(8) :: extra_state", "logical :: complete", "integer :: ierror"],
              ["call callback('cancel')", "call back('extra', extra_state)", "call back('complete', complete)", "ierror = 42"])
    procedure("free_request", ["extra_state", "ierror"], ["integer(8) :: extra_state", "integer :: ierror"],
              ["call callback('free')", "call back('extra', extra_state)", "ierror = 43"])
    names = [line.split()[1].partition("(")[0] for line in out if line.startswith("subroutine")]
    module = {"f08": "use mpi_f08", "mpi": "use mpi", "mpif": ""}[p.interface]
    include = "include 'mpif.h'" if p.interface == "mpif" else ""
    public = [f"public :: {name}" for name in names]
    return "\n".join(["module callbacks", "use, intrinsic :: iso_c_binding", "use reports", module, "implicit none", include, "private",
                      *public, "contains", "", *out, "end module", ""]) + "\n"
