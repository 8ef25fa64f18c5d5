//! The bindings generator and its output: up to date, consistent with the ABI's tables, and
//! complete in the library.
//!
//! Python with `pympistandard` is `MICA_PYTHON`, or `target/venv/bin/python`; the library is
//! `MICA_LIB`, or `target/release/libmpi_abi.so`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use mica_tests::workspace;
use std::process::Command;

/// The path in `variable`, or `default` in the build directory of the workspace.
fn path(variable: &str, default: &str) -> PathBuf {
    let target = || {
        std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace().join("target"), PathBuf::from)
    };
    std::env::var_os(variable).map_or_else(|| target().join(default), PathBuf::from)
}

/// Runs a command until it ends and returns its output; panics with both streams if it fails.
fn run<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = S>,
) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// An empty directory for one test.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bindings").join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("the target directory is writable");
    directory
}

fn data(name: &str) -> String {
    let file = workspace().join("bindings/data").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The rows of the ABI's table: the expression in C, and its value.
fn rows() -> Vec<(String, i64)> {
    data("mpi5-abi-constants.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut fields = line.split('\t');
            let name = fields.next().expect("a name");
            let value = fields.next().expect("a value").parse().expect("a decimal value");
            (name.replace("MPI_Status.", "MPI_Status, "), value)
        })
        .collect()
}

