//! Which events count the bytes on the links between chips, from the counting units that
//! [`discover`](crate::discover) has found: a number to open each by, and the bytes of a count.
//!
//! - `uncore_upi_N`: `UNC_UPI_TxL_FLITS.ALL_DATA`, event 0x02, umask 0x0f; nine of them are 64
//!   bytes. From Skylake-SP on; intel_metrics.py says "ALL_DATA / 9 * 64B".
//! - `amd_df`, Zen 2 and 3: `remote_outbound_data_controller_0` to `3`, event 0x7c7 + 0x40 N, umask
//!   0x02, of 32 bytes; amdzen2 and amdzen3/data-fabric.json.
//! - `amd_df`, Zen 4: `local_socket_outbound_data_beats_link0` to `7`, event 0xb5f + 0x40 N, umask
//!   0xf3e, of 64 bytes; amdzen4/data-fabric.json.
//! - `amd_df`, Zen 5: `local_socket_outbound_data_beats_link_0` to `5`, event 0xd5f + 0x40 N, umask
//!   0xf3e, of 64 bytes; amdzen5/data-fabric.json.
//!
//! The files are Linux's, in tools/perf/pmu-events (Intel's script lies there, AMD's under
//! arch/x86). Family and model of AMD's generations are those of mapfile.csv there. All events
//! count what a chip sends, payload only. Parallel links between two chips are one directed link,
//! as in [`ChipMachine`](mica_machine::ChipMachine): their counts are added up.
//!
//! Where a link leads: the kernel says it of UPI (`uncore_upi_X/dieY` holds `upi_Z,die_W`, since
//! Linux 6.2; Documentation/ABI/testing/sysfs-devices-mapping). Without it, and on AMD, all links
//! of one of two packages lead to the other; on machines with more packages they are left out, with
//! a note, since a guess would blame the wrong link. QPI (before Skylake-SP) is left out too.

use std::collections::BTreeMap;
use std::path::Path;

use crate::discover::{CounterUnit, LinkUnits, ProcessorModel, UnitKind};

/// An event to open, and what its count means.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkEvent {
    /// The unit and the event, for people.
    pub name: String,
    /// The `type` for perf_event_open.
    pub event_type: u32,
    /// The `config` for perf_event_open.
    pub config: u64,
    /// The processor to open it on.
    pub cpu: u32,
    /// Bytes of a count.
    pub scale: f64,
    /// The chip that sends.
    pub from: u32,
    /// The chip that receives.
    pub to: u32,
}

impl LinkEvent {
    /// The directed link: `0->1`.
    pub fn link(&self) -> String {
        format!("{}->{}", self.from, self.to)
    }
}

/// What can be counted on a machine, and why the rest cannot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkEvents {
    /// The events, by unit and package.
    pub events: Vec<LinkEvent>,
    /// Sentences about units that were left out.
    pub notes: Vec<String>,
}

/// A family of events of one unit: number `N` is `event + 0x40 N`.
struct EventRow {
    name: &'static str,
    event: u64,
    count: u64,
    umask: u64,
    scale: f64,
}

/// Those that the head of this file lists: name, first event, number of events, umask, bytes.
const fn row(name: &'static str, event: u64, count: u64, umask: u64, scale: f64) -> EventRow {
    EventRow { name, event, count, umask, scale }
}

const UPI: EventRow = row("UNC_UPI_TxL_FLITS.ALL_DATA", 0x02, 1, 0x0f, 64.0 / 9.0);
const ZEN_2_AND_3: EventRow = row("remote_outbound_data_controller_", 0x7c7, 4, 0x02, 32.0);
const ZEN_4: EventRow = row("local_socket_outbound_data_beats_link", 0xb5f, 8, 0xf3e, 64.0);
const ZEN_5: EventRow = row("local_socket_outbound_data_beats_link_", 0xd5f, 6, 0xf3e, 64.0);

/// The row of an AMD processor.
fn amd_row(processor: &ProcessorModel) -> Option<&'static EventRow> {
    match (processor.family, processor.model) {
        (0x17, 0x30..) => Some(&ZEN_2_AND_3),
        (0x19, 0x00..=0x0f | 0x20..=0x2f | 0x40..=0x5f) => Some(&ZEN_2_AND_3),
        (0x19, _) => Some(&ZEN_4),
        (0x1a, _) => Some(&ZEN_5),
        _ => None,
    }
}

