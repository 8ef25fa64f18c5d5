//! Starting more processes (MPI 5.0, 11.8).
//!
//! The root starts a launcher, which is Mica's `mpiexec` with an ordinary command line, and hands
//! it the job segment; the new processes are ranks there as all others
//! ([`mica_node::segment::World`]). The first of them calls the root's port in its `MPI_Init`. So
//! it makes no difference whether `mpiexec`, another launcher or none has started the job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use mica_collective::calls::{place, rooted};
use mica_collective::exchange::{ExchangeMembers, barrier};
use mica_node::own_file::own_file;
use mica_node::segment::{PREFIX_VARIABLE, ParentPort};
use mica_protocol::{Engine, SpawnAnswer, SpawnedLauncher, launcher_beside};

use super::port::{CallPort, answer_call, call, fresh_tag};
use crate::comm::{Comm, RemoteLeader};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::numbers::{to_bytes, to_numbers};
use crate::process;
use crate::sync::lock;

/// A program to be started.
#[derive(Debug, Clone)]
pub struct SpawnProgram {
    /// The program, and its arguments.
    pub command: Vec<OsString>,
    /// How many processes of it.
    pub processes: i32,
    /// Hints: where and how they run.
    pub hints: Info,
}

/// Interval between looks at what the launcher reports.
const LOOK: Duration = Duration::from_micros(200);

/// Hints that are options of `mpiexec` with one value, for one program.
const SECTION_HINTS: [(&str, &str); 7] = [
    ("wdir", "-wdir"),
    ("wd", "-wdir"),
    ("path", "-path"),
    ("file", "-file"),
    ("soft", "-soft"),
    ("arch", "-arch"),
    ("cpus_per_rank", "--cpus-per-rank"),
];

/// Hints that are options of the whole command line, under the names that users of other libraries
/// know. The first program that has one counts.
const JOB_HINTS: [(&str, &str); 10] = [
    ("host", "-host"),
    ("hosts", "-host"),
    ("add-host", "-host"),
    ("hostfile", "-hostfile"),
    ("add-hostfile", "-hostfile"),
    ("machinefile", "-hostfile"),
    ("bind_to", "-bind-to"),
    ("bind-to", "-bind-to"),
    ("map_by", "-map-by"),
    ("map-by", "-map-by"),
];

/// The communicator of the processes that have spawned this one, from MPI_Init on.
static PARENT: OnceLock<Comm> = OnceLock::new();

/// `MPI_Comm_get_parent`: `None` if this process was not spawned, or the communicator was freed.
pub fn parent() -> Result<Option<Comm>> {
    process::engine()?;
    Ok(PARENT.get().filter(|comm| comm.is_current()).cloned())
}

/// Connects this world with the process that has spawned it, if one has. Part of MPI_Init,
/// collective over the world.
pub(crate) fn meet_parent(engine: &'static Engine, world: &Comm) -> Result<()> {
    let Some(ParentPort { rank, tag }) = engine.world().parent else { return Ok(()) };
    // The parent's call returns when all have come.
    barrier(world)?;
    let comm = world.introduce_at(0, || call(engine, CallPort { rank, tag }, world))?;
    comm.set_name("MPI_COMM_PARENT");
    let is_first = PARENT.set(comm).is_ok();
    assert!(is_first, "the world model starts once");
    Ok(())
}

/// `MPI_Comm_spawn` and `MPI_Comm_spawn_multiple`, collective over `comm`; `programs` is called
/// at `root` alone. Returns the inter-communicator, and the error codes of all processes, in order;
/// also with an error, if it is known how many processes were asked for. Blocks until all of them
/// are in MPI_Init.
pub fn spawn(
    comm: &Comm,
    root: i32,
    programs: impl FnOnce() -> Result<Vec<SpawnProgram>>,
) -> (Result<Comm>, Vec<i32>) {
    let mut codes = Vec::new();
    let comm = start(comm, root, programs, &mut codes);
    (comm, codes)
}

