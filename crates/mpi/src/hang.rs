//! The text of a hang report about a waiting thread, in MPI's terms: the function that was called,
//! the operations that it waits for, their communicators by name and ranks. Called only when the
//! launcher asks (`mica_protocol`, `hang.rs`).

use std::fmt::Write as _;

use mica_node::ranges::ranges;
use mica_node::segment::answer;
use mica_protocol::{IdleWait, Pending, QueuedMessages, WaitKind};

use crate::comm::Comm;
use crate::file::File;
use crate::group::Group;
use crate::late;
use mica_collective::members::{CollectiveTag, Members};
use mica_rma::Window;

/// Describes a wait: a sentence, a line for each operation if there are several, and a line for
/// each of the first messages that no receive has matched; for the launcher where in the program
/// that is, and which ranks must act ([`answer`]).
pub(crate) fn describe(wait: &IdleWait<'_>) -> String {
    let (call, site) = late::current_call();
    let does = if wait.polls.is_none() { "waits" } else { "polls" };
    let mut text = match (wait.polls, &call) {
        (None, Some(call)) => format!("{does} in {call}"),
        (Some(_), Some(call)) => format!("{does} with {call}"),
        (_, None) => does.to_owned(),
    };
    if let Some(site) = site {
        let _ = write!(text, " {}", answer::place_mark(&site.object, site.offset));
    }
    let list = wait.list;
    match &list.items[..] {
        [] => {}
        [one] => text.push_str(&format!(" for {}", operation(one))),
        _ => text.push_str(&format!(" for {} requests", list.total)),
    }
    let _ = write!(text, ", for {:.3} s", wait.time.as_secs_f64());
    if let Some(polls) = wait.polls {
        let _ = write!(text, " ({polls} failed polls)");
    }
    let unexpected = match wait.unexpected.total {
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
    queued(&mut text, wait.unexpected);
    if let Some(ranks) = needs(wait, call.as_deref()) {
        let _ = write!(text, "\n{}", answer::needs_line(&ranks));
    }
    text
}

/// The messages that no receive has matched.
fn queued(text: &mut String, unexpected: &QueuedMessages) {
    for message in &unexpected.first {
        let pending = Pending {
            peer: Some(message.source),
            tag: Some(message.tag),
            context: Some(message.context),
            bytes: Some(message.bytes),
            ..Pending::of(WaitKind::Receive)
        };
        let owner = ContextOwner::of(message.context);
        let from = peer(&pending, owner.as_ref()).unwrap_or_default();
        let _ = write!(text, "\nqueued: a message from {from}{}", details(&pending, ""));
        on_owner(text, message.context, owner.as_ref());
    }
    let left_out = unexpected.total - unexpected.first.len();
    if left_out > 0 && !unexpected.first.is_empty() {
        let _ = write!(text, "\nqueued: {left_out} more");
    }
}

/// The ranks that must all act before this thread goes on; `None` if it does not wait, or if one of
/// several operations is enough.
fn needs(wait: &IdleWait<'_>, call: Option<&str>) -> Option<Vec<u32>> {
    let is_enough = ["MPI_Waitany", "MPI_Waitsome"].contains(&call?);
    if wait.polls.is_some() || is_enough {
        return None;
    }
    // The peer of a window is the target, and a lock is waited for until its holder acts.
    let needed = wait.list.items.iter().filter(|pending| pending.kind != WaitKind::Window);
    let mut ranks: Vec<u32> = needed.filter_map(|pending| pending.peer).collect();
    ranks.sort_unstable();
    ranks.dedup();
    (!ranks.is_empty()).then_some(ranks)
}

/// What has a context.
enum ContextOwner {
    Comm(Comm),
    Window(Window),
    File(File),
}

impl ContextOwner {
    fn of(context: u64) -> Option<ContextOwner> {
        let comm = Comm::of_context(context).map(ContextOwner::Comm);
        comm.or_else(|| Window::of_context(context).map(ContextOwner::Window))
            .or_else(|| File::of_context(context).map(ContextOwner::File))
    }

    fn members(&self) -> &Members {
        match self {
            ContextOwner::Comm(comm) => comm,
            ContextOwner::Window(window) => window.members(),
            ContextOwner::File(file) => file.members(),
        }
    }
}

/// One operation, with its communicator, window or file.
fn operation(pending: &Pending) -> String {
    let owner = pending.context.and_then(ContextOwner::of);
    let owner = owner.as_ref();
    let mut text = match (&pending.name, pending.kind) {
        (Some(name), _) => name.clone().into_owned(),
        (None, WaitKind::Collective) => "other ranks".to_owned(),
        (None, WaitKind::Requests) => "a request".to_owned(),
        (None, WaitKind::Window) => "a peer of a window".to_owned(),
        (None, WaitKind::Send) => {
            let to = peer(pending, owner).unwrap_or_else(|| "another rank".to_owned());
            format!("its message to {to} to be taken{}", details(pending, ""))
        }
        (None, WaitKind::Receive | WaitKind::Probe) => {
            let from = peer(pending, owner).unwrap_or_else(|| "any rank".to_owned());
            format!("a message from {from}{}", details(pending, "up to "))
        }
    };
    if let Some(context) = pending.context {
        let is_message = pending.name.is_none() && pending.kind != WaitKind::Collective;
        on_owner(&mut text, if is_message { context } else { context & !1 }, owner);
    }
    text
}

/// The communicator, window or file of a message, or of an operation; bit 0 of the context: of a
/// collective.
fn on_owner(text: &mut String, context: u64, owner: Option<&ContextOwner>) {
    if context & 1 == 1 {
        text.push_str(", of the library's own");
    }
    text.push_str(", on ");
    match owner {
        Some(ContextOwner::Comm(comm)) => text.push_str(&communicator(comm)),
        Some(ContextOwner::Window(window)) => {
            let (name, ranks) = (answer::plain(&window.name()), set(window.members().group()));
            let _ = match name.is_empty() {
                true => write!(text, "a window without a name ({ranks})"),
                false => write!(text, "window \"{name}\" ({ranks})"),
            };
        }
        Some(ContextOwner::File(file)) => {
            let name = answer::plain(&file.to_string());
            let _ = write!(text, "{name} ({})", set(file.members().group()));
        }
        None => {
            let context = context & !1;
            let _ = write!(text, "a communicator without a handle ({context:#x})");
        }
    }
}

/// The peer, by its rank in the job, and by its rank in the communicator if that differs.
fn peer(pending: &Pending, owner: Option<&ContextOwner>) -> Option<String> {
    let peer = pending.peer?;
    Some(match owner.and_then(|owner| owner.members().rank_of(peer)) {
        Some(rank) if rank != peer as usize => {
            let whose = match owner {
                Some(ContextOwner::Window(_)) => "window",
                Some(ContextOwner::File(_)) => "file",
                _ => "communicator",
            };
            format!("rank {peer} (rank {rank} of the {whose})")
        }
        _ => format!("rank {peer}"),
    })
}

fn details(pending: &Pending, at_most: &str) -> String {
    // Tags of the library's own messages say which collective, and its root.
    let is_own = pending.context.is_some_and(|context| context & 1 == 1);
    let tag = match pending.tag {
        Some(tag) if is_own => CollectiveTag::of(tag).map(collective).unwrap_or_default(),
        None if is_own => String::new(),
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

fn collective(tag: CollectiveTag) -> String {
    match tag.root() {
        Some(root) => format!(", collective {}, root {root}", tag.number()),
        None => format!(", collective {}", tag.number()),
    }
}

/// A communicator by name, size and ranks in the job.
fn communicator(comm: &Comm) -> String {
    let name = match comm.name() {
        name if name.is_empty() => "a communicator without a name".to_owned(),
        name if name.starts_with("MPI_COMM_") => name,
        name => format!("\"{}\"", answer::plain(&name)),
    };
    match comm.remote_group() {
        Ok(remote) => format!("{name} (local {}; remote {})", set(comm.group()), set(&remote)),
        Err(_) => format!("{name} ({})", set(comm.group())),
    }
}

fn set(group: &Group) -> String {
    match group.size() {
        1 => format!("1 rank: {}", ranges(group.peers())),
        size => format!("{size} ranks: {}", ranges(group.peers())),
    }
}
