//! `scripts/install.sh` and `scripts/uninstall.sh` with what is built: into a staging directory,
//! moved, over an older version, and back to what was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mica_tests::{Job, target, workspace};

use crate::surroundings::works;

/// Where the installation is to be used.
const PREFIX: &str = "/opt/mica";

const MANIFEST: &str = "share/mica/manifest";

/// A staging directory, which goes with the value.
struct Staging {
    folder: PathBuf,
    /// The profile of the commands that are built.
    profile: &'static str,
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Staging {
    /// An empty one, unless nothing is built that could be installed.
    fn new(test: &str) -> Option<Staging> {
        let build = std::env::var_os("CARGO_TARGET_DIR").map_or_else(target, PathBuf::from);
        let is_dev = std::env::var("MICA_COMMANDS_PROFILE").is_ok_and(|profile| profile == "dev");
        let profiles = [("commands", "commands"), ("dev", "debug")];
        let parts = ["mpiexec", "mica", "libmica_profile_preload.so", "libmica_sim_plugin.so"];
        let is_built =
            |folder: &str| parts.iter().all(|part| build.join(folder).join(part).exists());
        let mut built = profiles
            .into_iter()
            .filter(|(profile, folder)| (!is_dev || *profile == "dev") && is_built(folder));
        let libraries = ["libmpi_abi.so", "libmpi.so", "libmpifort_abi.so", "libmpifort.so"];
        let has_libraries = libraries.iter().all(|name| build.join("release").join(name).exists());
        let Some((profile, _)) = built.next().filter(|_| has_libraries) else {
            println!("skipped: nothing is built in {}: sh scripts/build.sh", build.display());
            return None;
        };
        let folder = target().join(format!("install-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("target is writable");
        Some(Staging { folder, profile })
    }

    /// The staged installation.
    fn installed(&self) -> PathBuf {
        self.folder.join(PREFIX.trim_start_matches('/'))
    }

    fn script(&self, name: &str, arguments: &[&str], debug: &str) -> Output {
        let mut command = Command::new("sh");
        command.arg(workspace().join("scripts").join(name)).arg(PREFIX).args(arguments);
        command.env("DESTDIR", &self.folder).env("MICA_COMMANDS_PROFILE", self.profile);
        command.env("DEBUG", debug).output().expect("sh runs")
    }

    fn install(&self, debug: &str) {
        let done = self.script("install.sh", &["built"], debug);
        assert!(done.status.success(), "{done:?}");
    }

    fn uninstall(&self) -> String {
        let done = self.script("uninstall.sh", &[], "");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).expect("text")
    }
}

/// Every file and directory below a folder, from there, with its content or the target of a link.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("its type"));
            let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
            let content = if kind.is_dir() {
                folders.push(path);
                Vec::new()
            } else if kind.is_symlink() {
                fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).expect("readable")
            };
            found.insert(name, content);
        }
    }
    found
}

fn write(file: &Path, content: &str) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("own folder");
    fs::write(file, content).expect("own folder");
}