fn start(
    comm: &Comm,
    root: i32,
    programs: impl FnOnce() -> Result<Vec<SpawnProgram>>,
    codes: &mut Vec<i32>,
) -> Result<Comm> {
    let leader = rooted(place(comm), root)?;
    let mut asked = None;
    let mut blamed = None;
    let mut started = None;
    let failed = Mutex::new(None);
    if comm.rank() == leader {
        match programs().and_then(|programs| checked(programs, &mut asked)) {
            Ok(programs) => started = Some(programs),
            Err(error) => *lock(&failed) = Some(error),
        }
    }
    let made = comm.introduce_at(root, || {
        if let Some(error) = lock(&failed).take() {
            return Err(error);
        }
        let programs = started.take().expect("checked at the root");
        launch(comm, &programs, &mut blamed)
    });
    let code = made.as_ref().err().map_or(c::SUCCESS, Error::code);
    *codes = tell_codes(comm, leader, asked.as_deref(), code, blamed)?;
    made
}

/// The root tells all how many processes were asked for, and their codes.
fn tell_codes(
    comm: &Comm,
    leader: usize,
    asked: Option<&[usize]>,
    code: i32,
    blamed: Option<usize>,
) -> Result<Vec<i32>> {
    let exchange = ExchangeMembers::led_by(comm, leader);
    let all: usize = asked.unwrap_or_default().iter().sum();
    let mut head = to_bytes(&[all as u64]);
    exchange.broadcast(&mut head)?;
    let all = to_numbers(&head)[0] as usize;
    // The program that is to blame has the code; the others were not started because of it.
    let code_of = |program: usize| match code {
        c::SUCCESS => c::SUCCESS,
        _ if blamed.is_none_or(|blamed| blamed == program) => code,
        _ => c::ERR_SPAWN,
    };
    let mine = asked.unwrap_or_default().iter().enumerate();
    let codes = mine.flat_map(|(program, &n)| std::iter::repeat_n(code_of(program) as u64, n));
    let mut codes: Vec<u64> = codes.collect();
    codes.resize(all, 0);
    let mut bytes = to_bytes(&codes);
    exchange.broadcast(&mut bytes)?;
    Ok(to_numbers(&bytes).into_iter().map(|code| code as i32).collect())
}

/// Refuses what no process can be started of, and notes how many processes are asked for.
fn checked(
    programs: Vec<SpawnProgram>,
    asked: &mut Option<Vec<usize>>,
) -> Result<Vec<SpawnProgram>> {
    for program in &programs {
        if program.processes < 0 || program.command[0].is_empty() {
            let (argument, value, reason) = match program.processes < 0 {
                true => ("maxprocs", program.processes.to_string(), "it is negative"),
                false => ("command", "\"\"".to_owned(), "a program has a name"),
            };
            return Err(Error::argument(c::ERR_ARG, argument, value, reason));
        }
    }
    let numbers: Vec<usize> = programs.iter().map(|program| program.processes as usize).collect();
    let all: usize = numbers.iter().sum();
    *asked = Some(numbers);
    if all == 0 {
        let reason = "at least one process is started";
        return Err(Error::argument(c::ERR_ARG, "maxprocs", 0, reason));
    }
    Ok(programs)
}

/// Starts a launcher, and waits for the first of the new processes.
fn launch(
    comm: &Comm,
    programs: &[SpawnProgram],
    blamed: &mut Option<usize>,
) -> Result<RemoteLeader> {
    let engine = process::engine()?;
    if !engine.has_room_for_worlds() {
        let detail = "this job can start no processes: it is on several nodes, or was started \
                      with MICA_SPARE_RANKS=0, MICA_SHM=basic or MICA_NET=loopback";
        return Err(Error::other(c::ERR_SPAWN, detail));
    }
    let tag = fresh_tag(engine);
    let (program, arguments) = (launcher(), command_line(programs)?);
    let launcher = engine.start_launcher(&program, &arguments, tag).map_err(|error| {
        let detail = format!("{}: {error}", program.display());
        Error::other(c::ERR_SPAWN, detail)
    })?;
    let mut last = Instant::now();
    let mut check = || {
        if last.elapsed() < LOOK {
            return Ok(());
        }
        last = Instant::now();
        failure(&launcher, programs, blamed)
    };
    answer_call(engine, tag, comm, &mut check)
}

/// What the launcher reports of a failure.
fn failure(
    launcher: &SpawnedLauncher,
    programs: &[SpawnProgram],
    blamed: &mut Option<usize>,
) -> Result<()> {
    match launcher.try_answer() {
        Ok(None | Some(SpawnAnswer::Started { .. })) => Ok(()),
        Ok(Some(SpawnAnswer::Failed { section, why })) => {
            // Programs without processes are not on the command line.
            let started = (0..programs.len()).filter(|&at| programs[at].processes > 0);
            *blamed = section.and_then(|section| started.clone().nth(section as usize));
            Err(Error::other(c::ERR_SPAWN, why))
        }
        Err(error) => {
            let detail = format!("the launcher of the processes has ended: {error}");
            Err(Error::other(c::ERR_SPAWN, detail))
        }
    }
}

