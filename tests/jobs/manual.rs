//! What an installation has for `man` and for shells: a page for each function and each command,
//! and completion of `mpiexec` and `mica` (`scripts/install_man.sh`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mica_tests::{Install, workspace};

fn mica() -> Option<Install> {
    let install = Install::find();
    if install.is_mica() {
        return Some(install);
    }
    println!("skipped: {} is not Mica", install.prefix().display());
    None
}

fn share(install: &Install, path: &str) -> PathBuf {
    install.prefix().canonicalize().expect("the installation").join("share").join(path)
}

/// What a program prints, if it is there.
fn output(command: &mut Command) -> Option<Output> {
    let output = command.output();
    if output.is_err() {
        println!("skipped: there is no {}", command.get_program().display());
    }
    output.ok()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The commands below `mica ARGUMENTS`, and below these.
fn commands_below(install: &Install, arguments: &[String]) -> Vec<Vec<String>> {
    let help = Command::new(install.bin("mica")).args(arguments).arg("--help").output();
    let help = String::from_utf8(help.expect("mica runs").stdout).expect("text");
    // `  name  what it does`, above the arguments and options.
    let list = help.split("\nArguments:").next().unwrap_or_default();
    let list = list.split("\nOptions:").next().unwrap_or_default();
    let names = list.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let is_name =
        |name: &&str| *name != "help" && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let mut all = Vec::new();
    for name in names.filter(is_name) {
        let command = [arguments, &[name.to_owned()]].concat();
        all.extend(commands_below(install, &command));
        all.push(command);
    }
    all
}

#[test]
fn every_function_has_a_page() {
    let Some(install) = mica() else { return };
    let folder = share(&install, "man/man3");
    let list = workspace().join("bindings/data/mpi5-abi-functions.txt");
    let functions = fs::read_to_string(list).expect("the functions of the ABI");
    assert_eq!(functions.lines().count(), 664);
    for name in functions.lines() {
        let page = fs::read_to_string(folder.join(format!("{name}.3"))).expect(name);
        match page.strip_prefix(".so man3/") {
            Some(other) => assert_eq!(format!("{}_c", other.trim_end_matches(".3\n")), name),
            None => {
                assert!(page.contains(&format!("\n{name}")), "{name}");
                assert!(page.contains(&format!("\\fB{name}\\fP(")), "{name}: no binding");
                assert!(!page.contains("\n@"), "{name}: a shared text is missing");
            }
        }
    }
    let page = |name: &str| fs::read_to_string(folder.join(format!("{name}.3"))).expect(name);
    assert!(page("MPI_Bcast").contains(".IR buffer \" (INOUT)\"\nstarting address of buffer\n"));
}

#[test]
fn every_command_has_a_page() {
    let Some(install) = mica() else { return };
    let below = commands_below(&install, &[]);
    assert!(below.len() > 12, "{below:?}");
    let mut names: Vec<String> =
        below.iter().map(|words| format!("mica-{}", words.join("-"))).collect();
    let others = "mica mpiexec mpirun mpicc mpicxx mpic++ mpiCC mpifort mpif90 mpif77";
    names.extend(others.split(' ').map(str::to_owned));
    for name in names {
        let page = share(&install, "man/man1").join(format!("{name}.1"));
        let text = fs::read_to_string(&page);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        if let Some(other) = text.strip_prefix(".so ") {
            assert!(share(&install, "man").join(other.trim_end()).is_file(), "{name}: {other}");
        } else {
            assert!(text.contains(".SH NAME\n") && text.contains(".SH OPTIONS"), "{name}: {text}");
        }
    }
}

/// The pages in `share/man/SECTION`.
fn pages(install: &Install, section: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(share(install, "man").join(section)).expect("pages");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("a page").path()).collect();
    pages.sort();
    pages
}

#[test]
fn pages_have_no_faults() {
    let Some(install) = mica() else { return };
    let mut lint = Command::new("groff");
    lint.args(["-man", "-ww", "-z", "-Tutf8"]).current_dir(share(&install, "man"));
    let Some(groff) = output(lint.args(pages(&install, "man1")).args(pages(&install, "man3")))
    else {
        return;
    };
    assert!(groff.status.success() && printed(&groff).is_empty(), "{}", printed(&groff));
}

#[test]
fn man_shows_pages() {
    let Some(install) = mica() else { return };
    for (name, words) in [
        ("MPI_Recv_c", &["int MPI_Recv_c(void *buf, MPI_Count count", "status (OUT)"][..]),
        ("mpirun", &["--hang-report SECONDS", "MPIEXEC_TIMEOUT"]),
        ("mpicxx", &["--showme:compile", "PREFIX/etc/mica"]),
        ("mica-sim", &["mica-sim-run(1)"]),
    ] {
        let mut man = Command::new("man");
        man.arg("-M").arg(share(&install, "man")).args(["--warnings", name]);
        man.env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8").env_remove("MANOPT");
        let Some(shown) = output(&mut man) else { return };
        let text = printed(&shown);
        if text.contains("has been minimized") {
            println!("skipped: man is not installed: {text}");
            return;
        }
        for word in words {
            assert!(text.contains(word), "man {name}: no {word:?} in:\n{text}");
        }
        assert!(shown.stderr.is_empty(), "man {name}: {}", String::from_utf8_lossy(&shown.stderr));
    }
}

