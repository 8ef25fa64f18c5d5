//! The text output of `mica info`.

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use mica_node::topology::readable_bytes;

use crate::channels::ChannelInfo;
use crate::info::MachineReport;

/// The whole text; `network` is what it says of the network.
pub fn render(info: &MachineReport, network: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Library\n{}\n", library(info));
    let _ = writeln!(text, "Machine\n{}\n", machine(info));
    if let Some(drawing) = &info.machine.drawing {
        let _ = writeln!(text, "Topology\n{}", indented(drawing));
    }
    let _ = writeln!(text, "Channels\n{}", channels(&info.channels));
    let _ = writeln!(text, "Network\n{}", network);
    let _ = writeln!(text, "Launchers\n{}", channels(&info.launchers));
    let _ = writeln!(text, "Tunables\n{}", tunables(info));
    if !info.complaints.is_empty() {
        let _ = writeln!(text, "In the environment, not right");
        for complaint in &info.complaints {
            let _ = writeln!(text, "  {complaint}");
        }
    }
    if !info.old_names.is_empty() {
        let _ = writeln!(text, "Old names in the environment");
        for old in &info.old_names {
            let _ = writeln!(text, "  {old}");
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

fn pairs(rows: Vec<(&str, String)>) -> String {
    let mut table = plain_table();
    for (name, value) in rows {
        table.add_row([format!(" {name}"), value]);
    }
    table.trim_fmt()
}

fn library(info: &MachineReport) -> String {
    let path = match &info.library.path {
        Some(path) => path.display().to_string(),
        None => "not beside this command (is it installed?)".to_owned(),
    };
    pairs(vec![
        ("version", info.library.version.to_owned()),
        ("ABI", format!("{} (libmpi_abi.so.1)", info.library.abi)),
        ("path", path),
    ])
}

fn machine(info: &MachineReport) -> String {
    let machine = &info.machine;
    let mut rows = vec![("host", machine.host.clone())];
    if machine.synthetic {
        rows.push(("topology", "synthetic, from MICA_TOPOLOGY_SYNTHETIC".to_owned()));
    }
    if let Some(processor) = &machine.processor {
        rows.push(("processor", processor.clone()));
    }
    rows.push((
        "packages",
        format!(
            "{}, with {} cores and {} processing units in all",
            machine.packages, machine.cores, machine.processing_units
        ),
    ));
    for node in &machine.numa_nodes {
        let memory = readable_bytes(node.bytes);
        rows.push(("NUMA node", format!("{}: {memory}", node.index)));
    }
    for cache in &machine.caches {
        let (count, size) = (cache.count, readable_bytes(cache.bytes));
        let shared = match cache.shared_by {
            1 => "each for one processing unit".to_owned(),
            n => format!("each shared by {n} processing units"),
        };
        rows.push(("cache", format!("{}: {count} x {size}, {shared}", cache.name)));
    }
    let affinity = info.available.affinity.as_deref().unwrap_or("not known");
    let quota = match info.available.cpu_quota {
        Some(quota) => format!("CPU quota {quota:.2}"),
        None => "no CPU quota".to_owned(),
    };
    let cores = info.available.cores;
    rows.push(("available", format!("{cores} (processors {affinity}; {quota})")));
    pairs(rows)
}

fn channels(list: &[ChannelInfo]) -> String {
    let mut text = String::new();
    for ChannelInfo { name, purpose, design, usable, reason, remedy } in list {
        let answer = if *usable { "yes" } else { "no" };
        let _ = writeln!(text, "  {name:<11} {answer:<4} {purpose}");
        for (label, line) in [("design", design), ("because", reason), ("change", remedy)] {
            if let Some(line) = line {
                let _ = writeln!(text, "  {:<16} {label}: {line}", "");
            }
        }
    }
    text
}

fn tunables(info: &MachineReport) -> String {
    let mut table = plain_table();
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(120);
    }
    table.set_header([" variable", "value", "from", "default", "accepts", "meaning"]);
    for tunable in &info.tunables {
        table.add_row([
            &format!(" {}", tunable.environment),
            &tunable.value,
            tunable.source,
            tunable.default,
            &tunable.accepts,
            tunable.description,
        ]);
    }
    table.trim_fmt() + "\n"
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_part() {
        let mut info = MachineReport::gather(true).unwrap();
        info.channels[1].usable = false;
        info.channels[1].reason = Some("the kernel refused".to_owned());
        info.channels[1].remedy = Some("ask again".to_owned());
        info.complaints = vec!["MICA_SPIN=x: expected a number".to_owned()];
        info.old_names = vec!["MICA_WAY still holds".to_owned()];
        let text = render(&info, &info.network.render(false));
        for part in [
            "Library",
            "Machine",
            "Topology",
            "Channels",
            "Network",
            "Launchers",
            "Tunables",
            "NUMA node",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("because: the kernel refused") && text.contains("change: ask again"));
        assert!(text.contains("MICA_SPIN=x: expected a number"));
        assert!(text.contains("Old names in the environment\n  MICA_WAY still holds"));
        assert!(info.tunables.iter().all(|t| text.contains(t.environment)));
    }
}
