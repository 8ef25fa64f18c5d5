use super::value::parse_count;
use super::*;

#[test]
fn defaults_fit_their_kinds() {
    for t in ALL {
        match t.kind {
            TunableKind::Threshold => assert_eq!(t.default, "auto", "{}", t.name),
            TunableKind::Choice(words) | TunableKind::Path(words) => {
                assert!(words.contains(&t.default), "{}", t.name)
            }
            TunableKind::List(words) => {
                assert!(words.parse(t.default).is_ok(), "{}", t.name);
                let sets = std::iter::once(words.all).chain(words.entries.iter().map(|e| e.words));
                assert!(sets.clone().all(|words| words[0] == "auto"), "{}", t.name);
                let codes: u64 = sets.map(|words| words.len() as u64).product();
                assert!(codes < u64::from(u32::MAX), "{}: {codes} values in a code", t.name);
            }
            TunableKind::Bytes => {
                assert!(parse_bytes(t.default).is_some(), "{}", t.name)
            }
            TunableKind::Count => {
                assert!(parse_count(t.default).is_some(), "{}", t.name)
            }
        }
        assert!(t.env.starts_with("MICA_") && t.description.ends_with('.'), "{}", t.name);
    }
}

#[test]
fn what_must_agree_says_so_and_can_be_compared() {
    for t in ALL {
        let says = t.description.contains("the same for all ranks");
        assert_eq!(says, t.agreement == Agreement::Alike, "{}", t.name);
    }
    for t in alike() {
        let code = t.code().expect("the default");
        assert_eq!(t.text_of(code), t.default, "{}", t.name);
    }
    assert!(alike().count() <= crate::segment::SETTINGS_MAX);
}

/// Set in a test that runs itself again with other variables.
const INSIDE: &str = "MICA_TEST_VARIABLES_ARE_SET";

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs the test `name` of this file again, with these variables and no others of tunables.
fn run_again(name: &str, variables: &[(&str, &str)]) {
    let this = std::env::current_exe().expect("this program");
    let mut again = std::process::Command::new(this);
    again.args(["--exact", &format!("tunables::tests::{name}")]).env(INSIDE, "1");
    for variable in ALL.iter().flat_map(|tunable| tunable.variables()) {
        again.env_remove(variable);
    }
    let output = again.envs(variables.iter().copied()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn an_empty_variable_is_not_set() {
    if is_inside() {
        assert!(ALL.iter().all(|t| !t.is_set() && t.text() == t.default));
        return check_all().expect("the defaults");
    }
    let all = ALL.iter().flat_map(|tunable| tunable.variables());
    run_again("an_empty_variable_is_not_set", &all.map(|env| (env, "")).collect::<Vec<_>>());
    assert!(CHECK.replace("").is_err(), "a value that is given is checked");
}

#[test]
fn old_names_hold_unless_the_new_one_says_otherwise() {
    if is_inside() {
        assert_eq!(PATH.choice(), Ok("pull"));
        let list = COLL.list().expect("a value");
        assert_eq!(list.all(), "shared");
        assert_eq!(list.of("scan"), Some("doubling"), "by the old name");
        assert_eq!(list.of("bcast"), Some("direct"), "the new name goes first");
        assert_eq!(list.to_string(), "shared,bcast=direct,scan=doubling");
        let renamed: Vec<_> = COLL.renamed().chain(PATH.renamed()).collect();
        let wanted = [
            ("MICA_COLL_BCAST", "MICA_COLL=bcast=binomial"),
            ("MICA_COLL_SCAN", "MICA_COLL=scan=doubling"),
            ("MICA_WAY", "MICA_PATH=pull"),
        ];
        assert_eq!(renamed, wanted.map(|(old, new)| (old, new.to_owned())));
        let bad = COLL.replace("scan=ring").unwrap_err().to_string();
        assert!(bad.contains("(MICA_COLL_SCAN is the old name of MICA_COLL=scan"), "{bad}");
        return assert!(COLL.is_set() && PATH.is_set() && !SPIN.is_set());
    }
    let variables = [
        ("MICA_COLL", "shared,bcast=direct"),
        ("MICA_COLL_BCAST", "binomial"),
        ("MICA_COLL_SCAN", "doubling"),
        ("MICA_WAY", "pull"),
    ];
    run_again("old_names_hold_unless_the_new_one_says_otherwise", &variables);
}

#[test]
fn old_names_name_nothing_else() {
    let mut seen = std::collections::BTreeSet::new();
    for tunable in ALL {
        assert!(tunable.variables().all(|env| seen.insert(env)), "{}", tunable.name);
        for entry in tunable.old_names.iter().filter_map(|old| old.entry) {
            let TunableKind::List(words) = tunable.kind else { panic!("{}", tunable.name) };
            assert!(words.entries.iter().any(|known| known.name == entry), "{entry}");
        }
    }
}

#[test]
fn a_list_has_a_word_for_all_and_words_for_entries() {
    let TunableKind::List(words) = COLL.kind else { panic!("MICA_COLL is a list") };
    for (text, canonical) in [
        ("auto", "auto"),
        ("auto,bcast=auto", "auto"),
        ("direct", "direct"),
        ("bcast=binomial,allreduce=halving", "bcast=binomial,allreduce=halving"),
        ("allreduce=halving, messages", "messages,allreduce=halving"),
        ("scan=direct,shared,scan=shared,messages", "messages,scan=shared"),
    ] {
        let value = words.parse(text).expect(text);
        assert_eq!(value.to_string(), canonical);
        assert_eq!(words.decode(value.code()), value, "{text}");
        assert_eq!(words.parse(canonical), Ok(value));
    }
    let last = words
        .entries
        .iter()
        .map(|entry| format!("{}={}", entry.name, entry.words.last().expect("a word")));
    let last =
        words.parse(&["direct".to_owned()].into_iter().chain(last).collect::<Vec<_>>().join(","));
    let last = last.expect("the last word of each");
    assert_eq!(words.decode(last.code()), last);
    assert_eq!((last.of("barrier"), last.of("bcasts")), (Some("shared"), None));
}

#[test]
fn a_list_names_what_does_not_fit() {
    let TunableKind::List(words) = COLL.kind else { panic!("MICA_COLL is a list") };
    for (text, parts) in [
        ("bcast=bruck", ["one of auto, binomial, scatter-ring", "for bcast", "'bruck'"]),
        ("shared,bcasts=ring", ["one of barrier, bcast", "before the '='", "'bcasts'"]),
        ("fast", ["one of auto, messages, shared, direct", "NAME=WORD", "'fast'"]),
        ("shared,", ["one of auto, messages", "one of barrier, bcast", "''"]),
    ] {
        let expected = words.parse(text).expect_err(text);
        assert!(parts.iter().all(|part| expected.contains(part)), "{expected}");
    }
    let bad = COLL.bad("bcast=bruck".to_owned(), words.parse("bcast=bruck").unwrap_err());
    assert!(bad.to_string().starts_with("MICA_COLL=bcast=bruck: expected one of auto, binomial"));
}

#[test]
fn numbers_take_suffixes() {
    assert_eq!(parse_bytes("64K"), Some(65536));
    assert_eq!(parse_bytes(" 2g "), Some(2 << 30));
    assert_eq!(parse_count("2g"), None);
    assert_eq!(parse_bytes("many"), None);
    assert_eq!(parse_bytes(""), None);
}
