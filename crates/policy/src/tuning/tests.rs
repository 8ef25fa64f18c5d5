use super::*;
use crate::costs::{LEVELS, PATHS, SPANS};
use proptest::prelude::*;

fn machine() -> Identity {
    Identity {
        processor: "AMD EPYC \"9B14\" \\ x\u{7}".to_owned(),
        processors: "0-1".to_owned(),
        caches: "32K Data, 1024K Unified".to_owned(),
        kernel: "6.1.0".to_owned(),
    }
}

fn parse(text: &str) -> Result<Tuning, TuningError> {
    Tuning::parse(text, Path::new("t.toml"))
}

const HEAD: &str = "version = 1\n[machine]\nprocessor = \"a\"\nprocessors = \"0-1\"\ncaches = \
    \"\"\nkernel = \"6\"\n";
const STEPS: &str = "[collective]\nswitch_ns = 650\nreduce_byte_ns = 0.04\nround_ns = 150\n\
                     [collective.node]\nsync_ns = 90\nexpose_ns = 300\ncopy_start_ns = 12\n\
                     from = [0, 4096]\nbyte_ns = [0.1, 0.2]\n";
const PULL: &str = "[node.pull]\nstart_ns = 800\nfrom = [0, 4096]\nbyte_ns = [0.1, 2e-1]\n\
                    piece_ns = 6\nsender = 0\nreceiver = 1\n";

#[test]
fn a_file_is_read() {
    let text = format!("# by hand\n{HEAD}\n  {PULL}# end")
        .replace("= 800", "=800 # start")
        .replace("[node.pull]", "[node.pull] # far");
    let tuning = parse(&text).unwrap();
    let wanted = PathCost::new(800.0, &[(0, 0.1), (4096, 0.2)]).pieces(6.0).shares(0.0, 1.0);
    assert_eq!(tuning.costs, [(Level::Node, MessagePath::Pull, wanted)]);
    let costs = tuning.applied();
    assert_eq!(*costs.of(Level::Node, MessagePath::Pull), wanted);
    let shipped = PathCosts::default();
    assert_eq!(
        costs.of(Level::Node, MessagePath::Cells),
        shipped.of(Level::Node, MessagePath::Cells)
    );
}

#[test]
fn names_what_is_wrong_with_its_line() {
    let sound = format!("{HEAD}{PULL}");
    parse(&sound).unwrap();
    for (from, to, line, word) in [
        ("version = 1\n", "", 1, "version"),
        ("version = 1", "version = 2", 1, "version is 2"),
        ("version = 1", "version", 1, "KEY = VALUE"),
        ("version = 1", "version = \"1\"", 1, "version"),
        ("[machine]", "[machine", 2, "head of a section"),
        ("[machine]", "[cpu]", 2, "[cpu]"),
        ("kernel = \"6\"", "kernel = 6", 6, "kernel"),
        ("kernel = \"6\"", "kernel = \"6", 6, "string"),
        ("kernel = \"6\"\n", "", 2, "no kernel"),
        ("kernel = ", "colonel = ", 6, "colonel"),
        ("[node.pull]", "[moon.pull]", 7, "moon"),
        ("[node.pull]", "[node.carry]", 7, "carry"),
        ("[node.pull]", "[node.pull] x", 7, "head of a section"),
        ("start_ns = 800\n", "", 7, "no start_ns"),
        ("start_ns = 800", "start_ns = fast", 8, "fast"),
        ("start_ns = 800", "start_ns = NaN", 8, "NaN"),
        ("start_ns = 800", "start_ns = 1e999", 8, "1e999"),
        ("start_ns = 800", "start_ns = -8", 7, "-8"),
        ("start_ns = 800", "start_ns = 8\nstart_ns = 9", 9, "twice"),
        ("start_ns = 800", "start_ns = [800]", 8, "start_ns"),
        ("[0, 4096]", "[0, 4096", 9, "list"),
        ("[0, 4096]", "[]", 9, "list"),
        ("[0, 4096]", "[0, 1, 2, 3]", 9, "at most 3"),
        ("[0, 4096]", "[0]", 7, "from has 1 values and byte_ns has 2"),
        ("[0, 4096]", "[1, 4096]", 7, "expected 0"),
        ("[0, 4096]", "[0, 0]", 7, "out of order"),
        ("[0, 4096]", "[0, 1.5]", 7, "1.5"),
        ("[0, 4096]", "[0, 1e30]", 7, "from"),
        ("[0.1, 2e-1]", "[0.1, -2]", 7, "-2"),
        ("[0.1, 2e-1]", "0.1", 10, "byte_ns"),
        ("sender = 0", "sender = 2", 7, "sender is 2"),
        ("receiver = 1", "receiver = 1 1", 13, "1 1"),
        ("receiver = 1", "receiver = 1\nspeed = 1", 14, "speed"),
    ] {
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{from}");
        let error = parse(&text).expect_err(to).to_string();
        let start = format!("tuning file t.toml, line {line}: ");
        assert!(error.starts_with(&start) && error.contains(word), "{to}: {error}");
    }
    let error = parse(&format!("{sound}{PULL}")).unwrap_err().to_string();
    assert!(error.contains("line 14") && error.contains("twice"), "{error}");
    let error = parse(&format!("{HEAD}{HEAD}").replace(
        "version = 1\n[machine]\nprocessor = \
        \"a\"\nprocessors = \"0-1\"\ncaches = \"\"\nkernel = \"6\"\nversion = 1\n",
        HEAD,
    ));
    assert!(error.unwrap_err().to_string().contains("twice"));
    assert!(parse("").unwrap_err().to_string().contains("machine"));
}

