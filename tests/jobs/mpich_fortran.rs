//! Programs in Fortran of MPICH's ABI on Mica's `libmpifort.so.12`: its names, the programs of
//! `tests/fortran` as the modules and headers of Intel MPI and of Debian's MPICH compile them, and
//! programs in Fortran and C.

use std::fs;
use std::process::Command;

use mica_tests::{Entry, FortranStyle, Install, MpichFortran, record_time, workspace};

use crate::fortran::list;
use crate::mpich::{defined_in, names_of, output};
use crate::programs::run_lines;
use crate::surroundings::works;

/// The names that MPICH has for one of the list: those of other compilers, and those for tools.
fn names(listed: &str) -> Vec<String> {
    let Some(base) = listed.strip_suffix('_').filter(|base| base.starts_with("mpi")) else {
        return vec![listed.to_owned()];
    };
    if base.starts_with("mpipriv") || base.starts_with("mpifcmb") {
        return vec![listed.to_owned()];
    }
    if base.ends_with("_f08") || base.contains("_f08ts") || base.ends_with("_f08_large") {
        let (start, rest) = base.split_once('_').expect("mpi_ or mpix_");
        return vec![listed.to_owned(), format!("p{start}r_{rest}_")];
    }
    let capitals = base.to_uppercase();
    let all = [format!("{base}_"), format!("{base}__"), base.to_owned(), capitals];
    let tools = all.iter().map(|name| match name.starts_with('M') {
        true => format!("P{name}"),
        false => format!("p{name}"),
    });
    all.iter().cloned().chain(tools).collect()
}

#[test]
fn the_library_has_the_names_of_mpich() {
    let install = Install::find();
    let listing = defined_in(&install, "libmpifort.so.12") + &defined_in(&install, "libmpi.so.12");
    // Some variables are those of C's library.
    let found = names_of(&listing);
    let list = workspace().join("bindings/data/mpich-fortran-symbols.txt");
    let list = fs::read_to_string(list).expect("the list of names");
    let listed = list.lines().filter(|line| !line.starts_with('#'));
    let wanted: Vec<String> = listed.flat_map(names).collect();
    assert!(wanted.len() > 4_500, "{} names", wanted.len());
    // Functions of mpi_f08 for large counts have other names since MPICH 4.2.
    let later: Vec<String> = (wanted.iter())
        .filter_map(|name| Some(format!("{}_", name.strip_suffix("_large_")?)))
        .map(|name| name.replace("_f08", "_c_f08"))
        .collect();
    assert!(later.len() > 150, "{} names", later.len());
    let missing: Vec<&String> =
        wanted.iter().chain(&later).filter(|name| !found.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let library = install.prefix().join("lib/libmpifort.so.12");
    let dynamic = output(Command::new("readelf").arg("-d").arg(library));
    for entry in ["[libmpifort.so.12]", "[libmpi.so.12]", "[$ORIGIN]"] {
        assert!(dynamic.contains(entry), "{dynamic}");
    }
    assert!(install.prefix().join("lib/libmpichfort.so.12").exists());
}

/// Runs each line of the list that the modules and headers of MPICH can compile, in these styles,
/// on the most ranks that it has.
fn run(fortran: &MpichFortran, pass: &str, styles: &[FortranStyle]) {
    let install = Install::find();
    let wanted = std::env::var("MICA_TEST_LINES").unwrap_or_default();
    let entries = list().into_iter().filter(|entry| entry.mpich && entry.program.contains(&wanted));
    let mut lines: Vec<(Entry, FortranStyle)> = entries
        .flat_map(|entry| {
            let styles = entry.styles.clone().into_iter().filter(|style| styles.contains(style));
            styles.map(|style| (entry.clone(), style)).collect::<Vec<_>>()
        })
        .collect();
    // Those of most calls take longest to compile.
    lines.sort_by_key(|(entry, _)| !entry.program.starts_with("sections_"));
    run_lines(pass, lines.into(), |(entry, style), sum| {
        let ranks = entry.ranks.iter().copied().max().expect("a line has ranks");
        let mut entry = entry.clone();
        entry.env.push(("LD_LIBRARY_PATH".to_owned(), install.libraries()));
        let program = fortran.program(&entry.program, *style);
        let run = entry.run(&program, install.mpiexec([""; 0]), ranks, None);
        let pass = format!("{pass}, {}", style.name());
        let what = format!("{} {}, {ranks} ranks", entry.program, entry.args.join(" "));
        record_time(&format!("programs, {pass}"), &what, run.wall, run.core);
        sum.lock().unwrap().add(&entry.program, &pass, run.verdict);
    });
}

/// Whether there is a compiler, and this is Mica.
fn can_run() -> bool {
    Install::find().is_mica() && works(&["gfortran", "--version"])
}

#[test]
fn programs_of_intels_modules_run() {
    if can_run() {
        run(&MpichFortran::intel(), "Intel MPI", &[FortranStyle::Mpi, FortranStyle::MpifH]);
    }
}

#[test]
fn programs_of_debians_mpich_run() {
    if !can_run() || !works(&["dpkg", "--version"]) {
        return;
    }
    let fortran = MpichFortran::debian().unwrap_or_else(|why| panic!("{why}"));
    run(&fortran, "Debian's MPICH", &FortranStyle::ALL);
}

/// Handles, statuses, operators and attributes are the same in both languages.
#[test]
fn fortran_and_c_share_objects() {
    if !can_run() {
        return;
    }
    let install = Install::find();
    let sources = ["tests/fortran/mixed/handles.F90", "tests/fortran/mixed/handles.c"];
    let program = MpichFortran::intel().mixed_program(&sources);
    for ranks in ["1", "3"] {
        let job = install.mpiexec(["-n", ranks]).args([&program]);
        let out = job.env("LD_LIBRARY_PATH", &install.libraries()).run().expect_success();
        assert_eq!(out.stdout.trim(), "No Errors", "{}", out.report());
    }
}