/// What bash offers for this line.
fn in_bash(script: &Path, function: &str, line: &str) -> Option<Vec<String>> {
    let run = r#"source "$1"; COMP_LINE=$3; COMP_POINT=${#COMP_LINE}
        read -ra COMP_WORDS <<<"$3"; [[ $3 != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        "$2" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", run, "bash"]).arg(script).args([function, line]);
    let output = output(&mut bash)?;
    assert!(output.stderr.is_empty(), "{line}: {}", printed(&output));
    Some(printed(&output).lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes() {
    let Some(install) = mica() else { return };
    let folder = share(&install, "bash-completion/completions");
    let mpiexec = |line: &str| in_bash(&folder.join("mpirun"), "_mica_mpiexec", line);
    let Some(offered) = mpiexec("mpiexec --ha") else { return };
    assert_eq!(offered, ["--hang-report"]);
    for (line, words) in [
        ("mpirun -n 2 -bind-to n", &["numa", "none"][..]),
        ("mpiexec -map-by ppr", &["ppr:"]),
        ("mpiexec --output dir=x -map-by ppr:", &[""]), // bash has the word after the colon alone
        ("mpiexec -genv A B --time", &["--timestamp-output", "--timeout"]),
        ("mpiexec -genv A=B --time", &["--timestamp-output", "--timeout"]),
        ("mpiexec -n 2 ./a --time", &[""]),
        ("mpiexec -n 2 ./a : --time", &["--timestamp-output", "--timeout"]),
    ] {
        assert_eq!(mpiexec(line).expect("bash ran"), words, "{line}");
    }
    let programs = mpiexec("mpiexec --timeout 5 sle").expect("bash ran");
    assert!(programs.contains(&"sleep".to_owned()), "{programs:?}");
    let mica = |line: &str| in_bash(&folder.join("mica"), "_mica", line).expect("bash ran");
    assert!(mica("mica ").contains(&"doctor".to_owned()), "{:?}", mica("mica "));
    assert_eq!(mica("mica profile --stac"), ["--stack"]);
}

#[test]
fn fish_completes() {
    let Some(install) = mica() else { return };
    let folder = share(&install, "fish/vendor_completions.d");
    let offered = |line: &str| {
        let name = line.split(' ').next().expect("a command");
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
        let output = output(fish.arg(folder.join(format!("{name}.fish"))).arg(line))?;
        assert!(output.stderr.is_empty(), "{line}: {}", printed(&output));
        let words = printed(&output);
        Some(words.lines().filter_map(|l| l.split('\t').next()).collect::<Vec<_>>().join(" "))
    };
    let Some(options) = offered("mpirun -n 2 --ha") else { return };
    assert_eq!(options, "--hang-report");
    for (line, words) in [
        ("mpiexec --ha", "--hang-report"),
        ("mpiexec -genv A B --ha", "--hang-report"),
        ("mpiexec -n 2 ./a --ha", ""),
        ("mpiexec -n 2 ./a : --ha", "--hang-report"),
        ("mpiexec -bind-to n", "none numa"),
        ("mica doct", "doctor"),
        ("mica profile --stac", "--stack"),
    ] {
        assert_eq!(offered(line).as_deref(), Some(words), "{line}");
    }
}

/// In a terminal of its own, since zsh completes nothing else: types the line and a tab, and prints
/// what the line is then.
const ZSH: &str = r#"zmodload zsh/zpty && zpty shell zsh -f -i || exit
    zpty -w shell "PROMPT= TERM=dumb; unsetopt zle_bracketed_paste auto_menu; fpath=($1 \$fpath)
        autoload -Uz compinit; compinit -u -D
        show() { print -r -- \"<<\$BUFFER>>\"; BUFFER=; zle accept-line }; zle -N show
        bindkey '^T' show; print rea''dy"
    zpty -r shell out '*ready*'
    zpty -w -n shell "$2"$'\t\x14'
    zpty -r shell out '*<<*>>*'
    print -r -- "${${out##*<<}%%>>*}"
    zpty -d shell"#;

#[test]
fn zsh_completes() {
    let Some(install) = mica() else { return };
    let folder = share(&install, "zsh/site-functions");
    let completed = |line: &str| {
        let mut zsh = Command::new("timeout");
        zsh.args(["60", "zsh", "-f", "-c", ZSH, "zsh"]).arg(&folder).arg(line);
        printed(&zsh.output().expect("timeout is everywhere"))
    };
    if output(Command::new("zsh").arg("--version")).is_none() {
        return;
    }
    for (line, wanted) in [
        ("mpirun -n 2 --ha", "mpirun -n 2 --hang-report \n"),
        ("mpiexec -genv A B -bind-to nu", "mpiexec -genv A B -bind-to numa \n"),
        ("mpiexec -n 2 ./a --ha", "mpiexec -n 2 ./a --ha\n"),
        ("mica doct", "mica doctor \n"),
        ("mica profile --stac", "mica profile --stack=\n"),
    ] {
        assert_eq!(completed(line), wanted, "{line}");
    }
}
