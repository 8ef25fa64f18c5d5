use super::{ChipMachine, MachineError, SimulatedMachine};

fn set(settings: &[&str]) -> Result<SimulatedMachine, MachineError> {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    SimulatedMachine::with("power5-redstorm", &settings)
}

fn refusal(setting: &str) -> String {
    set(&[setting]).unwrap_err().to_string()
}

#[test]
fn reads_all_shipped_machines() {
    let simulated: Vec<_> = SimulatedMachine::names().collect();
    assert_eq!(simulated, ["power5-redstorm", "epyc7742-slingshot", "xeon8480-ndr"]);
    let chips: Vec<_> = ChipMachine::names().collect();
    assert_eq!(chips, ["xeon8480-ndr", "x4600", "upi-2", "upi-4", "xgmi-2", "xgmi-4"]);
    for name in simulated {
        let machine = SimulatedMachine::named(name).unwrap_or_else(|e| panic!("{e}"));
        assert!(!machine.description.is_empty());
    }
}

#[test]
fn power5_is_the_thesis_s() {
    let machine = SimulatedMachine::named("power5-redstorm").unwrap();
    assert_eq!(machine.processor.mhz, 1650.0);
    let clocks = machine.memory.clocks.as_ref().unwrap();
    assert_eq!(clocks.controller.mhz(1650.0), 825.0);
    assert_eq!(clocks.dram.mhz(1650.0), 275.0);
    assert_eq!(machine.caches.l2.size_kib * 8, 15 * 1024);
}

#[test]
fn settings_replace_single_values() {
    let machine = set(&[
        "processor.mhz=2100",
        "memory.slow_down = 7.5",
        "caches.l3.replacement=lru",
        "network.topology={ kind = 'fat_tree', arity = 8, levels = 2 }",
        "memory.clocks.controller={ mhz = 900 }",
    ])
    .unwrap();
    assert_eq!(machine.processor.mhz, 2100.0);
    assert_eq!(machine.memory.slow_down, 7.5);
    assert_eq!(machine.network.topology.room(), Some(64));
    assert_eq!(machine.caches.l3.unwrap().replacement, super::Replacement::Lru);
}

#[test]
fn names_field_value_and_file_of_impossible_values() {
    let cases = [
        (
            "caches.l2.ways=7",
            "power5-redstorm: caches.l2.size_kib = 1920: is not a multiple of 7 ways of lines of \
             128 bytes",
        ),
        (
            "caches.l1d.size_kib=48",
            "power5-redstorm: caches.l1d.size_kib = 48: makes 96 sets of 4 ways, and the sets of \
             an L1 must be a power of two",
        ),
        (
            "caches.l3.slices=7",
            "power5-redstorm: caches.l3.slices = 7: does not divide the 24576 sets",
        ),
        (
            "caches.line=100",
            "power5-redstorm: caches.line = 100: must be a power of two from 32 to 1024",
        ),
        ("caches.l2.ways=0", "power5-redstorm: caches.l2.ways = 0: must be from 1 to 32"),
        (
            "processor.miss_overlap=1.5",
            "power5-redstorm: processor.miss_overlap = 1.5: must be from 0 to 1",
        ),
        (
            "memory.timing={ latency_ns = 90, bandwidth_gb_s = 20 }",
            "power5-redstorm: memory = both: give one of memory.clocks and memory.timing",
        ),
        (
            "network.topology.rings=[true]",
            "power5-redstorm: network.topology.rings = [true]: must have one value for each of \
             [27, 20, 24]",
        ),
    ];
    for (setting, message) in cases {
        assert_eq!(refusal(setting), message);
    }
}

#[test]
fn names_the_field_of_a_wrong_type_and_of_an_unknown_key() {
    let wrong = refusal("caches.l2.ways=many");
    assert!(wrong.contains("caches.l2.ways"), "{wrong}");
    assert!(wrong.contains("many"), "{wrong}");
    let unknown = refusal("caches.l2.colour=3");
    assert!(unknown.contains("caches.l2"), "{unknown}");
    assert!(unknown.contains("colour"), "{unknown}");
    let policy = refusal("caches.l2.inclusion=sometimes");
    assert!(policy.contains("caches.l2.inclusion"), "{policy}");
    assert!(policy.contains("sometimes"), "{policy}");
}

