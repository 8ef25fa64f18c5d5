//! The binary interface against the last release's (`tests/abi/interface.txt`): what both libraries
//! export, and what `mpi.h` says of types, constants and functions. Additions are reported and
//! allowed; what is gone or has changed would break programs that run today, and fails
//! (docs/versions.md). `MICA_RENEW=1 cargo test -p mica-tests --test jobs abi::` writes the list.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use mica_tests::{Install, target, workspace};

use crate::mpich::output;

/// The libraries that programs are linked to.
const LIBRARIES: [&str; 2] = ["libmpi_abi.so.1", "libmpi.so.12"];

const HEAD: &str = "\
# The binary interface of the last release: what programs that were compiled for it rely on.
# tests/jobs/abi.rs compares the built libraries and mpi.h with it, and writes it anew:
# MICA_RENEW=1 cargo test -p mica-tests --test jobs abi::
";

/// Each part of the interface by its name.
type Interface = BTreeMap<String, String>;

/// What a library exports: type and binding by name and version, and the bytes of data, which
/// programs may have copies of; and its SONAME.
fn exports(library: &Path, interface: &mut Interface) {
    let file = library.file_name().expect("a file").to_string_lossy();
    let symbols = output(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(library));
    for line in symbols.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [number, _, bytes, kind, binding, visibility, section, name, ..] = fields[..] else {
            continue;
        };
        if !number.ends_with(':') || number == "Num:" || section == "UND" {
            continue;
        }
        let bytes = if kind == "OBJECT" { format!(" {bytes} bytes") } else { String::new() };
        let described = format!("{kind} {binding} {visibility}{bytes}");
        interface.insert(format!("export {file} {name}"), described);
    }
    let dynamic = output(Command::new("readelf").args(["-d", "-W"]).arg(library));
    let soname = dynamic.lines().find(|line| line.contains("(SONAME)")).expect("a SONAME");
    let (_, soname) = soname.split_once('[').expect("in brackets");
    interface.insert(format!("soname {file}"), soname.trim_end_matches(']').to_owned());
}

/// What the header declares.
struct Header {
    /// Macros and enumerators with a value.
    constants: Vec<String>,
    /// Types of data.
    types: Vec<String>,
    /// Members, as STRUCTURE, MEMBER.
    members: Vec<(String, String)>,
    /// Functions and types of callbacks, with their declarations.
    declared: Vec<(String, String)>,
}

impl Header {
    fn read(text: &str) -> Header {
        let (mut constants, mut declared) = (Vec::new(), Vec::new());
        let mut code = String::new();
        for line in without_comments(text).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                // Another name of a function.
                ["#define", name, function] if is_function(function) => {
                    declared.push((name.to_owned(), function.to_owned()));
                }
                ["#define", name, _, ..] => constants.push(name.to_owned()),
                [word, ..] if word.starts_with('#') => {}
                ["extern", ..] | ["}"] => {}
                _ => code = code + line + "\n",
            }
        }
        let mut header = Header { constants, types: Vec::new(), members: Vec::new(), declared };
        let mut rest = code.as_str();
        while let Some((declaration, next)) = next_declaration(rest) {
            header.add(&declaration);
            rest = next;
        }
        header
    }

    /// Adds a declaration, whose words are one space apart.
    fn add(&mut self, declaration: &str) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if let Some((head, body)) = declaration.split_once('{') {
            let (body, name) = body.split_once('}').expect("a closed brace");
            let name = name.trim().to_owned();
            let is_enumeration = head.contains("enum ");
            let parts = body.split([',', ';']).map(str::trim).filter(|part| !part.is_empty());
            for part in parts {
                let word = part.split([' ', '[']).filter(|word| !word.is_empty());
                match is_enumeration {
                    true => self.constants.push(word.take(1).collect()),
                    false => self.members.push((name.clone(), word.skip(1).take(1).collect())),
                }
            }
            self.types.push(name);
        } else if let Some((before, _)) = declaration.split_once('(') {
            let callback = declaration.strip_prefix("typedef ");
            let after = callback.and_then(|rest| rest.split_once('(')).map(|(_, after)| after);
            let name = after.and_then(|after| after.split(')').next());
            let name = name.or_else(|| before.rsplit(|c| !is_name(c)).next());
            let name = name.expect("a name").to_owned();
            self.declared.push((name, declaration.to_owned()));
        } else if let Some(rest) = declaration.strip_prefix("typedef ") {
            let name = rest.rsplit(|c| !is_name(c)).next().expect("a name").to_owned();
            // Another name of a type of callbacks has no size.
            match rest.contains("errhandler_function ") {
                true => self.declared.push((name, declaration.to_owned())),
                false => self.types.push(name),
            }
        }
    }

    /// A program that prints what only a compiler knows.
    fn program(&self) -> String {
        let mut program = String::from(
            "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <mpi.h>\n\
             #define ALIGNMENT(type) offsetof(struct { char c; type t; }, t)\n\
             int main(void)\n{\n",
        );
        for name in &self.constants {
            let value = format!("(long long) (intptr_t) ({name})");
            let _ = writeln!(program, "    printf(\"constant {name}\\t%lld\\n\", {value});");
        }
        for name in &self.types {
            let _ = writeln!(
                program,
                "    printf(\"type {name}\\t%zu bytes, aligned to %zu\\n\", sizeof({name}), \
                 ALIGNMENT({name}));"
            );
        }
        for (structure, member) in &self.members {
            let _ = writeln!(
                program,
                "    printf(\"member {structure}.{member}\\t%zu bytes at %zu\\n\", \
                 sizeof((({structure} *) 0)->{member}), offsetof({structure}, {member}));"
            );
        }
        program + "    return 0;\n}\n"
    }
}