#[test]
fn steps_of_collectives_are_read() {
    let shipped = CollectiveCosts::default();
    let old = parse(&format!("{HEAD}{PULL}")).unwrap();
    let costs = old.applied_to_collectives();
    assert_eq!(costs, CollectiveCosts::new(old.applied()));

    let new = parse(&format!("{HEAD}{PULL}{STEPS}")).unwrap();
    let costs = new.applied_to_collectives();
    assert_eq!((costs.switch_ns, costs.reduce_byte_ns, costs.round_ns), (650.0, 0.04, 150.0));
    let node = costs.of(Level::Node);
    assert_eq!((node.sync_ns, node.expose_ns), (90.0, 300.0));
    assert_eq!(node.copy, Some(PathCost::new(12.0, &[(0, 0.1), (4096, 0.2)])));
    assert_eq!(costs.of(Level::Package), shipped.of(Level::Package));
    assert_eq!(costs.flaw(), None);

    // Every line is optional; those of copies belong together.
    let few = "[collective.node]\nsync_ns = 90\n[collective]\nswitch_ns = 650\n";
    let costs = parse(&format!("{HEAD}{few}")).unwrap().applied_to_collectives();
    assert_eq!((costs.switch_ns, costs.round_ns), (650.0, shipped.round_ns));
    let node = costs.of(Level::Node);
    let expose_ns = shipped.of(Level::Node).expose_ns;
    assert_eq!((node.sync_ns, node.expose_ns, node.copy), (90.0, expose_ns, None));

    let sound = format!("{HEAD}{STEPS}");
    for (from, to, line, word) in [
        ("[collective.node]", "[collective.moon]", 11, "collective.moon"),
        ("switch_ns = 650", "switch_ns = -1", 7, "switch_ns is -1"),
        ("switch_ns = 650", "sync_ns = 650", 8, "sync_ns"),
        ("sync_ns = 90", "sync_ns = [90]", 12, "sync_ns"),
        ("sync_ns = 90", "switch_ns = 90", 12, "switch_ns"),
        ("copy_start_ns = 12\n", "", 11, "copy_start_ns"),
        ("from = [0, 4096]\n", "", 11, "no from"),
        ("[0.1, 0.2]", "[0.1, -0.2]", 11, "-0.2"),
        ("[0.1, 0.2]", "0.1", 16, "byte_ns"),
        ("[collective.node]", "[collective]\n[collective.node]", 11, "twice"),
    ] {
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{from}");
        let error = parse(&text).expect_err(to).to_string();
        let start = format!("tuning file t.toml, line {line}: ");
        assert!(error.starts_with(&start) && error.contains(word), "{to}: {error}");
    }
    let twice = format!("{sound}[collective.node]\n");
    assert!(parse(&twice).unwrap_err().to_string().contains("twice"));
}