#[test]
fn refuses_what_is_no_setting() {
    for (setting, reason) in [
        ("processor.mhz", "has no '='"),
        ("=3", "has no key"),
        ("description.mhz=3", "'description' is not a section"),
    ] {
        let message = refusal(setting);
        assert!(message.contains(reason), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn refuses_no_machine_no_file_and_no_toml_in_one_line() {
    let none = SimulatedMachine::named("power6").unwrap_err().to_string();
    assert!(none.starts_with("no machine 'power6'"), "{none}");
    assert!(none.contains("power5-redstorm"), "{none}");
    let absent = SimulatedMachine::named("/no/such/file.toml").unwrap_err();
    assert!(matches!(absent, MachineError::Unreadable { .. }));
    let text = "description = 'x'\n[processor]\nmhz = = 3\n";
    let broken = SimulatedMachine::parse(text, "x.toml", &[]).unwrap_err().to_string();
    assert!(broken.starts_with("x.toml:3: not valid TOML"), "{broken}");
    let short = SimulatedMachine::parse("description = 'x'\n", "x.toml", &[]).unwrap_err();
    assert!(short.to_string().contains("processor"), "{short}");
    for message in [none, absent.to_string(), broken, short.to_string()] {
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn one_description_serves_both_uses() {
    let chips = ChipMachine::named("xeon8480-ndr").unwrap();
    let node = SimulatedMachine::named("xeon8480-ndr").unwrap();
    assert_eq!((chips.chips(), chips.name()), (2, &*node.description));
    assert_eq!(chips.cores(), 2 * node.processor.cores as usize, "those of [processor]");
    let error = SimulatedMachine::named("x4600").unwrap_err().to_string();
    assert_eq!(error, "x4600: has no section [processor]");
    let error = ChipMachine::named("power5-redstorm").unwrap_err().to_string();
    assert_eq!(error, "power5-redstorm: has no section [chips]");
}

/// The descriptions that shipped before chips were a section, as they were.
const OLD: [(&str, &str); 5] = [
    ("x4600", include_str!("../tests/old_form/x4600.toml")),
    ("upi-2", include_str!("../tests/old_form/upi-2.toml")),
    ("upi-4", include_str!("../tests/old_form/upi-4.toml")),
    ("xgmi-2", include_str!("../tests/old_form/xgmi-2.toml")),
    ("xgmi-4", include_str!("../tests/old_form/xgmi-4.toml")),
];

#[test]
fn old_form_is_read_as_the_same_machine() {
    for (name, old) in OLD {
        let old = ChipMachine::parse(old, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(old, ChipMachine::named(name).unwrap());
    }
    let bandwidth = |name| ChipMachine::named(name).unwrap().links()[0].bandwidth;
    let of_all = ["x4600", "upi-2", "upi-4", "xgmi-2", "xgmi-4"].map(bandwidth);
    assert_eq!(of_all, [4e9, 3.0 * 22.4e9, 48e9, 4.0 * 36e9, 2.0 * 64e9]);
    let x4600 = ChipMachine::named("x4600").unwrap();
    assert_eq!((x4600.core_bandwidth(), x4600.memory_bandwidth()), (2.5e9, 8.5e9));
    assert_eq!(x4600.links()[0].latency, 45e-9);
    assert_eq!(x4600.latency(0, 0), 70e-9);
}

#[test]
fn old_form_has_routes_and_refuses_unknown_keys_and_impossible_values() {
    let (name, text) = OLD[2];
    let routed = format!("{text}\n[[route]]\npath = [0, 2, 1]\n");
    let routed = ChipMachine::parse(&routed, name).unwrap();
    assert_eq!((routed.route(0, 1).len(), routed.route(1, 0).len()), (2, 1));
    let error = |old: &str, new: &str| {
        ChipMachine::parse(&text.replacen(old, new, 1), name).unwrap_err().to_string()
    };
    assert!(error("io =", "speed = 1\nio =").contains("unknown field `speed`"));
    assert!(error("cores_per_socket = 48", "").contains("chips.cores"));
    let negative = error("core_bandwidth = 12e9", "core_bandwidth = -12e9");
    assert_eq!(negative, "upi-4: chips.core_gb_s = -12: must be above 0");
}
