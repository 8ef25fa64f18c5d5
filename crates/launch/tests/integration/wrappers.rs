//! The compiler wrappers (`wrappers/mpicc`): what they add to a compiler's command, and when.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An installation with nothing but the wrappers.
struct Prefix(PathBuf);

impl Prefix {
    fn new(name: &str) -> Prefix {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wrappers/mpicc");
        for name in ["mpicc", "mpicxx", "mpic++", "mpicc_abi", "mpic++_abi", "mpicxx.mica"] {
            let path = root.join("bin").join(name);
            // By another process: a test that forks while this one has the file open for writing
            // would keep it busy, and `exec` would fail with ETXTBSY.
            let copy = Command::new("cp").args([&script, &path]).status();
            assert!(copy.unwrap().success());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Prefix(fs::canonicalize(root).unwrap())
    }

    fn run(&self, wrapper: &str, arguments: &[&str]) -> Output {
        Command::new(self.0.join("bin").join(wrapper))
            .args(arguments)
            .env_remove("MICA_CC")
            .env_remove("MICA_CXX")
            .output()
            .unwrap()
    }

    /// What the wrapper prints, with this prefix shown as `P`.
    fn printed(&self, wrapper: &str, arguments: &[&str]) -> String {
        let output = self.run(wrapper, arguments);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim_end().replace(self.0.to_str().unwrap(), "P")
    }
}

const LINK: &str = "-LP/lib -Wl,-rpath,P/lib -lmpi_abi";

#[test]
fn compiling_and_linking() {
    let prefix = Prefix::new("compiling");
    let show = |arguments: &[&str]| prefix.printed("mpicc", &[&["-show"], arguments].concat());
    assert_eq!(show(&["a.c", "-o", "a"]), format!("cc a.c -o a -IP/include {LINK}"));
    assert_eq!(show(&["-c", "a.c"]), "cc -c a.c -IP/include");
    assert_eq!(show(&["-E", "a.c"]), "cc -E a.c -IP/include");
    assert_eq!(show(&["-norpath", "a.o"]), "cc a.o -IP/include -LP/lib -lmpi_abi");
    // A value that looks like an option of the wrapper, and words with blanks.
    assert_eq!(show(&["-c", "-o", "-show", "a b.c"]), "cc -c -o -show 'a b.c' -IP/include");
    let quoted = show(&["-c", "-DNAME=\"it's\"", "a.c"]);
    assert!(quoted.contains(r#"'-DNAME="it'\''s"'"#), "{quoted}");
}

#[test]
fn questions() {
    let prefix = Prefix::new("questions");
    for (question, answer) in [
        ("--showme:compile", "-IP/include"),
        ("-showme:link", LINK),
        ("--showme:incdirs", "P/include"),
        ("--showme:libdirs", "P/lib"),
        ("--showme:libs", "mpi_abi"),
        ("-compile_info", "cc -IP/include"),
    ] {
        assert_eq!(prefix.printed("mpicc", &[question]), answer, "{question}");
    }
    assert_eq!(prefix.printed("mpicc", &["-link_info"]), format!("cc {LINK}"));
    assert_eq!(prefix.printed("mpicc", &["-show"]), format!("cc -IP/include {LINK}"));
    assert_eq!(prefix.run("mpicc", &["--showme:weather"]).status.code(), Some(2));
}

#[test]
fn compilers() {
    let prefix = Prefix::new("compilers");
    assert!(prefix.printed("mpicxx", &["-show", "-c", "a.cc"]).starts_with("c++ "));
    assert!(prefix.printed("mpic++", &["-show", "-c", "a.cc"]).starts_with("c++ "));
    // The names by which MPICH and Debian tell MPIs apart.
    for (name, compiler) in [("mpicc_abi", "cc "), ("mpic++_abi", "c++ "), ("mpicxx.mica", "c++ ")]
    {
        assert!(prefix.printed(name, &["-show", "-c", "a.cc"]).starts_with(compiler), "{name}");
    }
    assert!(prefix.printed("mpicc", &["-cc=clang", "-show", "a.c"]).starts_with("clang "));
    assert!(prefix.printed("mpicxx", &["-cxx=clang++", "-show", "a.c"]).starts_with("clang++ "));
    let output = Command::new(prefix.0.join("bin/mpicc"))
        .args(["-c", "a b.c"])
        .env("MICA_CC", "echo two words")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("two words -c a b.c -I"), "{text}");
}

/// Files of settings and profiling libraries, as MPICH's mpicc has them.
#[test]
fn settings_and_profiling_libraries() {
    let prefix = Prefix::new("settings");
    let settings = prefix.0.join("etc/mica");
    fs::create_dir_all(&settings).unwrap();
    fs::create_dir_all(prefix.0.join("lib")).unwrap();
    let conf = "CC='gcc -m64'\nWRAPPER_CFLAGS=-DA\nWRAPPER_LDFLAGS=-Lx\nWRAPPER_LIBS='-lm -lz'\n";
    fs::write(settings.join("mpicc-other.conf"), conf).unwrap();
    let rpath = "-LP/lib -Wl,-rpath,P/lib";
    assert_eq!(
        prefix.printed("mpicc", &["-config=other", "-show", "a.c"]),
        format!("gcc -m64 a.c -DA -IP/include -Lx {rpath} -lmpi_abi -lm -lz")
    );
    let chosen = prefix.printed("mpicc", &["-cc=clang", "-config=other", "-show", "-c", "a.c"]);
    assert_eq!(chosen, "clang -c a.c -DA -IP/include");

    fs::write(prefix.0.join("lib/libtrace.a"), "").unwrap();
    assert_eq!(
        prefix.printed("mpicc", &["-profile=trace", "-show", "a.o"]),
        format!("cc a.o -IP/include {rpath} -ltrace -lmpi_abi")
    );
    let conf = "PROFILE_PRELIB='-lpre'\nPROFILE_POSTLIB=-lpost\nPROFILE_INCPATHS=-I/p\n";
    fs::write(settings.join("perf.conf"), conf).unwrap();
    assert_eq!(
        prefix.printed("mpicc", &["-profile=perf", "-show", "a.c"]),
        format!("cc a.c -I/p -IP/include {rpath} -lpre -lmpi_abi -lpost")
    );

    for (option, part) in
        [("-config=none", "etc/mica/mpicc-none.conf"), ("-profile=none", "no library")]
    {
        let output = prefix.run("mpicc", &[option, "-show", "a.c"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(option) && text.contains(part), "{text}");
    }
}

#[test]
fn the_command_is_printed_on_request_and_runs() {
    let prefix = Prefix::new("echo");
    let output = Command::new(prefix.0.join("bin/mpicc"))
        .args(["-echo", "-c", "a b.c"])
        .env("MICA_CC", "echo ran")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    assert!(out.unwrap().starts_with("ran -c a b.c -I"));
    let err = err.unwrap();
    assert!(err.starts_with("echo ran -c 'a b.c' -I"), "{err}");
}

/// Programs that pkg-config helped to link find the library when they run.
#[test]
fn pkg_config_gives_the_directory_for_running() {
    let prefix = Prefix::new("pkgconfig");
    let folder = prefix.0.join("lib/pkgconfig");
    fs::create_dir_all(&folder).unwrap();
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wrappers/pkgconfig.pc.in");
    fs::copy(template, folder.join("mica.pc")).unwrap();
    let output = Command::new("pkg-config")
        .args(["--libs", "mica"])
        .env("PKG_CONFIG_PATH", &folder)
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no pkg-config");
        return;
    };
    let libs = String::from_utf8(output.stdout).unwrap();
    let rpath = libs.split_whitespace().find_map(|word| word.strip_prefix("-Wl,-rpath,"));
    let rpath = rpath.unwrap_or_else(|| panic!("no rpath: {libs}"));
    assert_eq!(fs::canonicalize(rpath).unwrap(), prefix.0.join("lib"));
}

#[test]
fn without_input_nothing_is_linked() {
    let prefix = Prefix::new("version");
    let ours = prefix.run("mpicc", &["--version"]);
    let theirs = Command::new("cc").arg("--version").output().unwrap();
    assert!(ours.status.success());
    assert_eq!(ours.stdout, theirs.stdout);
}

#[test]
fn the_exit_status_is_the_compilers() {
    let prefix = Prefix::new("status");
    assert_eq!(prefix.run("mpicc", &["-c", "/no/such.c"]).status.code(), Some(1));
}

#[test]
fn a_link_to_the_wrapper_finds_the_installation() {
    let prefix = Prefix::new("link");
    let link = prefix.0.join("elsewhere-mpicc");
    symlink(prefix.0.join("bin/mpicc"), &link).unwrap();
    let output = Command::new(&link).arg("--showme:incdirs").output().unwrap();
    let include = prefix.0.join("include");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), include.to_str().unwrap());
}
