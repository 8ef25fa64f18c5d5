//! `mpifort` (`wrappers/mpicc`, `wrappers/mpifort.sh`): the cache of modules that it compiles, many
//! processes at once, kills, and what it says of bad input. In an installation of its own, whose
//! modules have one procedure each, so that they compile at once; `builds` has the real ones.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Job, Outcome, target, workspace};

use crate::surroundings::{with_mounts, works};

/// Compilers whose modules no other one reads, but for the two of gfortran.
const COMPILERS: [&str; 3] = ["gfortran", "gfortran-11", "flang-new-19"];

const MODULE: &str = "module NAME
  implicit none
contains
  subroutine mpi_init()
    print '(a)', 'NAME at work'
  end subroutine
end module
";

const PROGRAM: &str = "program main
  use mpi_f08
  call mpi_init()
end program
";

/// A compiler that notes when it compiles one of Mica's modules, and goes on once there is a file
/// `go`.
const WATCHED: &str = r#"#!/bin/sh
case "$*" in
    *share/mica/fortran/*)
        echo "$*" >>"$WORK/compiled"
        while [ ! -e "$WORK/go" ]; do sleep 0.01; done
        ;;
esac
exec gfortran "$@"
"#;

/// An installation in a directory of its own, with a place `work` to compile in.
struct Prefix(PathBuf);

impl Prefix {
    fn new(name: &str) -> Prefix {
        let root = target().join("tests-c/mpifort").join(name);
        let _ = fs::remove_dir_all(&root);
        for folder in ["bin", "lib", "include", "share/mica/fortran", "home", "work"] {
            fs::create_dir_all(root.join(folder)).expect("target is writable");
        }
        let prefix = Prefix(root);
        for wrapper in ["mpifort", "mpif90", "mpifort_abi", "mpif77.mica"] {
            prefix.copy("wrappers/mpicc", &format!("bin/{wrapper}"));
        }
        prefix.copy("wrappers/mpifort.sh", "share/mica/fortran/mpifort.sh");
        for module in ["mpi_f08", "mpi"] {
            let text = MODULE.replace("NAME", module);
            prefix.write(&format!("share/mica/fortran/{module}.f90"), &text);
        }
        for library in ["libmpifort_abi.so", "libmpi_abi.so"] {
            let mut compile = Command::new("cc");
            compile.args(["-shared", "-x", "c", "/dev/null", "-o"]);
            let done = compile.arg(prefix.path("lib").join(library)).status();
            assert!(done.expect("cc runs").success());
        }
        prefix.write("work/main.f90", PROGRAM);
        prefix
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("own folder");
    }

    /// By another process: a test that forks while this one writes would keep the file busy.
    fn copy(&self, from: &str, to: &str) {
        let copy = Command::new("cp").args([&workspace().join(from), &self.path(to)]).status();
        assert!(copy.expect("cp runs").success());
    }

    /// Makes `work/NAME` a command.
    fn command(&self, name: &str, script: &str) {
        let path = self.path("work").join(name);
        let mut make = Command::new("sh");
        make.args(["-c", "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"", "sh", script]);
        assert!(make.arg(path).status().expect("sh runs").success());
    }

    /// The words of a command that starts with no environment but for these variables.
    fn clean(&self, variables: &[&str]) -> Vec<String> {
        let root = self.0.display();
        let mut words = vec!["env".to_owned(), "-i".to_owned(), "LANG=C.UTF-8".to_owned()];
        words.push(format!("PATH={root}/bin:/usr/local/bin:/usr/bin:/bin"));
        words.push(format!("HOME={root}/home"));
        words.push(format!("WORK={root}/work"));
        words.extend(variables.iter().map(|&variable| variable.to_owned()));
        words
    }

    /// Runs a command in `work`.
    fn run(&self, variables: &[&str], command: &[&str]) -> Outcome {
        let words = self.clean(variables);
        Job::new(&words[0]).args(&words[1..]).args(command).dir(self.path("work")).run()
    }

    /// What a command prints, with this installation shown as `P` and the entry as `ENTRY`.
    fn printed(&self, variables: &[&str], command: &[&str]) -> String {
        let text = self.run(variables, command).expect_success().stdout;
        let text = text.trim_end().replace(&self.0.display().to_string(), "P");
        match self.entries().first() {
            Some(entry) => text.replace(entry, "ENTRY"),
            None => text,
        }
    }

    /// Names in the cache of the installation, but for the lock.
    fn entries(&self) -> Vec<String> {
        names(&self.path("lib/mica/fortran"))
    }
}

fn names(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != ".lock").collect()
}

fn has_gfortran() -> bool {
    works(&["gfortran", "--version"])
}

#[test]
fn each_compiler_gets_its_modules_once() {
    let prefix = Prefix::new("compilers");
    let mut entries = 0;
    for compiler in COMPILERS.into_iter().filter(|name| works(&[name, "--version"])) {
        let variable = format!("MICA_FC={compiler}");
        let library = || {
            prefix.run(&[&variable], &["mpifort", "main.f90", "-o", "main"]).expect_success();
            let out = prefix.run(&[], &["./main"]).expect_success();
            assert_eq!(out.stdout, "mpi_f08 at work\n");
            let folder = prefix.printed(&[&variable], &["mpifort", "--showme:libdirs"]);
            let folder = folder.split(' ').next().expect("a word").replace("P/", "");
            let entry = prefix.entries().into_iter().next().expect("an entry");
            let path = prefix.path(&folder.replace("ENTRY", &entry)).join("libmica_fortran.a");
            fs::metadata(path).expect("the library of the entry").ino()
        };
        let (first, second) = (library(), library());
        assert_eq!(first, second, "{compiler}: made a second time");
        entries += 1;
        assert_eq!(prefix.entries().len(), entries, "{compiler}: {:?}", prefix.entries());
    }
}

#[test]
fn an_entry_serves_all_names_of_a_compiler() {
    if !has_gfortran() {
        return;
    }
    let prefix = Prefix::new("names");
    let path = prefix.run(&[], &["sh", "-c", "command -v gfortran"]).expect_success();
    let compile = ["-c", "main.f90"];
    for wrapper in ["mpifort", "mpif90", "mpifort_abi", "mpif77.mica"] {
        prefix.run(&[], &[&[wrapper], &compile[..]].concat()).expect_success();
    }
    let by_path = format!("-fc={}", path.stdout.trim());
    prefix.run(&[], &["mpifort", &by_path, "-c", "main.f90"]).expect_success();
    // CMake's FindMPI names the compiler in this variable, which may be the wrapper.
    for variable in ["MPICH_FC=gfortran", "MPICH_FC=/elsewhere/bin/mpif90"] {
        prefix.run(&[variable], &[&["mpifort"], &compile[..]].concat()).expect_success();
    }
    assert_eq!(prefix.entries().len(), 1, "{:?}", prefix.entries());
    // A compiler that calls the wrapper, as HDF5's does.
    prefix.command("h5pfc", "#!/bin/sh\nexec mpifort \"$@\"\n");
    for variable in ["MICA_FC=./h5pfc", "MPICH_FC=./h5pfc"] {
        prefix.run(&[variable], &[&["mpifort"], &compile[..]].concat()).expect_success();
    }
    assert_eq!(prefix.entries().len(), 2, "{:?}", prefix.entries());
    prefix.run(&[], &["mpifort", "-fc=gfortran -O1", "-c", "main.f90"]).expect_success();
    assert_eq!(prefix.entries().len(), 3, "other options, other objects");
}

#[test]
fn twenty_at_once_compile_once() {
    if !has_gfortran() {
        return;
    }
    let prefix = Prefix::new("twenty");
    prefix.command("watched", WATCHED);
    // The modules are done when all wait for them, or have begun to.
    let script = "for i in $(seq 20); do mpifort -fc=./watched -c main.f90 -o $i.o & done
        sleep 0.5; touch go; wait";
    let out = prefix.run(&[], &["sh", "-c", script]).expect_success();
    assert_eq!(out.stderr, "");
    let objects = names(&prefix.path("work")).iter().filter(|name| name.ends_with(".o")).count();
    assert_eq!(objects, 20, "{}", out.report());
    let compiled = fs::read_to_string(prefix.path("work/compiled")).expect("a list");
    assert_eq!(compiled.lines().count(), 2, "{compiled}");
    assert_eq!(prefix.entries().len(), 1, "{:?}", prefix.entries());
}

#[test]
fn a_kill_leaves_nothing_that_hinders_or_stays() {
    if !has_gfortran() {
        return;
    }
    let prefix = Prefix::new("killed");
    prefix.command("watched", WATCHED);
    let script = "setsid mpifort -fc=./watched -c main.f90 & group=$!
        while [ ! -e compiled ]; do sleep 0.01; done
        kill -KILL -$group; wait";
    prefix.run(&[], &["sh", "-c", script]).expect_success();
    let left = prefix.entries();
    assert!(left.len() == 1 && left[0].starts_with(".making."), "{left:?}");
    prefix.write("work/go", "");
    prefix.run(&[], &["mpifort", "-fc=./watched", "main.f90"]).expect_success();
    let entries = prefix.entries();
    assert!(entries.len() == 1 && entries[0].starts_with("watched-"), "{entries:?}");
}

#[test]
fn an_entry_that_lost_its_library_is_made_anew() {
    if !has_gfortran() {
        return;
    }
    let prefix = Prefix::new("incomplete");
    prefix.run(&[], &["mpifort", "main.f90"]).expect_success();
    let entry = prefix.path("lib/mica/fortran").join(&prefix.entries()[0]);
    fs::remove_file(entry.join("libmica_fortran.a")).expect("own file");
    prefix.run(&[], &["mpifort", "main.f90"]).expect_success();
    assert!(entry.join("libmica_fortran.a").is_file());
}

#[test]
fn a_read_only_installation_leaves_the_users_cache() {
    if !has_gfortran() {
        return;
    }
    let prefix = Prefix::new("read-only");
    fs::create_dir_all(prefix.path("lib/mica")).expect("own folder");
    let mount = format!("mount -t tmpfs -o ro none {}", prefix.path("lib/mica").display());
    let script = |variable: &str| {
        let words = prefix.clean(&[variable]).join(" ");
        format!("cd {}; {words} mpifort main.f90", prefix.path("work").display())
    };
    let other = format!("XDG_CACHE_HOME={}/other", prefix.0.display());
    for (variable, cache) in [("A=B", "home/.cache"), (&other, "other")] {
        let Some(out) = with_mounts(&mount, &script(variable)) else { return };
        out.expect_success();
        assert_eq!(names(&prefix.path(cache).join("mica/fortran")).len(), 1, "{cache}");
    }
    let Some(out) = with_mounts(&mount, &script("HOME=")) else { return };
    expect_line(&out, "lib/mica/fortran (Read-only file system); name a directory");
}

#[test]
fn a_full_disk_is_said() {
    if !has_gfortran() {
        return;
    }
    let prefix = Prefix::new("full");
    let full = prefix.path("full");
    fs::create_dir_all(&full).expect("own folder");
    for (limit, reason) in [("size=16k", "less than 4 MiB free"), ("nr_inodes=2", "No space left")]
    {
        let mount = format!("mount -t tmpfs -o {limit} none {}", full.display());
        let variable = format!("MICA_FORTRAN_CACHE={}", full.display());
        let words = prefix.clean(&[&variable]).join(" ");
        let script = format!("cd {}; {words} mpifort main.f90", prefix.path("work").display());
        let Some(out) = with_mounts(&mount, &script) else { return };
        expect_line(&out, &format!("{} ({reason}", full.display()));
    }
}

/// It has refused, in one line that says this.
fn expect_line(out: &Outcome, part: &str) {
    assert_eq!(out.code(), 2, "{}", out.report());
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.report());
    assert!(out.stderr.starts_with("mpifort: ") && out.stderr.contains(part), "{}", out.report());
}

#[test]
fn bad_input_is_answered_in_a_line() {
    let prefix = Prefix::new("bad");
    let refuse = "#!/bin/sh\necho x.f90:1:
        echo \"Error: TYPE(*) at (1) is not known\"; echo Error: more; exit 1";
    prefix.command("old", &refuse.replace("\n        ", "\n"));
    let compile = ["mpifort", "-c", "main.f90"];
    for (variable, option, part) in [
        ("MICA_FC=nofort", "-c", "there is no compiler 'nofort'"),
        ("A=B", "-fc=/usr/bin/nofort", "there is no compiler '/usr/bin/nofort'"),
        ("MICA_FC=mpif90", "-c", "'mpif90' is a wrapper itself"),
        ("MICA_FC=./old", "-c", "Error: TYPE(*) at (1) is not known (all that it says: /"),
        ("MICA_FC=./old", "-fdefault-integer-8", "which have 32 bits"),
        ("MICA_FC=./old -i8", "-c", "-i8: MPI's arguments are default INTEGERs"),
        ("MICA_FC=./old", "-m32", "for 64-bit programs"),
    ] {
        let out = prefix.run(&[variable], &[&compile[..], &[option]].concat());
        expect_line(&out, part);
    }
    let log = prefix.entries().into_iter().find(|name| name.ends_with(".log")).expect("a log");
    let log = fs::read_to_string(prefix.path("lib/mica/fortran").join(log)).expect("a text");
    assert!(log.starts_with("x.f90:1:\n") && log.contains("more"), "{log}");

    // Without a compiler there is what the wrapper itself needs.
    fs::create_dir(prefix.path("tools")).expect("own folder");
    for tool in ["readlink", "dirname", "basename"] {
        let script = "ln -s \"$(command -v \"$0\")\" \"$1\"";
        let link = Command::new("sh").args(["-c", script, tool]).arg(prefix.path("tools")).status();
        assert!(link.expect("sh runs").success());
    }
    let path = format!("PATH={}", prefix.path("tools").display());
    let wrapper = prefix.path("bin/mpifort").display().to_string();
    let out = prefix.run(&[&path], &["/bin/sh", &wrapper, "-c", "main.f90"]);
    expect_line(&out, "there is no Fortran compiler in PATH (gfortran flang ");
}

#[test]
fn shown_commands_name_the_modules() {
    if !has_gfortran() {
        return;
    }
    const ENTRY: &str = "P/lib/mica/fortran/ENTRY";
    let prefix = Prefix::new("shown");
    // Questions that need no modules compile none.
    let show = |words: &[&str]| prefix.printed(&[], &[&["mpifort"], words].concat());
    assert_eq!(show(&["--showme:compiler"]), "gfortran");
    assert_eq!(show(&["--showme:libs"]), "mica_fortran mpifort_abi mpi_abi");
    assert!(show(&["--version"]).starts_with("GNU Fortran"));
    assert!(prefix.entries().is_empty(), "{:?}", prefix.entries());

    prefix.run(&[], &["mpifort", "-show"]).expect_success();
    // gfortran has this option since version 10.
    let compile = format!("-fallow-argument-mismatch -IP/include -I{ENTRY}");
    let libraries = "-lmica_fortran -lmpifort_abi -lmpi_abi";
    let link = format!("-L{ENTRY} -LP/lib -Wl,-rpath,P/lib {libraries}");
    assert_eq!(show(&["-show"]), format!("gfortran {compile} {link}"));
    assert_eq!(show(&["-show", "-c", "a.f90"]), format!("gfortran -c a.f90 {compile}"));
    // The user's own directories come first, as mpicc's do.
    let own = show(&["-show", "-Iown", "-J", "mods", "a.f90", "-norpath"]);
    let plain = format!("-L{ENTRY} -LP/lib {libraries}");
    assert_eq!(own, format!("gfortran -Iown -J mods a.f90 {compile} {plain}"));
    for (question, answer) in [
        ("--showme:compile", &compile),
        ("--showme:link", &link),
        ("-compile_info", &format!("gfortran {compile}")),
        ("-link_info", &format!("gfortran {link}")),
        ("--showme:incdirs", &format!("P/include {ENTRY}")),
        ("--showme:libdirs", &format!("{ENTRY} P/lib")),
    ] {
        assert_eq!(&show(&[question]), answer, "{question}");
    }

    fs::create_dir_all(prefix.path("etc/mica")).expect("own folder");
    prefix.write("etc/mica/mpifort-other.conf", "FC='gfortran'\nWRAPPER_FCFLAGS=-DA\n");
    prefix.write("lib/libtrace.a", "");
    let profiled = show(&["-config=other", "-profile=trace", "-show", "a.o"]);
    let link = link.replace(libraries, &format!("-ltrace {libraries}"));
    assert_eq!(profiled, format!("gfortran a.o -DA {compile} {link}"));
}