impl LinkUnits {
    /// The events that count the bytes on the links between chips.
    pub fn link_events(&self) -> LinkEvents {
        let mut found = LinkEvents::default();
        for unit in &self.units {
            let row = match unit.kind {
                UnitKind::IntelLink if unit.name.starts_with("uncore_upi") => Some(&UPI),
                UnitKind::AmdFabric => self.processor.as_ref().and_then(amd_row),
                UnitKind::IntelLink => None,
                UnitKind::Memory | UnitKind::Other => continue,
            };
            match row {
                Some(row) => unit.add_events(row, &mut found),
                None => found.notes.push(format!(
                    "{} is there, but its events for data on links are not known here",
                    unit.name
                )),
            }
        }
        found
    }
}

impl CounterUnit {
    /// The events of this unit on each package that says, or cannot but mean, where its link leads.
    fn add_events(&self, row: &EventRow, found: &mut LinkEvents) {
        if self.packages.len() < 2 {
            return;
        }
        for (place, (&cpu, &package)) in self.cpus.iter().zip(&self.packages).enumerate() {
            let Some(to) = self.peer_of(place) else {
                found.notes.push(format!(
                    "{} of package {package} is left out: the kernel does not say to which of {} \
                     packages its links lead",
                    self.name,
                    self.packages.len()
                ));
                continue;
            };
            for number in 0..row.count {
                let fields = [("event", row.event + 0x40 * number), ("umask", row.umask)];
                let name = match row.count {
                    1 => format!("{}/{}", self.name, row.name),
                    _ => format!("{}/{}{number}", self.name, row.name),
                };
                match encode(&self.format, &fields) {
                    Ok(config) => found.events.push(LinkEvent {
                        name,
                        event_type: self.event_type,
                        config,
                        cpu,
                        scale: row.scale,
                        from: package,
                        to,
                    }),
                    Err(problem) => found.notes.push(format!("{name} is left out: {problem}")),
                }
            }
        }
    }

    /// The package at the other end of this unit's link on the package at `place` of the list.
    fn peer_of(&self, place: usize) -> Option<u32> {
        match self.peers.get(&(place as u32)) {
            // Dies are numbered in the order of the packages' processors in the mask.
            Some(&die) => self.packages.get(die as usize).copied(),
            None if self.packages.len() == 2 => Some(self.packages[1 - place]),
            None => None,
        }
    }
}

/// The events of a unit that a user names as perf does, `UNIT/FIELD=VALUE,.../`: one for each of
/// the unit's processors; one for the reading thread itself where the unit has none. The field
/// `config` is the whole number.
///
/// # Errors
/// What is wrong with the text, as a sentence.
pub fn named_event(root: &Path, text: &str) -> Result<Vec<RawEvent>, String> {
    let wrong = || format!("{text:?} is not UNIT/FIELD=VALUE,.../");
    let (name, fields) = text.trim_end_matches('/').split_once('/').ok_or_else(wrong)?;
    let mut values = Vec::new();
    for field in fields.split(',') {
        let (field, value) = field.split_once('=').ok_or_else(wrong)?;
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        values.push((field, number.map_err(|_| wrong())?));
    }
    let unit = CounterUnit::named(root, name)
        .map_err(|error| format!("{text}: there is no such event source: {error}"))?;
    let config = match values[..] {
        [("config", config)] => config,
        _ => encode(&unit.format, &values).map_err(|what| format!("{text}: {what}"))?,
    };
    let event = |cpu: Option<u32>, name: String| RawEvent {
        name,
        event_type: unit.event_type,
        config,
        cpu,
    };
    let all = unit.cpus.iter().zip(&unit.packages);
    let all = all.map(|(cpu, package)| event(Some(*cpu), format!("{text}@{package}")));
    Ok(if unit.cpus.is_empty() { vec![event(None, text.to_owned())] } else { all.collect() })
}

/// An event that a user has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawEvent {
    /// As the user wrote it, and the package.
    pub name: String,
    /// The `type` for perf_event_open.
    pub event_type: u32,
    /// The `config` for perf_event_open.
    pub config: u64,
    /// The processor to open it on; `None` for the thread that reads it.
    pub cpu: Option<u32>,
}

/// The `config` of an event with these fields, as the unit's `format` places their bits:
/// `config:0-7,32-35` puts the low eight bits of the field at bit 0, the next four at bit 32.
///
/// # Errors
/// What does not fit, as a phrase: a field that the unit does not have, or whose value is larger.
pub fn encode(format: &BTreeMap<String, String>, fields: &[(&str, u64)]) -> Result<u64, String> {
    let mut config = 0;
    for &(name, value) in fields {
        let text = format.get(name).ok_or_else(|| format!("the unit has no field {name:?}"))?;
        let bits = bits_of(text).ok_or_else(|| format!("field {name} is {text:?}"))?;
        let mut left = value;
        for bit in bits {
            config |= (left & 1) << bit;
            left >>= 1;
        }
        if left != 0 {
            return Err(format!("{value:#x} does not fit into field {name} ({text})"));
        }
    }
    Ok(config)
}

