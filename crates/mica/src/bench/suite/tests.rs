use super::*;
use crate::bench::execute::words;

fn parse(text: &str) -> Result<Suite, String> {
    let suite: Suite = toml::from_str(text).map_err(|error| error.to_string())?;
    suite.check().map(|()| suite)
}

const SMALL: &str = r#"
[[program]]
name = "floor"
floor = true
[[program]]
name = "a"
ranks = [2]
[[program]]
name = "b"
source = "a.c"
ranks = [2, 4]
args = ["1", "2"]
quick_args = ["1"]
[[set]]
name = "one"
title = "One"
programs = ["b"]
[[bar]]
text = "t"
program = "a"
measure = "m"
against = "best-peer"
at_most = 1.0
"#;

/// Reads the shipped suite.
#[test]
fn the_real_suite_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
    let suite = Suite::read(&folder).unwrap();
    assert!(!suite.bars.is_empty());

    for program in &suite.programs {
        let source = suite.sources.join(program.source());
        assert!(source.is_file(), "{} is missing", source.display());
    }
    for walk in &suite.caches {
        let source = suite.sources.join(&walk.source);
        assert!(source.is_file(), "{} is missing", source.display());
    }
    assert!(suite.programs.iter().any(|program| program.floor));
    let needed = suite.select(&[BARS.to_owned()]).unwrap();
    assert!(needed.len() > 5 && needed.len() < suite.programs.len());
}

#[test]
fn sets_and_programs_are_selected_once_in_order() {
    let suite = parse(SMALL).unwrap();
    let names = |list: &[&str]| {
        let programs = suite.select(&words(list));
        programs.map(|list| list.iter().map(|p| p.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(names(&["b", "one", "a"]).unwrap(), ["a", "b"]);
    assert_eq!(names(&["bars"]).unwrap(), ["a"]);
    assert_eq!(names(&["all"]).unwrap(), ["a", "b"]);
    let error = names(&["two"]).unwrap_err();
    assert!(error.contains("'two'") && error.contains("one, bars, all"), "{error}");
    let b = suite.program("b").unwrap();
    assert_eq!((b.arguments(false).len(), b.arguments(true).len()), (2, 1));
    assert_eq!(b.source(), "a.c");
}

#[test]
fn names_what_is_wrong() {
    let bar = |against: &str, limit: &str| {
        let bar = "[[bar]]\ntext = \"t\"\nprogram = \"a\"\nmeasure = \"m\"";
        format!("{bar}\nagainst = \"{against}\"\n{limit}")
    };
    let cases: [(&str, &str); 13] = [
        ("[[set]]\nname = \"a\"\ntitle = \"A\"\nprograms = []", "called 'a'"),
        ("[[set]]\nname = \"x\"\ntitle = \"X\"\nprograms = [\"none\"]", "program 'none'"),
        ("[[program]]\nname = \"c\"", "program 'c' needs 'ranks'"),
        ("[[program]]\nname = \"c\"\nranks = [2]\ncpus = \"x\"", "cpus 'x'"),
        ("[[program]]\nname = \"c\"\nnodes = [1, 1]\nscratch = true", "has 'scratch'"),
        (&bar("luck", "at_most = 1.0"), "against 'luck'"),
        (&bar("variant v", "at_most = 1.0"), "variant 'v'"),
        (&bar("floor", ""), "'at_most' or"),
        (&bar("own", "at_most = 1.0"), "needs 'than'"),
        ("[[program]]\nname = \"c\"\nranks = [2]\nrangs = 2", "rangs"),
        ("[guidelines]\ntolerance = 0.1\nsets = [\"none\"]", "set 'none'"),
        ("[[guideline]]\ntext = \"g\"\nmeasure = \"m\"\nthan = []", "'g' needs 'than'"),
        (
            "[[guideline]]\ntext = \"g\"\nmeasure = \"m\"\nthan = [{ measure = \"n\", bytes = \
            \"half\" }]",
            "half",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(&format!("{SMALL}\n{text}")).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn cpus_and_variants_are_parsed() {
    assert_eq!(parse_cpus("0-2,5").unwrap(), [0, 1, 2, 5]);
    assert!(parse_cpus("").is_err());
    let variant = parse_variant("basic:MICA_SHM=basic,MICA_SPIN=5").unwrap();
    assert_eq!(variant.name, "basic");
    assert_eq!(variant.env["MICA_SPIN"], "5");
    for text in ["basic", ":A=1", "basic:A", "basic:=1"] {
        assert!(parse_variant(text).unwrap_err().contains(text), "{text}");
    }
}

const ON_HOSTS: &str = r#"
[[program]]
name = "far"
source = "a.c"
nodes = [2, 1]
only = ["mica"]
sweep = { variable = "MICA_X", values = [1, 10], key = "x" }
[[bar]]
text = "far"
program = "far"
measure = "m"
against = "best-peer"
at_most = 1.0
"#;

/// Programs that need two hosts run only if they are named. Bars are judged wherever their program
/// runs.
#[test]
fn programs_on_two_hosts_are_asked_for() {
    let suite = parse(&[SMALL, ON_HOSTS].concat()).unwrap();
    let names = |asked: &[&str]| -> Vec<String> {
        let chosen = suite.select(&words(asked)).unwrap();
        chosen.iter().map(|program| program.name.clone()).collect()
    };
    let bars = |asked: &[&str]| -> Vec<String> {
        let bars = suite.bars_of(&words(asked)).unwrap();
        bars.iter().map(|bar| bar.text.clone()).collect()
    };
    assert_eq!(names(&["all"]), ["a", "b"]);
    assert_eq!(names(&["bars"]), ["a"]);
    assert_eq!((bars(&["bars"]), bars(&["b"])), (vec!["t".into()], vec![]));
    assert_eq!(names(&["far", "a"]), ["a", "far"]);
    assert_eq!(bars(&["far", "b"]), ["far"]);
    assert_eq!(bars(&["far", "a"]), ["t", "far"]);
    let far = suite.program("far").unwrap();
    assert!(far.on_hosts() && far.counts() == [3]);
    assert_eq!(far.all_keys().collect::<Vec<_>>(), ["x"]);
    assert_eq!(suite.program("b").unwrap().counts(), [2, 4]);
}

#[test]
fn a_program_on_hosts_is_checked() {
    for (from, to, word) in [
        ("[2, 1]", "[2, 1, 1]", "3 'nodes'"),
        ("[2, 1]", "[2, 0]", "at least 1"),
        ("nodes = [2, 1]", "nodes = [2, 1]\nranks = [3]", "beside 'nodes'"),
        ("nodes = [2, 1]", "nodes = [2, 1]\ncpus = \"0\"", "no 'cpus'"),
        ("only = [\"mica\"]", "only = [\"mica\", \"impi\"]", "a 'sweep'"),
    ] {
        let text = [SMALL, &ON_HOSTS.replace(from, to)].concat();
        let error = parse(&text).unwrap_err();
        assert!(error.contains("'far'") && error.contains(word), "{to}: {error}");
    }
}