fn functions() -> Vec<String> {
    data("mpi5-abi-functions.txt").split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program against `include/mpi.h`; panics with the compiler's messages if that fails.
fn compile(compiler: &str, standard: &str, extra: &[&str], source: &Path, output: &Path) {
    let include = workspace().join("include");
    let mut arguments: Vec<&OsStr> = vec![standard.as_ref()];
    arguments.extend(["-Wall", "-Wextra", "-Werror", "-pedantic", "-I"].map(OsStr::new));
    arguments.push(include.as_ref());
    arguments.extend(extra.iter().map(OsStr::new));
    arguments.extend([source.as_ref(), OsStr::new("-o"), output.as_ref()]);
    run(compiler, arguments);
}

/// A program that compares the header's values with the table and exits with 1 at a difference.
fn comparison() -> String {
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <mpi.h>\n\
         #if MPI_VERSION != 5 || MPI_ABI_VERSION != 1\n\
         #error versions must work in the preprocessor\n#endif\n\
         static int wrong = 0;\n\
         static void compare(const char *name, intptr_t is, intptr_t should)\n{\n\
         \x20   if (is != should) {\n\
         \x20       printf(\"%s is %ld, the ABI says %ld\\n\", name, (long) is, (long) should);\n\
         \x20       wrong = 1;\n    }\n}\n\
         int main(void)\n{\n",
    );
    for (expression, value) in rows() {
        writeln!(program, "    compare(\"{expression}\", (intptr_t) ({expression}), {value});")
            .expect("strings grow");
    }
    program.push_str("    return wrong;\n}\n");
    program
}

/// Assignments that compile only if constants and functions have the standard's types.
const TYPES: &str = r#"
#include <mpi.h>

struct text { char error[MPI_MAX_ERROR_STRING], name[MPI_MAX_PROCESSOR_NAME]; };

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_LONG_LONG_INT;
    MPI_Errhandler errhandler = MPI_ERRORS_RETURN;
    MPI_File file = MPI_FILE_NULL;
    MPI_Group group = MPI_GROUP_EMPTY;
    MPI_Info info = MPI_INFO_ENV;
    MPI_Message message = MPI_MESSAGE_NO_PROC;
    MPI_Op op = MPI_SUM;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Win win = MPI_WIN_NULL;
    MPI_T_pvar_handle pvar = MPI_T_PVAR_ALL_HANDLES;
    MPI_T_cb_safety safety = MPI_T_CB_REQUIRE_THREAD_SAFE;
    MPI_T_source_order order = MPI_T_SOURCE_ORDERED;
    void *bottom = MPI_BOTTOM, *in_place = MPI_IN_PLACE;
    int *weights = MPI_UNWEIGHTED, *codes = MPI_ERRCODES_IGNORE;
    char **words = MPI_ARGV_NULL, ***lists = MPI_ARGVS_NULL;
    MPI_Status *one = MPI_STATUS_IGNORE, *many = MPI_STATUSES_IGNORE;
    MPI_Offset current = MPI_DISPLACEMENT_CURRENT;
    MPI_Comm_copy_attr_function *copy = MPI_COMM_DUP_FN;
    MPI_Type_delete_attr_function *erase = MPI_TYPE_NULL_DELETE_FN;
    MPI_Datarep_conversion_function_c *convert = MPI_CONVERSION_FN_NULL_C;
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm) = MPI_Send;
    int (*send_c)(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm) = PMPI_Send_c;
    int (*alltoallw)(const void *, const MPI_Count[], const MPI_Aint[], const MPI_Datatype[],
                     void *, const MPI_Count[], const MPI_Aint[], const MPI_Datatype[],
                     MPI_Comm) = MPI_Alltoallw_c;
    int (*ranges)(MPI_Group, int, int[][3], MPI_Group *) = MPI_Group_range_incl;
    int (*op_create)(MPI_User_function_c *, int, MPI_Op *) = MPI_Op_create_c;
    int (*spawn)(int, char *[], char **[], const int[], const MPI_Info[], int, MPI_Comm, MPI_Comm *,
                 int[]) = MPI_Comm_spawn_multiple;
    int (*unpack)(const char[], const void *, MPI_Aint, MPI_Aint *, void *, int, MPI_Datatype)
        = MPI_Unpack_external;
    int (*environment)(int, char *[], MPI_Info *) = MPI_Info_create_env;
    int (*pcontrol)(const int, ...) = MPI_Pcontrol;
    double (*wtime)(void) = PMPI_Wtime;
    MPI_Fint (*c2f)(MPI_Comm) = MPI_Comm_c2f;
    MPI_Status status;
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    struct text text;

    switch (argc) {
    case MPI_ERR_LASTCODE: return 1;
    case MPI_UNDEFINED: return 2;
    default: break;
    }
    (void) argv; (void) comm; (void) type; (void) errhandler; (void) file; (void) group;
    (void) info; (void) message; (void) op; (void) request; (void) session; (void) win; (void) pvar;
    (void) safety; (void) order; (void) bottom; (void) in_place; (void) weights; (void) codes;
    (void) words; (void) lists; (void) one; (void) many; (void) current; (void) copy;
    (void) erase; (void) convert; (void) send; (void) send_c; (void) alltoallw;
    (void) ranges; (void) op_create; (void) spawn; (void) unpack;
    (void) environment; (void) pcontrol; (void) wtime; (void) c2f; (void) text;
    status.MPI_SOURCE = 3; status.MPI_TAG = 4; status.MPI_ERROR = 5;
    MPI_Status_c2f(&status, fortran);
    MPI_Status_f2c(fortran, &status);
    return status.MPI_TAG - 4;
}
"#;

const COMPILERS: [(&str, &str, &str); 4] = [
    ("cc", "-std=c99", "c"),
    ("cc", "-std=c17", "c"),
    ("c++", "-std=c++98", "cc"),
    ("c++", "-std=c++20", "cc"),
];

#[test]
fn regenerating_changes_nothing() {
    let generator = workspace().join("bindings/generate.py");
    run(path("MICA_PYTHON", "venv/bin/python"), [generator.as_os_str(), OsStr::new("--check")]);
}

#[test]
fn the_header_has_the_values_of_the_abi() {
    assert!(rows().len() > 350, "the table is there");
    let directory = scratch("values");
    for (compiler, standard, suffix) in COMPILERS {
        let source = directory.join(format!("values.{suffix}"));
        std::fs::write(&source, comparison()).expect("the scratch directory is writable");
        let program = directory.join("values");
        compile(compiler, standard, &[], &source, &program);
        run(&program, [""; 0]);
    }
}

#[test]
fn the_header_has_the_types_of_the_abi() {
    let directory = scratch("types");
    for (compiler, standard, suffix) in COMPILERS {
        let source = directory.join(format!("types.{suffix}"));
        std::fs::write(&source, TYPES).expect("the scratch directory is writable");
        compile(compiler, standard, &["-c"], &source, &directory.join("types.o"));
    }
}

#[test]
fn the_header_declares_every_function_under_both_names() {
    let directory = scratch("prototypes");
    let mut program = String::from(
        "#include <mpi.h>\ntypedef void (*function)(void);\nfunction functions[] = {\n",
    );
    for name in functions() {
        writeln!(program, "    (function) {name}, (function) P{name},").expect("strings grow");
    }
    program.push_str("};\n");
    let source = directory.join("prototypes.c");
    std::fs::write(&source, program).expect("the scratch directory is writable");
    compile(
        "cc",
        "-std=c99",
        &["-Wno-cast-function-type", "-c"],
        &source,
        &directory.join("prototypes.o"),
    );
}

#[test]
fn the_library_exports_the_abi_and_nothing_else() {
    let library = path("MICA_LIB", "release/libmpi_abi.so");
    let listing = run("nm", [OsStr::new("-D"), OsStr::new("--defined-only"), library.as_os_str()]);
    let exported: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.split_once(" T ").map(|(_, name)| name.trim()))
        .collect();
    let names = functions();
    assert_eq!(names.len(), 664);
    let wanted: Vec<String> =
        names.iter().flat_map(|name| [name.clone(), format!("P{name}")]).collect();
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let missing: Vec<_> = wanted.difference(&exported).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let extra: Vec<_> = exported.difference(&wanted).collect();
    assert!(extra.is_empty(), "exported, though not in the ABI: {extra:?}");
}

