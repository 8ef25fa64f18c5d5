//! The text of a hang report about a waiting thread, in MPI's terms: the function that was called,
//! the operations that it waits for, their communicators by name and ranks. Called only when the
//! launcher asks (`mica_protocol`, `hang.rs`).

use std::fmt::Write as _;

use mica_node::ranges::ranges;
use mica_protocol::{IdleScene, Pending, WaitKind};

use crate::comm::Comm;
use crate::late;

/// Describes a scene: a sentence, and a line for each operation if there are several.
pub(crate) fn describe(scene: &IdleScene<'_>) -> String {
    let call = late::current_function();
    let mut text = match (scene.polls, &call) {
        (None, Some(call)) => format!("waits in {call}"),
        (None, None) => "waits".to_owned(),
        (Some(_), Some(call)) => format!("polls with {call}"),
        (Some(_), None) => "polls".to_owned(),
    };
    let list = scene.list;
    match &list.items[..] {
        [] => {}
        [one] => text.push_str(&format!(" for {}", operation(one))),
        _ => text.push_str(&format!(" for {} requests", list.total)),
    }
    let _ = write!(text, ", for {:.3} s", scene.time.as_secs_f64());
    if let Some(polls) = scene.polls {
        let _ = write!(text, " ({polls} failed polls)");
    }
    let unexpected = match scene.unexpected {
        1 => "1 unexpected message".to_owned(),
        n => format!("{n} unexpected messages"),
    };
    let _ = write!(text, "; {unexpected} queued");
    if list.items.len() > 1 {
        for pending in &list.items {
            let _ = write!(text, "\n{}", operation(pending));
        }
        let left_out = list.total - list.items.len();
        if left_out > 0 {
            let _ = write!(text, "\nand {left_out} more");
        }
    }
    text
}

/// One operation, with its communicator.
fn operation(pending: &Pending) -> String {
    let comm = pending.context.and_then(Comm::of_context);
    let comm = comm.as_ref();
    let mut text = match (&pending.name, pending.kind) {
        (Some(name), _) => name.clone().into_owned(),
        (None, WaitKind::Collective) => "other ranks".to_owned(),
        (None, WaitKind::Requests) => "a request".to_owned(),
        (None, WaitKind::Window) => "a peer of a window".to_owned(),
        (None, WaitKind::Send) => {
            let to = peer(pending, comm).unwrap_or_else(|| "another rank".to_owned());
            format!("its message to {to} to be taken{}", details(pending, ""))
        }
        (None, WaitKind::Receive | WaitKind::Probe) => {
            let from = peer(pending, comm).unwrap_or_else(|| "any rank".to_owned());
            format!("a message from {from}{}", details(pending, "up to "))
        }
    };
    if let Some(context) = pending.context {
        let is_message = pending.name.is_none() && pending.kind != WaitKind::Collective;
        if is_message && context & 1 == 1 {
            text.push_str(", of a collective");
        }
        text.push_str(", on ");
        match comm {
            Some(comm) => text.push_str(&communicator(comm)),
            None => {
                let context = context & !1;
                let _ = write!(text, "a communicator without a handle ({context:#x})");
            }
        }
    }
    text
}

/// The peer, by its rank in the job, and by its rank in the communicator if that differs.
fn peer(pending: &Pending, comm: Option<&Comm>) -> Option<String> {
    let peer = pending.peer?;
    Some(match comm.and_then(|comm| comm.rank_of(peer)) {
        Some(rank) if rank != peer as usize => {
            format!("rank {peer} (rank {rank} of the communicator)")
        }
        _ => format!("rank {peer}"),
    })
}

fn details(pending: &Pending, at_most: &str) -> String {
    // Tags of the library's own messages mean nothing to the program.
    let is_own = pending.context.is_some_and(|context| context & 1 == 1);
    let tag = match pending.tag {
        _ if is_own => String::new(),
        Some(tag) => format!(", tag {tag}"),
        None => ", any tag".to_owned(),
    };
    let bytes = match pending.bytes {
        Some(1) => format!(", {at_most}1 byte"),
        Some(bytes) => format!(", {at_most}{bytes} bytes"),
        None => String::new(),
    };
    tag + &bytes
}

/// A communicator by name, size and ranks in the job.
fn communicator(comm: &Comm) -> String {
    let name = match comm.name() {
        name if name.is_empty() => "a communicator without a name".to_owned(),
        name if name.starts_with("MPI_COMM_") => name,
        name => format!("\"{name}\""),
    };
    let set = |group: &crate::group::Group| match group.size() {
        1 => format!("1 rank: {}", ranges(group.peers())),
        size => format!("{size} ranks: {}", ranges(group.peers())),
    };
    match comm.remote_group() {
        Ok(remote) => format!("{name} (local {}; remote {})", set(comm.group()), set(&remote)),
        Err(_) => format!("{name} ({})", set(comm.group())),
    }
}
