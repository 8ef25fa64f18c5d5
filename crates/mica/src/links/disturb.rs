//! Background traffic on this machine while calls are observed (`mica links run --background`):
//! the paper's I/O and memory streams, from a seed, in bursts at the times that the model's
//! background has.
//!
//! A memory stream copies from a buffer that was first touched on one memory domain, on a processor
//! of the next domain: on a machine with one domain it loads the memory and no link. An I/O burst
//! writes a temporary file, asks the system to store it, and reads it again. Each process of the
//! background is a thread of this process, which the ranks do not know of.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use mica_links::ChipMachine;
use mica_links::background::{Background, BurstProcess, BurstTimes, BurstTraffic};
use mica_links::discover::Domains;

/// Bytes; more than the last-level caches of today's processors hold for one core.
const STREAM_BYTES: usize = 64 << 20;

/// Bytes between two looks at the time.
const CHUNK: usize = 256 << 10;

/// Bytes of an I/O burst's file before it begins again from the start.
const FILE_BYTES: u64 = 256 << 20;

/// The longest sleep: a thread stops this soon.
const SLEEP: Duration = Duration::from_millis(20);

/// Which traffic there is beside the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackgroundTraffic {
    None,
    Io,
    Memory,
    Both,
}

/// Threads that make traffic until they are stopped.
pub struct Disturbing {
    shared: Arc<SharedFlags>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct SharedFlags {
    stop: AtomicBool,
    /// Bytes copied by memory streams, and bytes written and read by I/O.
    copied: AtomicU64,
    stored: AtomicU64,
}

impl Disturbing {
    /// Starts the traffic; files are made in `scratch`.
    pub fn start(
        what: BackgroundTraffic,
        seed: u64,
        domains: &Domains,
        scratch: &Path,
    ) -> Disturbing {
        let shared = Arc::new(SharedFlags::default());
        let threads = processes(what, domains.domains.len().max(1));
        let threads = threads.into_iter().zip(0..).map(|(process, index)| {
            let place = StreamPlace {
                file: scratch.join(format!("background-{index}")),
                cpus: process.kinds.first().map_or([None, None], |kind| {
                    [kind.from, kind.to].map(|chip| first_cpu(domains, chip))
                }),
            };
            let shared = shared.clone();
            thread::spawn(move || run(&process, seed.wrapping_add(index), &place, &shared))
        });
        Disturbing { threads: threads.collect(), shared }
    }

    /// Stops it, and says what was made.
    pub fn stop(self) -> Option<String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        if self.threads.is_empty() {
            return None;
        }
        for thread in self.threads {
            let _ = thread.join();
        }
        let mebibytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed) >> 20;
        Some(format!(
            "Background traffic: memory streams copied {} MiB, I/O wrote and read {} MiB.",
            mebibytes(&self.shared.copied),
            mebibytes(&self.shared.stored)
        ))
    }
}

/// The processes of the background, from and to the chips of a machine; `chips` is their number.
fn processes(what: BackgroundTraffic, chips: usize) -> Vec<BurstProcess> {
    // The times of bursts are those of the X4600's model; only their ends are of this machine.
    let io = || {
        let machine = ChipMachine::named("x4600").expect("shipped with this command");
        Background::io(&machine)
    };
    let background = match what {
        BackgroundTraffic::None => Background::none(),
        BackgroundTraffic::Io => io(),
        BackgroundTraffic::Memory => Background::streams_between(chips),
        BackgroundTraffic::Both => io().and(Background::streams_between(chips)),
    };
    background.processes
}

struct StreamPlace {
    file: PathBuf,
    /// A processor of the domain that data comes from, and of that where it is used.
    cpus: [Option<u32>; 2],
}

fn first_cpu(domains: &Domains, chip: usize) -> Option<u32> {
    domains.domains.get(chip)?.cpus.first().copied()
}

/// One process of the background.
fn run(process: &BurstProcess, seed: u64, place: &StreamPlace, shared: &SharedFlags) {
    let alone = Background { processes: vec![process.clone()] };
    let is_stream = matches!(process.kinds[0].traffic, BurstTraffic::Fair(_));
    let mut buffers = match is_stream {
        true => touched(place, STREAM_BYTES),
        false => [vec![1; CHUNK], Vec::new()],
    };
    let mut times = BurstTimes::new(&alone, seed);
    let start = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        let next = Duration::from_secs_f64(times.next().min(1e6));
        if start.elapsed() < next {
            thread::sleep(SLEEP.min(next.saturating_sub(start.elapsed())));
            continue;
        }
        let begins = times.advance().is_some_and(|change| change.begins);
        let until = start + Duration::from_secs_f64(times.next().min(1e6));
        if begins && is_stream {
            stream(&mut buffers, until, shared);
        } else if begins && store(place, &mut buffers[0], until, shared).is_err() {
            return;
        }
    }
}

/// Two buffers; each is touched first on its domain, and this thread stays on the second.
fn touched(place: &StreamPlace, bytes: usize) -> [Vec<u8>; 2] {
    place.cpus.map(|cpu| {
        if let Some(cpu) = cpu {
            let mut set = rustix::thread::CpuSet::new();
            if (cpu as usize) < rustix::thread::CpuSet::MAX_CPU {
                set.set(cpu as usize);
            }
            // Without it the stream goes where the scheduler puts it.
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
        vec![1; bytes]
    })
}

fn stream(buffers: &mut [Vec<u8>; 2], until: Instant, shared: &SharedFlags) {
    let [from, to] = buffers;
    let chunks = || from.chunks(CHUNK).zip(0..);
    let mut next = chunks();
    while Instant::now() < until && !shared.stop.load(Ordering::Relaxed) {
        let Some((chunk, index)) = next.next() else {
            next = chunks();
            continue;
        };
        let at: usize = index * CHUNK;
        to[at..at + chunk.len()].copy_from_slice(chunk);
        std::hint::black_box(&to[at]);
        shared.copied.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
}

fn store(
    place: &StreamPlace,
    chunk: &mut [u8],
    until: Instant,
    shared: &SharedFlags,
) -> std::io::Result<()> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(&place.file)?;
    let mut length = 0;
    while Instant::now() < until && !shared.stop.load(Ordering::Relaxed) {
        if length >= FILE_BYTES {
            file.rewind()?;
            length = 0;
        }
        file.write_all(chunk)?;
        file.sync_data()?;
        file.seek_relative(-(chunk.len() as i64))?;
        file.read_exact(chunk)?;
        length += chunk.len() as u64;
        shared.stored.fetch_add(2 * chunk.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_traffic_until_it_is_stopped() {
        let scratch = crate::scratch::ScratchFolder::new("disturb").unwrap();
        let domains = Domains::find(Path::new("/")).unwrap();
        let running = Disturbing::start(BackgroundTraffic::Both, 1, &domains, scratch.path());
        let (copied, stored) = (&running.shared.copied, &running.shared.stored);
        while copied.load(Ordering::Relaxed) == 0 || stored.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(running.stop().unwrap().contains("memory streams copied"));
    }

    #[test]
    fn none_makes_nothing() {
        let running = Disturbing::start(
            BackgroundTraffic::None,
            1,
            &Domains::default(),
            Path::new("/nowhere"),
        );
        assert_eq!(running.stop(), None);
    }
}
