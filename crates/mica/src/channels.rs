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

/// The channels among the ranks of one node, and what their waiting needs.
pub fn on_one_node() -> Vec<ChannelInfo> {
    vec![shared_memory(), direct(), mapped(), xpmem(), parking()]
}

fn shared_memory() -> ChannelInfo {
    let refusal = process::memfd().err();
    ChannelInfo {
        name: "shm",
        purpose: "messages through shared memory",
        design: Some(shared_memory_design(tunables::segment_shape())),
        usable: refusal.is_none(),
        remedy: refusal
            .as_ref()
            .map(|_| "allow memfd_create (a seccomp filter or an old kernel refuses it)".into()),
        reason: refusal.map(|error| format!("memfd_create: {error}")),
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

fn direct() -> ChannelInfo {
    let channel = |usable, reason, remedy| ChannelInfo {
        name: "direct",
        purpose: "long messages copied once, from process to process (CMA)",
        design: None,
        usable,
        reason,
        remedy,
    };
    if tunables::DIRECT.text() == "off" {
        let reason = format!("switched off by {}=off", tunables::DIRECT.env);
        let remedy = format!("unset {}", tunables::DIRECT.env);
        return channel(false, Some(reason), Some(remedy));
    }
    match process::cma_between_ranks() {
        Ok(()) => channel(true, None, None),
        Err(refusal) => channel(false, Some(refusal.reason), Some(refusal.remedy)),
    }
}

/// Migrated buffers: the conditions that this process itself can check (docs/design/mapped.md).
fn mapped() -> ChannelInfo {
    let channel = |refusal: Option<(String, String)>| {
        let (reason, remedy) = refusal.unzip();
        ChannelInfo {
            name: "mapped",
            purpose: "long messages from and to buffers in reuse, by load and store",
            design: None,
            usable: reason.is_none(),
            reason,
            remedy,
        }
    };
    let choice = tunables::DIRECT.text();
    if !matches!(choice.as_str(), "auto" | "mapped") {
        let reason = format!("switched off by {}={choice}", tunables::DIRECT.env);
        return channel(Some((reason, format!("unset {}", tunables::DIRECT.env))));
    }
    if tunables::MAPPED.text() == "off" {
        let reason = format!("switched off by {}=off", tunables::MAPPED.env);
        return channel(Some((reason, format!("unset {}", tunables::MAPPED.env))));
    }
    channel(ProcMap::open().err().map(|error| {
        let reason = format!("PROCMAP_QUERY on /proc/self/maps: {error}");
        (reason, "Linux 6.11 or newer, with /proc mounted".to_owned())
    }))
}

fn xpmem() -> ChannelInfo {
    let there = std::path::Path::new("/dev/xpmem").exists();
    ChannelInfo {
        name: "xpmem",
        purpose: "long messages by load and store in any memory of a peer",
        design: None,
        usable: there,
        reason: (!there).then(|| "there is no /dev/xpmem".into()),
        remedy: (!there).then(|| {
            "load the XPMEM kernel module, if the machine has it; nothing is lost without".into()
        }),
    }
}

fn parking() -> ChannelInfo {
    let usable = park::membarrier_available();
    ChannelInfo {
        name: "membarrier",
        purpose: "lets a waiting rank park at no cost to its senders",
        design: None,
        usable,
        reason: (!usable)
            .then(|| "the kernel offers no global expedited membarrier to this process".into()),
        remedy: (!usable).then(|| {
            "allow the membarrier system call; until then every send pays for a memory fence".into()
        }),
    }
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
