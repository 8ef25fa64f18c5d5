//! Writes the records of this process as one file, `rank-R-of-N.mica-profile` in the directory
//! named by `MICA_PROFILE_DIR`. `mica profile` reads it (`crates/mica/src/profile/records.rs`).
//!
//! The form is lines of fields with tabs between, the first field naming the line; numbers are
//! decimal, an unknown value is `-`. Tabs and line ends in names become `?`.
//!
//! ```text
//! mica-profile 2
//! rank     R SIZE PID HOST PROCESSOR BOOT
//! library  FIRST-LINE
//! time     START-NS APP-NS MPI-NS FINALIZED(0|1)
//! place    CPU CORE CACHE PACKAGE                      if bound
//! code     SITE OFFSET OBJECT                          a site that is machine code
//! python   SITE LINE FUNCTION FILE                     a site that is a line of Python
//! stack    SITE CODE-SITE,CODE-SITE,...                a site that is a stack: the call's first
//! call     NAME SITE COUNT NS MIN MAX SENDS BYTES COMM-SIZE DURATION,DURATION,...
//! message  NAME PEER(-: collective) CLASS MESSAGES BYTES
//! block    PEER MESSAGES BYTES                         of collectives
//! arrival  COMM-KEY SIZE SEQUENCE NAME SITE NS LEFT-NS ROOT KIND(all|for-root|root)
//! span     THREAD START-NS END-NS NAME SITE BYTES PEER COMM-KEY TAG RECEIVE-TAG
//! wait     REASON NS                               where the library counts it
//! dropped  SPANS ARRIVALS
//! end
//! ```
//!
//! Times are `CLOCK_MONOTONIC`. `end` says that the file is whole.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{self, ClockLine};
use crate::comm::{self, CommInfo, FOREIGN, ProfiledWorld};
use crate::generated::NAMES;
use crate::run::{self, StartFacts};
use crate::sites::{self, PYTHON};
use crate::stacks::{self, STACK};
use crate::thread::{self, COLLECTIVE, MessageAmount, SpanEnvelope, Tables, Thread, WaitingRule};
use crate::{place, python, waits};

static WRITTEN: AtomicBool = AtomicBool::new(false);

/// How long a thread that is just recording a call is waited for.
const TRIES: u32 = 1000;

/// Writes the file, the first time that it is called in the process that started MPI.
pub fn write_records() {
    let (Some(start), Some(world)) = (run::start(), comm::world()) else {
        return;
    };
    if start.pid != std::process::id() || WRITTEN.swap(true, Ordering::Relaxed) {
        return;
    }
    let text = text(start, world);
    // A program that a rank starts may be a job of its own, which must not replace the rank's file.
    let (directory, rank, size) = (&start.directory, world.rank, world.size);
    let path = format!("{directory}/rank-{rank}-of-{size}.mica-profile");
    // By way of another name: a file of the final name is whole.
    let part = format!("{path}.part");
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
    if let Err(error) = written {
        eprintln!("mica profile: rank {}: cannot write {path}: {error}", world.rank);
    }
}

fn text(start: &StartFacts, world: &ProfiledWorld) -> String {
    let mut out = String::from("mica-profile\t2\n");
    let end = run::finalized_ns();
    let app_ns = end.unwrap_or_else(clock::monotonic_ns).saturating_sub(start.ns);
    let (rank, size, pid) = (world.rank, world.size, start.pid);
    let (host, processor) = (field(&place::host()), field(&start.processor));
    let boot = field(&place::boot());
    line(&mut out, format_args!("rank\t{rank}\t{size}\t{pid}\t{host}\t{processor}\t{boot}"));
    line(&mut out, format_args!("library\t{}", field(&start.library)));
    if let Some(place) = place::find() {
        let (cpu, core, cache, package) = (place.cpu, place.core, place.cache, place.package);
        line(&mut out, format_args!("place\t{cpu}\t{core}\t{cache}\t{package}"));
    }
    let mut writer = RecordWriter {
        out,
        clock: ClockLine::now(),
        world_rank: rank,
        sites: BTreeSet::new(),
        mpi_ns: 0,
        dropped: (0, 0),
    };
    for thread in thread::all() {
        writer.thread(thread);
    }
    writer.sites();
    let (spans, arrivals) = writer.dropped;
    let (mpi_ns, finalized) = (writer.mpi_ns, u8::from(end.is_some()));
    let mut out = writer.out;
    line(&mut out, format_args!("time\t{}\t{app_ns}\t{mpi_ns}\t{finalized}", start.ns));
    for (reason, ns) in waits::take() {
        line(&mut out, format_args!("wait\t{reason}\t{ns}"));
    }
    line(&mut out, format_args!("dropped\t{spans}\t{arrivals}\nend"));
    out
}

struct RecordWriter {
    out: String,
    clock: ClockLine,
    world_rank: u32,
    /// Those that were named.
    sites: BTreeSet<u64>,
    mpi_ns: u64,
    dropped: (u64, u64),
}

