//! The programs of `tests/fortran`, as `tests/fortran/testlist` lists them, by each compiler that
//! is here: one test a compiler.

use std::collections::BTreeSet;
use std::fs;

use mica_tests::{Entry, FortranStyle, Install, parse_list, record_time, workspace};

use crate::programs::run_lines;
use crate::surroundings::works;

/// The lines of `tests/fortran/testlist`.
pub fn list() -> Vec<Entry> {
    let path = workspace().join("tests/fortran/testlist");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    parse_list(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A line in one style on so many ranks.
struct StyledLine {
    entry: Entry,
    style: FortranStyle,
    ranks: u32,
}

/// All lines that `wanted` permits; `MICA_TEST_LINES` names a part of them.
fn run(compiler: &str, wanted: impl Fn(&StyledLine) -> bool) {
    let install = Install::find();
    if !install.is_mica() || !works(&[compiler, "--version"]) {
        return;
    }
    let words = std::env::var("MICA_TEST_LINES").unwrap_or_default();
    let mut lines = Vec::new();
    for entry in list().into_iter().filter(|entry| entry.program.contains(&words)) {
        for (style, ranks) in
            entry.styles.iter().flat_map(|style| entry.ranks.iter().map(move |n| (*style, *n)))
        {
            lines.push(StyledLine { entry: entry.clone(), style, ranks });
        }
    }
    lines.retain(wanted);
    // Those of most calls take longest to compile.
    lines.sort_by_key(|line| !line.entry.program.starts_with("sections_"));
    run_lines(compiler, lines.into(), |line, sum| {
        let StyledLine { entry, style, ranks } = line;
        let program = install.fortran_program(&entry.program, *style, compiler);
        let run = entry.run(&program, install.mpiexec([""; 0]), *ranks, None);
        let pass = format!("{compiler}, {}", style.name());
        let what = format!("{} {}, {ranks} ranks", entry.program, entry.args.join(" "));
        record_time(&format!("programs, {pass}"), &what, run.wall, run.core);
        sum.lock().unwrap().add(&entry.program, &pass, run.verdict);
    });
}

#[test]
fn programs_of_gfortran() {
    run("gfortran", |_| true);
}

/// What another compiler does differently is to describe arrays, which is seen by `mpi_f08`.
fn differs_by_compiler(line: &StyledLine) -> bool {
    let most = line.entry.ranks.iter().max();
    line.style == FortranStyle::F08 && Some(&line.ranks) == most
}

#[test]
fn programs_of_gfortran_11() {
    run("gfortran-11", differs_by_compiler);
}

#[test]
fn programs_of_flang() {
    run("flang-new-19", differs_by_compiler);
}

/// A program that is not in the list would never run.
#[test]
fn every_program_is_listed() {
    let entries = fs::read_dir(workspace().join("tests/fortran")).expect("tests/fortran").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let programs: BTreeSet<String> = names
        .filter_map(|name| {
            let (program, end) = name.rsplit_once('.')?;
            matches!(end, "F90" | "F").then(|| program.to_owned())
        })
        .collect();
    let listed: BTreeSet<String> = list().into_iter().map(|entry| entry.program).collect();
    assert_eq!(programs, listed);
}
