//! The channels section of `mica info`: which channels work among the ranks of this node, and why
//! the others do not.

use mica_node::procmap::ProcMap;
use mica_node::topology::readable_bytes;
use mica_node::tunables::SegmentShape;
use mica_node::{park, process, tunables};
use mica_policy::PollPolicy;
use serde::Serialize;

/// A channel to a peer, or a part of one.
#[derive(Serialize)]
pub struct ChannelInfo {
    pub name: &'static str,
    pub purpose: &'static str,
    /// The design in force, if the channel has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    pub usable: bool,
    /// Why it is not usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How to make it usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl ChannelInfo {
    /// A channel of one design; `refusal` is why it is not usable, and the remedy.
    pub fn new(
        name: &'static str,
        purpose: &'static str,
        refusal: Option<(String, String)>,
    ) -> ChannelInfo {
        let (reason, remedy) = refusal.unzip();
        ChannelInfo { name, purpose, design: None, usable: reason.is_none(), reason, remedy }
    }
}

/// The channels among the ranks of one node, and what their waiting needs.
pub fn on_one_node() -> Vec<ChannelInfo> {
    vec![shared_memory(), direct(), mapped(), xpmem(), parking()]
}

fn shared_memory() -> ChannelInfo {
    let refusal = process::memfd().err().map(|error| {
        let remedy = "allow memfd_create (a seccomp filter or an old kernel refuses it)";
        (format!("memfd_create: {error}"), remedy.to_owned())
    });
    ChannelInfo {
        design: Some(shared_memory_design(tunables::segment_shape())),
        ..ChannelInfo::new("shm", "messages through shared memory", refusal)
    }
}

fn shared_memory_design(shape: SegmentShape) -> String {
    match shape {
        SegmentShape { fifo_bytes: Some(bytes), mixed: true, .. } => format!(
            "mixed: a FIFO of {} for each pair of ranks of the same parity, rings and cells for \
            the others ({}=mixed); {}",
            readable_bytes(u64::from(bytes)),
            tunables::SHM.env,
            polling()
        ),
        SegmentShape { fifo_bytes: Some(bytes), .. } => format!(
            "basic: a FIFO of {} for each pair of ranks, allocated at MPI_Init ({}=basic)",
            readable_bytes(u64::from(bytes)),
            tunables::SHM.env
        ),
        SegmentShape { cells, cell_bytes, .. } => format!(
            "advanced: a ring for each pair that talks, {cells} cells of {} for each rank",
            readable_bytes(u64::from(cell_bytes))
        ),
    }
}

/// The policy for polling the second channel, the FIFOs; without one it has no effect.
fn polling() -> String {
    match PollPolicy::from_environment() {
        Ok(PollPolicy::Static { ratio }) => format!(
            "polls the FIFOs once in {} polls of the rings ({}=static)",
            ratio.max(1),
            tunables::POLL.env
        ),
        Ok(PollPolicy::Dynamic { history }) => format!(
            "polls the FIFOs by the last {} messages ({}=dynamic)",
            history.max(1),
            tunables::POLL.env
        ),
        Err(error) => error.to_string(),
    }
}

/// Why a tunable with this value switches a channel off, and the remedy.
fn switched_off(variable: &str, value: &str) -> (String, String) {
    (format!("switched off by {variable}={value}"), format!("unset {variable}"))
}

fn direct() -> ChannelInfo {
    let refusal = match tunables::DIRECT.text().as_str() {
        "off" => Some(switched_off(tunables::DIRECT.env, "off")),
        _ => process::cma_between_ranks().err().map(|refusal| (refusal.reason, refusal.remedy)),
    };
    let purpose = "long messages copied once, from process to process (CMA)";
    ChannelInfo::new("direct", purpose, refusal)
}

/// Migrated buffers: the conditions that this process itself can check (docs/design/mapped.md).
fn mapped() -> ChannelInfo {
    let choice = tunables::DIRECT.text();
    let refusal = if !matches!(choice.as_str(), "auto" | "mapped") {
        Some(switched_off(tunables::DIRECT.env, &choice))
    } else if tunables::MAPPED.text() == "off" {
        Some(switched_off(tunables::MAPPED.env, "off"))
    } else {
        ProcMap::open().err().map(|error| {
            let reason = format!("PROCMAP_QUERY on /proc/self/maps: {error}");
            (reason, "Linux 6.11 or newer, with /proc mounted".to_owned())
        })
    };
    let purpose = "long messages from and to buffers in reuse, by load and store";
    ChannelInfo::new("mapped", purpose, refusal)
}

fn xpmem() -> ChannelInfo {
    let refusal = (!std::path::Path::new("/dev/xpmem").exists()).then(|| {
        let remedy = "load the XPMEM kernel module, if the machine has it; nothing is lost without";
        ("there is no /dev/xpmem".to_owned(), remedy.to_owned())
    });
    ChannelInfo::new("xpmem", "long messages by load and store in any memory of a peer", refusal)
}

fn parking() -> ChannelInfo {
    let refusal = (!park::membarrier_available()).then(|| {
        let reason = "the kernel offers no global expedited membarrier to this process";
        let remedy =
            "allow the membarrier system call; until then every send pays for a memory fence";
        (reason.to_owned(), remedy.to_owned())
    });
    ChannelInfo::new("membarrier", "lets a waiting rank park at no cost to its senders", refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_names_the_queues_and_the_polling_policy() {
        let advanced = SegmentShape {
            cells: 128,
            cell_bytes: 8192,
            fifo_bytes: None,
            mixed: false,
            area_bytes: 0,
            areas_bytes: 0,
        };
        let basic = SegmentShape { fifo_bytes: Some(1 << 20), ..advanced };
        let mixed = SegmentShape { mixed: true, ..basic };
        assert!(shared_memory_design(advanced).starts_with("advanced: a ring"));
        assert!(shared_memory_design(basic).starts_with("basic: a FIFO"));
        let text = shared_memory_design(mixed);
        assert!(text.starts_with("mixed: ") && text.ends_with(&polling()), "{text}");
    }

    #[test]
    fn unusable_channel_has_reason_and_remedy() {
        for channel in on_one_node() {
            assert_eq!(channel.usable, channel.reason.is_none(), "{}", channel.name);
            assert_eq!(channel.usable, channel.remedy.is_none(), "{}", channel.name);
        }
    }
}
