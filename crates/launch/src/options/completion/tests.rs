use super::*;
use crate::options::table::options;

#[test]
fn values_are_read_from_the_help() {
    let words = |value| match ValueChoice::of(value) {
        ValueChoice::Words(words) => words.join(" "),
        other => panic!("{value}: {other:?}"),
    };
    assert_eq!(words("core[:N]|l3|none|user:SET,..."), "core l3 none user:");
    assert_eq!(words("tag|dir=DIR|file=NAME,..."), "tag dir= file=");
    assert_eq!(words("none|NAME,..."), "none");
    assert_eq!(ValueChoice::of("FILE"), ValueChoice::Files);
    assert_eq!(ValueChoice::of("DIR[:nocopy]"), ValueChoice::Folders);
    for free in ["N", "NAME[:SLOTS],...", "\"COMMAND:RANKS\"", "LOW:HIGH", "A[:B[:C]],..."] {
        assert_eq!(ValueChoice::of(free), ValueChoice::Free, "{free}");
    }
}

/// `tests/jobs/completion.rs` has the shells run them.
#[test]
fn every_script_has_every_option() {
    for shell in ["bash", "zsh", "fish"] {
        let script = completion(CompletionShell::parse(shell).expect("a shell"));
        for place in ["@OPTIONS@", "@VALUES@", "@ONE@", "@TWO@", "@WITH@"] {
            assert!(!script.contains(place), "{shell}: {place}");
        }
        for name in options().flat_map(|spec| spec.names) {
            assert!(script.contains(name.trim_start_matches('-')), "{shell}: {name}");
        }
    }
    assert_eq!(CompletionShell::parse("csh"), None);
}