/// The `mpiexec` of this installation.
fn launcher() -> PathBuf {
    let given =
        std::env::var_os(PREFIX_VARIABLE).map(|prefix| PathBuf::from(prefix).join("bin/mpiexec"));
    let beside = || launcher_beside(&own_file()?);
    given.filter(|program| program.is_file()).or_else(beside).unwrap_or_else(|| "mpiexec".into())
}

/// The programs as arguments of `mpiexec`.
fn command_line(programs: &[SpawnProgram]) -> Result<Vec<OsString>> {
    let mut line: Vec<OsString> = Vec::new();
    for (hint, option) in JOB_HINTS {
        let mut values = programs.iter().filter_map(|program| program.hints.lookup(hint));
        if let Some(value) = values.next()
            && !line.contains(&option.into())
        {
            line.extend([option.into(), value.into()]);
        }
    }
    let programs = programs.iter().filter(|program| program.processes > 0);
    for (at, program) in programs.enumerate() {
        if at > 0 {
            line.push(":".into());
        }
        line.extend(["-n".into(), program.processes.to_string().into()]);
        let mut given: Vec<&str> = Vec::new();
        for (hint, option) in SECTION_HINTS {
            if let Some(value) = program.hints.lookup(hint)
                && !given.contains(&option)
            {
                given.push(option);
                line.extend([option.into(), value.into()]);
            }
        }
        for (name, value) in environment(&program.hints)? {
            line.extend(["-env".into(), name.into(), value.into()]);
        }
        if program.command.iter().any(|word| word == ":") {
            let reason = "a word of the command is \":\", which separates programs";
            return Err(Error::argument(c::ERR_SPAWN, "argv", ":", reason));
        }
        line.extend(program.command.iter().cloned());
    }
    Ok(line)
}

/// The hint `env`: variables as NAME=VALUE, one on each line.
fn environment(hints: &Info) -> Result<Vec<(String, String)>> {
    let text = hints.lookup("env").unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| match line.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => {
                let reason = "the hint env has a NAME=VALUE on each line";
                Err(Error::argument(c::ERR_INFO_VALUE, "info", line, reason))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(words: &str, processes: i32, hints: &[(&str, &str)]) -> SpawnProgram {
        let info = Info::default();
        hints.iter().for_each(|(key, value)| info.put(key, value));
        let command = words.split(' ').map(OsString::from).collect();
        SpawnProgram { command, processes, hints: info }
    }

    #[test]
    fn hints_become_options() {
        let programs = [
            program("a -x", 2, &[("wdir", "/tmp"), ("bind_to", "none"), ("env", "A=1\nB=x y")]),
            program("none", 0, &[]),
            program("b", 1, &[("wd", "/"), ("wdir", "/w"), ("host", "here"), ("what", "ever")]),
        ];
        let line = command_line(&programs).expect("sound");
        let line: Vec<&str> = line.iter().map(|word| word.to_str().expect("text")).collect();
        assert_eq!(
            line.join("|"),
            "-host|here|-bind-to|none|-n|2|-wdir|/tmp|-env|A|1|-env|B|x y|a|-x|:|-n|1|-wdir|/w|b"
        );
        for (wrong, code) in [
            (program("a :", 1, &[]), c::ERR_SPAWN),
            (program("a", 1, &[("env", "=1")]), c::ERR_INFO_VALUE),
        ] {
            assert_eq!(command_line(&[wrong]).expect_err("refused").code(), code);
        }
    }

    #[test]
    fn what_cannot_be_started_is_refused() {
        for wrong in [
            vec![program("a", -1, &[])],
            vec![program("", 1, &[])],
            vec![program("a", 0, &[]), program("b", 0, &[])],
        ] {
            let error = checked(wrong, &mut None).expect_err("refused");
            assert_eq!(error.code(), c::ERR_ARG);
        }
        let mut asked = None;
        checked(vec![program("a", 0, &[]), program("b", 3, &[])], &mut asked).expect("sound");
        assert_eq!(asked, Some(vec![0, 3]));
    }
}