fn text_of(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().expect("the program is there");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn an_installation_is_staged_moved_and_taken_back() {
    let Some(staging) = Staging::new("moved") else { return };
    let installed = staging.installed();
    // What is of others: files, a link, and directories, also empty ones that Mica uses.
    write(&installed.join("lib/own.so"), "own");
    write(&installed.join("share/own/page"), "own");
    symlink("own.so", installed.join("lib/own.link")).expect("own folder");
    fs::create_dir_all(installed.join("lib/pkgconfig")).expect("own folder");
    let before = tree(&staging.folder);

    staging.install("");
    let manifest = fs::read_to_string(installed.join(MANIFEST)).expect("a manifest");
    let listed: BTreeSet<&str> = manifest
        .lines()
        .map(|line| line.split_once("  ").expect("two columns").1.trim_end_matches('/'))
        .collect();
    let all = tree(&installed);
    let own = ["lib", "lib/own.so", "lib/own.link", "lib/pkgconfig", "share", "share/own"];
    let are_listed = |name: &str| listed.contains(name) || own.contains(&name);
    let missing: Vec<&String> = all
        .keys()
        .filter(|name| !are_listed(name) && !before.contains_key(&staged(name)))
        .collect();
    assert_eq!(missing, [MANIFEST], "files that the manifest lacks");
    let unknown: Vec<&&str> = listed.iter().filter(|name| !all.contains_key(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");

    // Nothing knows where it was staged, so that it runs elsewhere.
    let place = staging.folder.to_str().expect("UTF-8");
    let knowing = text_of("grep", &["-rlF", place, installed.to_str().expect("UTF-8")]);
    assert_eq!(knowing, "", "files that name the staging directory");
    let moved = staging.folder.join("moved");
    fs::rename(&installed, &moved).expect("own folders");
    let hello = staging.folder.join("hello");
    let compile = Command::new(moved.join("bin/mpicc"))
        .arg(workspace().join("examples/hello.c"))
        .arg("-o")
        .arg(&hello)
        .output()
        .expect("mpicc runs");
    assert!(compile.status.success(), "{compile:?}");
    let out = Job::new(moved.join("bin/mpiexec")).args(["-n", "2"]).args([&hello]).run();
    assert_eq!(out.expect_success().stdout.matches("hello from rank").count(), 2);
    compiles_modules(&moved, &hello);
    let calibrate = moved.join("libexec/mica/calibrate");
    let linked = text_of("readelf", &["-d", calibrate.to_str().expect("UTF-8")]);
    assert!(linked.contains("[$ORIGIN/../../lib]"), "{linked}");
    fs::remove_file(hello).expect("own file");
    fs::rename(&moved, &installed).expect("own folders");

    let said = staging.uninstall();
    assert!(!said.contains("left "), "{said}");
    assert_eq!(names(&tree(&staging.folder)), names(&before));
    assert!(tree(&staging.folder) == before, "a file of others has changed");
}

/// `mpifort` keeps modules in the installation, which no manifest lists, and which go with it.
fn compiles_modules(installed: &Path, program: &Path) {
    if !works(&["gfortran", "--version"]) {
        return;
    }
    let mut compile = Command::new(installed.join("bin/mpifort"));
    compile.arg(workspace().join("tests/builds/fortran/sum_f08.f90")).arg("-o").arg(program);
    let done = compile.env_remove("MICA_FORTRAN_CACHE").output().expect("mpifort runs");
    assert!(done.status.success(), "{done:?}");
    let out = Job::new(installed.join("bin/mpiexec")).args(["-n", "3"]).args([program]).run();
    assert!(out.expect_success().stdout.starts_with("3 ranks, sum 3"));
    assert_eq!(fs::read_dir(installed.join("lib/mica/fortran")).expect("a cache").count(), 2);
}

/// A path of the installation, from the staging directory.
fn staged(name: &str) -> String {
    format!("{}/{name}", PREFIX.trim_start_matches('/'))
}

fn names(tree: &BTreeMap<String, Vec<u8>>) -> Vec<&String> {
    tree.keys().collect()
}

#[test]
fn an_upgrade_leaves_no_stale_file_and_nothing_that_was_changed_is_removed() {
    let Some(staging) = Staging::new("upgrade") else { return };
    let installed = staging.installed();
    let debug = installed.join("lib/.debug/libmpi_abi.so.1.debug");
    staging.install("1");
    assert!(debug.is_file(), "line tables were asked for");
    debugger_names_lines(&installed);

    // What an older version has installed besides: a file in a folder of its own, and one that
    // somebody has changed since.
    let old = installed.join("share/mica/old/page");
    write(&old, "of an older version");
    write(&installed.join("lib/changed"), "changed");
    let sum = text_of("sha256sum", &[old.to_str().expect("UTF-8")]);
    let sum = sum.split(' ').next().expect("a checksum");
    let mut manifest = fs::read_to_string(installed.join(MANIFEST)).expect("a manifest");
    manifest += &format!("{sum}  share/mica/old/page\ndirectory  share/mica/old/\n");
    manifest += &format!("{sum}  lib/changed\n");
    fs::write(installed.join(MANIFEST), manifest).expect("own file");

    staging.install("");
    assert!(!old.parent().expect("a folder").exists(), "stale");
    assert!(!debug.parent().expect("a folder").exists(), "not asked for now");
    write(&installed.join("include/mpi.h"), "of another MPI");
    let said = staging.uninstall();
    assert!(said.contains("include/mpi.h: it is not the file that was installed"), "{said}");
    let left = tree(&installed);
    assert_eq!(names(&left), ["include", "include/mpi.h", "lib", "lib/changed"]);

    let again = staging.script("uninstall.sh", &[], "");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("'make install' has put nothing"), "{said}");
}

/// The library has functions' names itself, and a debugger finds its lines in the other file.
fn debugger_names_lines(installed: &Path) {
    let library = installed.join("lib/libmpi_abi.so.1");
    let library = library.to_str().expect("UTF-8");
    let sections = text_of("readelf", &["-SW", library]);
    assert!(sections.contains(".symtab") && !sections.contains(".debug_info"), "{sections}");
    match Command::new("gdb").args(["-nx", "-batch", "-ex", "info line MPI_Send", library]).output()
    {
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(said.starts_with("Line ") && said.contains(".rs\""), "{said}");
        }
        Err(_) => println!("skipped: there is no gdb to find line tables"),
    }
}
