"""`include/mpi.h`: the C header of the MPI 5.0 standard ABI."""

from __future__ import annotations

import textwrap

import api
import constants
from api import Callback, Function

HANDLES = ["Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session", "Win"]
TOOL_HANDLES = ["cvar_handle", "enum", "event_instance", "event_registration", "pvar_handle", "pvar_session"]

# Handles that C and Fortran exchange; MPI 5.0 leaves these conversions to the compiler's INTEGER, which is an int here.
CONVERTED = ["Comm", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session", "Type", "Win"]

HEAD = """\
/* mpi.h: the C interface of MPI 5.0, standard ABI (MPI 5.0, chapter 20 and annex A).
 *
 * {note}
 */

#ifndef MPI_H_ABI
#define MPI_H_ABI

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {{
#endif
"""

TYPES = """
/* Integers */

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

/* Status */

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;
"""

OLD_NAMES = """
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;       /* deprecated: MPI 2.2 */
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;       /* deprecated: MPI 2.2 */
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;         /* deprecated: MPI 2.2 */
typedef MPI_Session_errhandler_function MPI_Session_errhandler_fn;
"""

STATUS_CONVERSION = """
static inline int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status)
{
    int i;
    f_status[MPI_F_SOURCE] = c_status->MPI_SOURCE;
    f_status[MPI_F_TAG] = c_status->MPI_TAG;
    f_status[MPI_F_ERROR] = c_status->MPI_ERROR;
    for (i = 0; i < 5; i++)
        f_status[3 + i] = c_status->MPI_internal[i];
    return MPI_SUCCESS;
}

static inline int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status)
{
    int i;
    c_status->MPI_SOURCE = f_status[MPI_F_SOURCE];
    c_status->MPI_TAG = f_status[MPI_F_TAG];
    c_status->MPI_ERROR = f_status[MPI_F_ERROR];
    for (i = 0; i < 5; i++)
        c_status->MPI_internal[i] = f_status[3 + i];
    return MPI_SUCCESS;
}

#define PMPI_Status_c2f MPI_Status_c2f
#define PMPI_Status_f2c MPI_Status_f2c
"""

TAIL = """
#if defined(__cplusplus)
}
#endif

#endif /* MPI_H_ABI */
"""


def text(functions: list[Function], callbacks: list[Callback], note: str) -> str:
    out = [HEAD.format(note=note.replace("`", "")), _versions(), TYPES, "\n/* Handles */\n\n"]
    out += [f"typedef struct MPI_ABI_{name} *MPI_{name};\n" for name in HANDLES]
    out += [f"typedef struct MPI_T_{name}_t *MPI_T_{name};\n" for name in TOOL_HANDLES]
    sections = constants.load()[1:]
    out += [_enum(s) for s in sections if s.c_type.startswith("enum ")]
    out += ["\n/* Callbacks */\n\n"]
    for callback in callbacks:
        out.append(_wrapped(callback.typedef, _deprecation(callback.name)))
    out.append(OLD_NAMES)
    out += [_defines(s) for s in sections if not s.c_type.startswith("enum ")]
    for prefix in ("", "P"):
        out.append(f"\n/* Functions, {prefix}MPI_ */\n\n")
        for function in functions:
            out.append(declaration(function, prefix))
    out.append("\n/* Handle conversion for Fortran, whose INTEGER is taken to be an int */\n\n")
    for prefix in ("", "P"):
        for name in CONVERTED:
            out.append(f"#define {prefix}MPI_{name}_c2f {prefix}MPI_{name}_toint\n")
            out.append(f"#define {prefix}MPI_{name}_f2c {prefix}MPI_{name}_fromint\n")
    out += [STATUS_CONVERSION, TAIL]
    return "".join(out)


def _versions() -> str:
    return _defines(constants.load()[0])


def _defines(section: constants.Section) -> str:
    lines = [f"\n/* {section.title} */\n\n"]
    for name, value, _ in section.constants:
        lines.append(f"#define {name:<36} {_value(section, value)}\n")
    return "".join(lines)


def _value(section: constants.Section, value: int) -> str:
    if section.c_type == "int":
        return str(value) if value >= 0 else f"({value})"
    if section.rust_type == "u32":
        return f"(({section.c_type}) 0x{value:08x})"
    return f"(({section.c_type}) {value})"


def _enum(section: constants.Section) -> str:
    name = section.c_type.removeprefix("enum ")
    items = ",\n".join(f"    {constant} = {value}" for constant, value, _ in section.constants)
    return f"\n/* {section.title} */\n\ntypedef enum {name} {{\n{items}\n}} {name};\n"


def _deprecation(name: str) -> str:
    version = api.DEPRECATED.get(name)
    return f" /* deprecated: {version} */" if version else ""


def declaration(function: Function, prefix: str = "", width: int = 100) -> str:
    """The lines that declare a function."""
    return _wrapped(function.prototype(prefix) + ";", _deprecation(function.name), width)


def _wrapped(text: str, comment: str, width: int = 100) -> str:
    lines = textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False)
    return "\n".join(lines).replace(api.GLUE, " ") + comment + "\n"