/// The bits of `config` that a field takes, the lowest of the field first.
fn bits_of(text: &str) -> Option<Vec<u32>> {
    let ranges = text.trim().strip_prefix("config:")?.split(',');
    let mut bits = Vec::new();
    for range in ranges {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if from > to || to > 63 {
            return None;
        }
        bits.extend(from..=to);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tree: &str) -> LinkEvents {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysfs").join(tree);
        LinkUnits::find(&root).expect("a tree").link_events()
    }

    #[test]
    fn two_socket_upi_machine_counts_three_parallel_links() {
        let found = found("intel-2");
        assert!(found.notes.is_empty(), "{:?}", found.notes);
        let rows = found
            .events
            .iter()
            .map(|event| (event.event_type, event.config, (event.cpu, event.link())));
        let expected = |unit: u32, cpu: u32, link: &str| (31 + unit, 0xf02, (cpu, link.to_owned()));
        let all = (0..3).flat_map(|unit| [expected(unit, 0, "0->1"), expected(unit, 32, "1->0")]);
        assert_eq!(rows.collect::<Vec<_>>(), all.collect::<Vec<_>>());
        // 18 flits are two cache lines.
        assert!((found.events[0].scale * 18.0 - 128.0).abs() < 1e-9);
    }

    #[test]
    fn four_socket_upi_machine_leads_where_the_kernel_says() {
        let found = found("intel-4");
        assert_eq!(found.events.len(), 12);
        let of = |unit: &str| {
            let its = found.events.iter().filter(|e| e.name.starts_with(unit));
            its.map(LinkEvent::link).collect::<Vec<_>>()
        };
        assert_eq!(of("uncore_upi_0"), ["0->1", "1->3", "2->3", "3->1"]);
        assert_eq!(of("uncore_upi_1"), ["0->2", "1->0", "2->0", "3->2"]);
        assert_eq!(of("uncore_upi_2"), ["0->3", "1->2", "2->1", "3->0"]);
    }

    #[test]
    fn amd_machines_count_their_generations_events() {
        let zen4 = found("amd-2").events;
        assert_eq!(zen4.len(), 16);
        // Event 0xb5f: 0x5f in bits 0-7, 0xb in bits 32-37; umask 0xf3e: 0x3e and 0xf.
        assert_eq!(zen4[0].config, 0xb_0f00_3e5f);
        assert_eq!((zen4[0].link(), zen4[0].cpu), ("0->1".to_owned(), 0));
        assert_eq!(zen4[7].config, 0xd_0f00_3e1f, "0xb5f + 7 * 0x40 is 0xd1f");
        assert_eq!((zen4[8].link(), zen4[8].cpu), ("1->0".to_owned(), 64));
        let zen3 = found("amd-2-zen3").events;
        let configs: Vec<u64> = zen3.iter().map(|event| event.config).collect();
        let expected = [0x7_0000_02c7, 0x8_0000_0207, 0x8_0000_0247, 0x8_0000_0287];
        assert_eq!(configs, [expected, expected].concat());
        assert!(zen3.iter().all(|event| event.scale == 32.0));
    }

    #[test]
    fn machine_without_units_has_no_events() {
        assert_eq!(found("nowhere"), LinkEvents::default());
    }

    #[test]
    fn events_are_named_as_perf_names_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysfs/intel-2");
        let found = named_event(&root, "uncore_upi_1/event=0x2,umask=15/").expect("an event");
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].event_type, found[1].config), (32, 0xf02));
        assert_eq!(found[1].cpu, Some(32));
        let raw = named_event(&root, "cpu/config=0x10/").expect("a source without a mask");
        assert_eq!((raw[0].config, raw[0].cpu), (0x10, None));
        for text in ["uncore_upi_1", "uncore_upi_1/event/", "nothing/event=1/", "cpu/event=x/"] {
            assert!(named_event(&root, text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_are_spread_over_their_bits_or_refused() {
        let format = |text: &str| BTreeMap::from([("event".to_owned(), text.to_owned())]);
        let one = |text: &str, value| encode(&format(text), &[("event", value)]);
        assert_eq!(one("config:0-7,32-35,59-60", 0x1fff), Ok(0x0800_000f_0000_00ff));
        assert_eq!(one("config:18", 1), Ok(1 << 18));
        assert!(one("config:0-7", 0x100).unwrap_err().contains("does not fit"));
        assert!(one("config1:0-7", 1).is_err() && one("config:7-0", 1).is_err());
        assert!(encode(&format("config:0-7"), &[("umask", 1)]).is_err());
    }
}