#[test]
fn another_machine_is_refused() {
    let tuning = Tuning { machine: machine(), ..Tuning::default() };
    let file = Path::new("x.toml");
    tuning.check(&machine(), file).unwrap();
    let newer = Identity { kernel: "6.8.0".to_owned(), ..machine() };
    let error = tuning.check(&newer, file).unwrap_err().to_string();
    for word in ["x.toml", "kernel", "\"6.1.0\"", "\"6.8.0\"", "mica tune"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn machine_keys_are_valid_and_distinct_file_names() {
    let key = machine_key(&machine());
    assert!(key.starts_with("amd-epyc-9b14-x-"), "{key}");
    assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
    let differing = [
        Identity { processor: "AMD EPYC 9B15".to_owned(), ..machine() },
        Identity { processors: "0-3".to_owned(), ..machine() },
        Identity { caches: "32K Data, 2048K Unified".to_owned(), ..machine() },
        Identity { kernel: "6.2.0".to_owned(), ..machine() },
        // The parts are hashed with a separator.
        Identity {
            processors: "0-132K".to_owned(),
            caches: " Data, 1024K Unified".to_owned(),
            ..machine()
        },
        Identity::default(),
    ];
    for other in differing {
        assert_ne!(machine_key(&other), key);
    }
    assert!(machine_key(&Identity::default()).starts_with("machine-"));
}

#[test]
fn the_users_folder_comes_first() {
    let variables = |set: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        }
    };
    let prefix = Path::new("/opt/mica");
    let found = folders(&variables(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]), Some(prefix));
    assert_eq!(found, [Path::new("/c/mica/tuning"), Path::new("/opt/mica/etc/mica/tuning")]);
    let found = folders(&variables(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "here")]), None);
    assert_eq!(found, [Path::new("/h/.config/mica/tuning")]);
    assert!(folders(&variables(&[]), None).is_empty());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let error = Tuning::read(Path::new("/no/such/file.toml")).unwrap_err().to_string();
    assert!(error.contains("/no/such/file.toml"), "{error}");
    // An endless file that is not text.
    let error = Tuning::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("longer"), "{error}");
}

prop_compose! {
    fn costs()(
        start_ns in 0.0..1e6f64,
        prices in prop::collection::vec((1u64..1 << 40, 0.0..10.0f64), 1..=SPANS),
        piece_ns in 0.0..1e3f64,
        shares in (0.0..=1.0f64, 0.0..=1.0f64),
    ) -> PathCost {
        let mut from = 0;
        let prices: Vec<(u64, f64)> = prices
            .into_iter()
            .enumerate()
            .map(|(at, (step, byte_ns))| {
                from += if at == 0 { 0 } else { step };
                (from, byte_ns)
            })
            .collect();
        PathCost::new(start_ns, &prices).pieces(piece_ns).shares(shares.0, shares.1)
    }
}

prop_compose! {
    fn steps()(
        plain in prop::array::uniform3(prop::option::of(0.0..1e4f64)),
        levels in prop::sample::subsequence(LEVELS.to_vec(), 0..=LEVELS.len()),
        measured in prop::collection::vec(prop::array::uniform2(prop::option::of(0.0..1e4f64)), 3),
        copies in prop::collection::vec(prop::option::of(costs()), 3),
    ) -> CollectiveTuning {
        let alone = |copy: PathCost| copy.pieces(0.0).shares(1.0, 1.0);
        let copies = copies.into_iter().map(|copy| copy.map(alone));
        let levels = levels.into_iter().zip(measured).zip(copies);
        let levels = levels.map(|((level, [sync_ns, expose_ns]), copy)| {
            (level, LevelTuning { sync_ns, expose_ns, copy })
        });
        let [switch_ns, reduce_byte_ns, round_ns] = plain;
        CollectiveTuning { switch_ns, reduce_byte_ns, round_ns, levels: levels.collect() }
    }
}

proptest! {
    #[test]
    fn written_file_reads_back_equal(
        words in prop::array::uniform4("\\PC*|[\\x00-\\x7f]{1,20}"),
        costs in prop::collection::vec(costs(), 0..=LEVELS.len() * PATHS),
        collective in steps(),
    ) {
        let [processor, processors, caches, kernel] = words;
        let kernel = format!("6{kernel}");
        let pairs = LEVELS.into_iter().flat_map(|level| MessagePath::ALL.map(|path| (level, path)));
        let tuning = Tuning {
            machine: Identity { processor, processors, caches, kernel },
            costs: pairs.zip(costs).map(|((level, path), cost)| (level, path, cost)).collect(),
            collective,
        };
        prop_assert_eq!(parse(&tuning.to_string()).unwrap(), tuning);
    }

    /// Whatever a file contains, the result is usable costs, or an error with a line of the file.
    #[test]
    fn garbage_is_an_error_or_sane(
        at in any::<prop::sample::Index>(),
        length in 0usize..40,
        garbage in "[\\x00-\\x7f]{0,8}|\\PC{0,4}|[\\[\\]=#\",.0-9eE+-]{0,10}",
    ) {
        let sound = format!("{HEAD}{PULL}{STEPS}");
        let start = at.index(sound.len());
        let end = (start + length).min(sound.len());
        let text = format!("{}{garbage}{}", &sound[..start], &sound[end..]);
        match parse(&text) {
            Ok(tuning) => {
                prop_assert_eq!(tuning.applied_to_collectives().flaw(), None);
                for (_, _, cost) in tuning.costs {
                    prop_assert_eq!(cost.flaw(), None);
                }
            }
            Err(TuningError::Line { line, .. }) => {
                prop_assert!((1..=text.lines().count().max(1)).contains(&line));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