#[test]
fn the_library_is_named_as_the_abi_asks() {
    let library = path("MICA_LIB", "release/libmpi_abi.so");
    let dynamic = run("readelf", [OsStr::new("-d"), library.as_os_str()]);
    let soname =
        dynamic.lines().find(|line| line.contains("(SONAME)")).expect("the library has a SONAME");
    assert!(soname.ends_with("[libmpi_abi.so.1]"), "{soname}");
}

/// The wrappers of the profiler's library: a function's name, and what it says that the call moves.
fn wrappers() -> BTreeMap<String, String> {
    let directory = workspace().join("crates/profile-preload/src/generated");
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(directory).expect("generated").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("text");
        for wrapper in text.split("\nwrap").skip(1) {
            let (names, moved) = wrapper.split_once("=> ").expect("what it moves");
            // A collective call's wrapper has all forms of it, and their traffic in short.
            let traffic = match wrapper.starts_with("_collective!") {
                true => format!("Collective({moved}"),
                false => moved.strip_prefix("CallTraffic::").expect("a kind of traffic").to_owned(),
            };
            // Names stand after their numbers.
            let words: Vec<&str> = names.split_whitespace().collect();
            for pair in words.windows(2).filter(|pair| pair[0].parse::<u16>().is_ok()) {
                let name = pair[1].split(['(', ',', ';']).next().expect("a name");
                found.insert(name.to_owned(), traffic.clone());
            }
        }
    }
    found
}

/// Each function, and its parameters as the header declares them.
fn prototypes() -> Vec<(String, String)> {
    let header = std::fs::read_to_string(workspace().join("include/mpi.h")).expect("the header");
    let parameters = |name: &str| {
        let start = format!(" {name}(");
        let (_, rest) = header.split_once(&start).unwrap_or_else(|| panic!("no {name}"));
        rest.split(';').next().unwrap_or_default().to_owned()
    };
    let functions = functions().into_iter();
    functions.map(|name| (name.clone(), parameters(&name))).collect()
}

/// Every function with a buffer of a datatype is one whose bytes `mica profile` counts, or receives
/// what its sender has counted, or moves nothing between processes.
#[test]
fn the_profiler_counts_every_call_that_moves_data() {
    const RECEIVES: [&str; 6] = ["Recv", "Irecv", "Recv_init", "Precv_init", "Mrecv", "Imrecv"];
    const LOCAL: [&str; 5] = ["Pack", "Unpack", "Pack_external", "Unpack_external", "Reduce_local"];
    const COUNTED: [&str; 5] = ["To(", "Prepare(", "Target ", "Collective(", "File "];
    let wrappers = wrappers();
    let (mut counted, mut others) = (0, 0);
    for (name, parameters) in prototypes() {
        if !parameters.contains("void *") || !parameters.contains("MPI_Datatype ") {
            continue;
        }
        if parameters.contains("attribute_val") {
            continue;
        }
        let short = name.trim_start_matches("MPI_").trim_end_matches("_c");
        if RECEIVES.contains(&short) || LOCAL.contains(&short) {
            others += 1;
            continue;
        }
        let traffic = wrappers.get(&name).unwrap_or_else(|| panic!("{name} has no wrapper"));
        let is_counted = COUNTED.iter().any(|kind| traffic.starts_with(kind));
        assert!(is_counted, "{name} counts nothing: {traffic}");
        assert!(!traffic.contains("Data::None"), "{name} counts no bytes");
        counted += 1;
    }
    assert_eq!(others, 2 * (RECEIVES.len() + LOCAL.len()));
    assert!(counted > 200, "{counted} calls are counted");
    for name in ["MPI_Start", "MPI_Startall"] {
        assert!(wrappers[name].starts_with("Start("), "{name}");
    }
}