/// Functions have small letters in their names, constants have none.
fn is_function(name: &str) -> bool {
    name.trim_start_matches('P').starts_with("MPI_") && name.contains(char::is_lowercase)
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + part.split_once("*/").map_or("", |(_, rest)| rest))
}

/// The first declaration, with its words one space apart, and what follows it. Members of a
/// structure end in semicolons as well.
fn next_declaration(code: &str) -> Option<(String, &str)> {
    let mut depth = 0;
    let end = code.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        (c == ';' && depth == 0).then_some(at)
    })?;
    let words: Vec<&str> = code[..end].split_whitespace().collect();
    Some((words.join(" "), &code[end + 1..]))
}

/// What the header says, as the compiler lays it out.
fn declarations(header: &Path, interface: &mut Interface) {
    let text = fs::read_to_string(header).expect("the header is installed");
    let header_parts = Header::read(&text);
    let folder = target().join(format!("abi-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("target is writable");
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    fs::write(&source, header_parts.program()).expect("own folder");
    let include = header.parent().expect("a folder");
    output(Command::new("cc").arg("-I").arg(include).arg(&source).arg("-o").arg(&program));
    for line in output(&mut Command::new(&program)).lines() {
        let (name, value) = line.split_once('\t').expect("name and value");
        interface.insert(name.to_owned(), value.to_owned());
    }
    fs::remove_dir_all(&folder).expect("own folder");
    // Those of PMPI are the same (tests/jobs/bindings.rs).
    let of_mpi = |(name, _): &(String, String)| !name.starts_with("PMPI_");
    for (name, declaration) in header_parts.declared.into_iter().filter(of_mpi) {
        interface.insert(format!("declaration {name}"), declaration);
    }
}

/// What differs between two states of the interface.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    broken: Vec<String>,
    added: Vec<String>,
}

impl Difference {
    fn between(before: &Interface, now: &Interface) -> Difference {
        let mut difference = Difference::default();
        for (name, was) in before {
            match now.get(name) {
                None => difference.broken.push(format!("{name} is gone")),
                Some(is) if is != was => {
                    difference.broken.push(format!("{name} was '{was}' and is '{is}'"));
                }
                Some(_) => {}
            }
        }
        let is_new = |name: &&String| !before.contains_key(*name);
        difference.added = now.keys().filter(is_new).cloned().collect();
        difference
    }
}

fn parse(text: &str) -> Interface {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once('\t').expect("name and value"));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_interface_of_the_last_release_is_there() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: the installation is not Mica's");
        return;
    }
    let mut now = Interface::new();
    for library in LIBRARIES {
        exports(&install.prefix().join("lib").join(library), &mut now);
    }
    declarations(&install.prefix().join("include/mpi.h"), &mut now);
    let list = workspace().join("tests/abi/interface.txt");
    if std::env::var_os("MICA_RENEW").is_some() {
        let lines: String = now.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
        fs::write(&list, format!("{HEAD}{lines}")).expect("the list is written");
    }
    let before = parse(&fs::read_to_string(&list).expect("tests/abi/interface.txt is there"));
    assert!(before.len() > 3900, "{} parts are listed", before.len());
    let Difference { broken, added } = Difference::between(&before, &now);
    if !added.is_empty() {
        println!("added since the last release: {}", added.join(", "));
    }
    assert!(
        broken.is_empty(),
        "programs that are compiled for the last release would break; see docs/versions.md:\n{}",
        broken.join("\n")
    );
}

#[test]
fn what_is_gone_or_has_changed_is_found_and_what_is_new_is_allowed() {
    let before =
        parse("# comment\nexport l MPI_Send\tFUNC\ntype MPI_Status\t32 bytes\nsoname l\tl.1\n");
    let now = parse("type MPI_Status\t40 bytes\nsoname l\tl.1\nconstant MPI_NEW\t7\n");
    let expected = Difference {
        broken: vec![
            "export l MPI_Send is gone".to_owned(),
            "type MPI_Status was '32 bytes' and is '40 bytes'".to_owned(),
        ],
        added: vec!["constant MPI_NEW".to_owned()],
    };
    assert_eq!(Difference::between(&before, &now), expected);
}

#[test]
fn declarations_of_a_header_are_told_apart() {
    let header = Header::read(
        "#ifndef H\n#define H\n#include <stdint.h>\nextern \"C\" {\n#define MPI_A 1 /* x; */\n\
         #define MPI_Op_c2f MPI_Op_toint\n\
         typedef int64_t MPI_Count;\ntypedef struct MPI_ABI_Op *MPI_Op;\n\
         typedef struct S {\n    int TAG;\n    int rest[5];\n} S;\n\
         typedef enum E {\n    MPI_X = 0,\n    MPI_Y = 3\n} E;\n\
         typedef int (MPI_Copy)(int a,\n    void *b);\nint MPI_Send(const void *buf,\n  int n);\n\
         }\n",
    );
    assert_eq!(header.constants, ["MPI_A", "MPI_X", "MPI_Y"]);
    assert_eq!(header.types, ["MPI_Count", "MPI_Op", "S", "E"]);
    let members: Vec<&str> = header.members.iter().map(|(_, member)| member.as_str()).collect();
    assert_eq!(members, ["TAG", "rest"]);
    let declared: Vec<(&str, &str)> =
        header.declared.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        declared,
        [
            ("MPI_Op_c2f", "MPI_Op_toint"),
            ("MPI_Copy", "typedef int (MPI_Copy)(int a, void *b)"),
            ("MPI_Send", "int MPI_Send(const void *buf, int n)"),
        ]
    );
}