impl RecordWriter {
    fn thread(&mut self, thread: &Thread) {
        for _ in 0..TRIES {
            if thread.with(|tables| self.tables(thread.number, tables)).is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tables(&mut self, thread: u32, tables: &Tables) {
        self.mpi_ns += tables.mpi_ns;
        self.dropped.0 += tables.dropped_spans;
        self.dropped.1 += tables.dropped_arrivals;
        self.calls(tables);
        for ((key, peer), amount) in tables.messages.iter() {
            let MessageAmount { messages, bytes } = amount;
            let (name, class) = (name((key >> 8) as u16), key & 0xff);
            let peer = if peer == COLLECTIVE { PeerField(FOREIGN) } else { PeerField(peer as u32) };
            let text = format_args!("message\t{name}\t{peer}\t{class}\t{messages}\t{bytes}");
            line(&mut self.out, text);
        }
        for ((peer, _), amount) in tables.blocks.iter() {
            self.block(peer as u32, *amount);
        }
        for ((address, _), amount) in tables.blocks_to_all.iter() {
            // SAFETY: the key is the address of a description, which is never freed.
            let comm = unsafe { &*std::ptr::with_exposed_provenance::<CommInfo>(address as usize) };
            for peer in &comm.peers {
                self.block(*peer, *amount);
            }
        }
        self.arrivals(tables);
        for span in &tables.spans {
            let (from, to) = (self.clock.ns(span.start), self.clock.ns(span.end));
            let (name, site, bytes, peer) =
                (name(span.id), span.site, span.bytes, PeerField(span.peer));
            let envelope = EnvelopeFields(span.envelope);
            let text = format_args!(
                "span\t{thread}\t{from}\t{to}\t{name}\t{site}\t{bytes}\t{peer}\t{envelope}"
            );
            line(&mut self.out, text);
        }
    }

    fn calls(&mut self, tables: &Tables) {
        for ((id, site), stat) in tables.calls.iter() {
            self.sites.insert(site);
            let used = stat.durations.iter().rposition(|n| *n != 0).map_or(0, |i| i + 1);
            let durations: Vec<String> =
                stat.durations[..used].iter().map(u32::to_string).collect();
            let (name, durations) = (name(id as u16), durations.join(","));
            let (count, time, min, max) = (stat.count, stat.time_ns, stat.min_ns, stat.max_ns);
            let (sends, bytes, size) = (stat.sends, stat.bytes, stat.comm_size);
            let times = format!("{count}\t{time}\t{min}\t{max}");
            let text = format_args!(
                "call\t{name}\t{site}\t{times}\t{sends}\t{bytes}\t{size}\t{durations}"
            );
            line(&mut self.out, text);
        }
    }

    fn arrivals(&mut self, tables: &Tables) {
        for arrival in &tables.arrivals {
            let kind = match arrival.kind {
                WaitingRule::All => "all",
                WaitingRule::ForRoot => "for-root",
                WaitingRule::Root => "root",
            };
            let (key, size) = (arrival.comm.key, arrival.comm.peers.len());
            let (sequence, name, site) = (arrival.sequence, name(arrival.id), arrival.site);
            let (ns, left) = (self.clock.ns(arrival.start), self.clock.ns(arrival.end));
            let root = PeerField(arrival.root);
            let which = format!("{key}\t{size}\t{sequence}");
            line(
                &mut self.out,
                format_args!("arrival\t{which}\t{name}\t{site}\t{ns}\t{left}\t{root}\t{kind}"),
            );
        }
    }

    fn block(&mut self, peer: u32, amount: MessageAmount) {
        if peer != self.world_rank && peer != FOREIGN {
            let MessageAmount { messages, bytes } = amount;
            line(&mut self.out, format_args!("block\t{peer}\t{messages}\t{bytes}"));
        }
    }

    fn sites(&mut self) {
        let stacks: Vec<u64> =
            self.sites.iter().copied().filter(|s| s & PYTHON == 0 && s & STACK != 0).collect();
        for site in stacks {
            self.sites.remove(&site);
            let addresses = stacks::addresses(site);
            let names: Vec<String> = addresses.iter().map(u64::to_string).collect();
            line(&mut self.out, format_args!("stack\t{site}\t{}", names.join(",")));
            self.sites.extend(addresses);
        }
        for &site in &self.sites {
            if site & PYTHON != 0 {
                if let Some(found) = python::line(site & !PYTHON) {
                    let (number, function) = (found.line, field(&found.function));
                    let file = field(&found.file);
                    let text = format_args!("python\t{site}\t{number}\t{function}\t{file}");
                    line(&mut self.out, text);
                }
            } else if let Some(found) = sites::place(site) {
                let (offset, object) = (found.offset, field(&found.object));
                line(&mut self.out, format_args!("code\t{site}\t{offset}\t{object}"));
            }
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
    out.push('\n');
}

fn name(id: u16) -> &'static str {
    NAMES[usize::from(id)].to_str().unwrap_or("?")
}

/// A name without what separates fields.
fn field(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], "?")
}

/// A rank or `-`.
struct PeerField(u32);

impl std::fmt::Display for PeerField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            FOREIGN => f.write_str("-"),
            rank => write!(f, "{rank}"),
        }
    }
}

/// Communicator, tag and the tag of what is received besides, each `-` if there is none.
struct EnvelopeFields(Option<SpanEnvelope>);

impl std::fmt::Display for EnvelopeFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(SpanEnvelope { comm, tags }) = self.0 else {
            return f.write_str("-");
        };
        write!(f, "{comm}\t{}\t", tags.tag)?;
        match tags.receive_tag {
            Some(tag) => write!(f, "{tag}"),
            None => f.write_str("-"),
        }
    }
}
