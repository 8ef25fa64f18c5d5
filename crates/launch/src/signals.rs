//! Signals to `mpiexec`: their names, and what is done with each.
//!
//! What a user can mean for the program is passed on to the ranks: Open MPI forwards SIGUSR2,
//! SIGALRM and SIGABRT by default, Hydra the first two; batch systems warn a job by SIGXCPU (a
//! limit of processor time), SIGURG or a real-time signal. `--forward-signals` adds to that list,
//! or empties it. Of the other signals that can be caught, those end the job that would end a
//! process, and the launcher names them. SIGUSR1 asks for the hang report unless it is forwarded.
//!
//! A signal that this process was started to ignore stays ignored, here and by the ranks; but for
//! SIGINT and SIGQUIT, which shells ignore in all that they start in the background.

use mica_node::process::{is_ignored, signal};
use serde::{Deserialize, Serialize};

/// Numbers, names without `SIG`, and an explanation of those whose name says little.
const NAMES: [(i32, &str, &str); 31] = [
    (signal::SIGHUP, "HUP", ""),
    (signal::SIGINT, "INT", ""),
    (signal::SIGQUIT, "QUIT", ""),
    (signal::SIGILL, "ILL", "illegal instruction"),
    (signal::SIGTRAP, "TRAP", ""),
    (signal::SIGABRT, "ABRT", "abort"),
    (signal::SIGBUS, "BUS", "bus error"),
    (signal::SIGFPE, "FPE", "arithmetic error"),
    (signal::SIGKILL, "KILL", ""),
    (signal::SIGUSR1, "USR1", ""),
    (signal::SIGSEGV, "SEGV", "invalid memory access"),
    (signal::SIGUSR2, "USR2", ""),
    (signal::SIGPIPE, "PIPE", "its output has no reader"),
    (signal::SIGALRM, "ALRM", "alarm clock"),
    (signal::SIGTERM, "TERM", ""),
    (signal::SIGSTKFLT, "STKFLT", "stack fault"),
    (signal::SIGCHLD, "CHLD", ""),
    (signal::SIGCONT, "CONT", ""),
    (signal::SIGSTOP, "STOP", ""),
    (signal::SIGTSTP, "TSTP", ""),
    (signal::SIGTTIN, "TTIN", ""),
    (signal::SIGTTOU, "TTOU", ""),
    (signal::SIGURG, "URG", ""),
    (signal::SIGXCPU, "XCPU", "limit of processor time"),
    (signal::SIGXFSZ, "XFSZ", "limit of file size"),
    (signal::SIGVTALRM, "VTALRM", "timer of processor time"),
    (signal::SIGPROF, "PROF", "profiling timer"),
    (signal::SIGWINCH, "WINCH", ""),
    (signal::SIGIO, "IO", ""),
    (signal::SIGPWR, "PWR", "power failure"),
    (signal::SIGSYS, "SYS", "forbidden system call"),
];

/// What users and batch systems send to a job to warn it, besides real-time signals.
const FORWARDED: [i32; 5] =
    [signal::SIGUSR2, signal::SIGALRM, signal::SIGABRT, signal::SIGXCPU, signal::SIGURG];

/// Other signals that `--forward-signals` takes. Not among them: what the kernel sends for a fault,
/// what cannot be caught, and what the launcher needs for itself.
const FORWARDABLE: [i32; 11] = [
    signal::SIGHUP,
    signal::SIGINT,
    signal::SIGQUIT,
    signal::SIGUSR1,
    signal::SIGTERM,
    signal::SIGSTKFLT,
    signal::SIGVTALRM,
    signal::SIGPROF,
    signal::SIGWINCH,
    signal::SIGIO,
    signal::SIGPWR,
];

/// Signals that the launcher handles itself, whatever the rules.
const OWN: [i32; 3] = [signal::SIGCHLD, signal::SIGTSTP, signal::SIGCONT];

/// Signals that do nothing to a process that does not catch them.
const HARMLESS: [i32; 2] = [signal::SIGURG, signal::SIGWINCH];

/// `SIGSEGV`, `SIGRTMIN+2`; `signal 70` for a number that has no name.
pub fn signal_name(number: i32) -> String {
    if let Some((_, name, _)) = NAMES.iter().find(|(known, _, _)| *known == number) {
        return format!("SIG{name}");
    }
    let real_time = signal::real_time();
    match number - real_time.start() {
        0 => "SIGRTMIN".to_owned(),
        above if real_time.contains(&number) => format!("SIGRTMIN+{above}"),
        _ => format!("signal {number}"),
    }
}

/// The signal's name, and what it means if the name says little: `SIGFPE, arithmetic error`.
pub fn describe_signal(number: i32) -> String {
    match NAMES.iter().find(|(known, _, meaning)| *known == number && !meaning.is_empty()) {
        Some((_, _, meaning)) => format!("{}, {meaning}", signal_name(number)),
        None => signal_name(number),
    }
}

/// The number of the signal that a user names: `USR1`, `sigusr1`, `10`, `RTMIN+2`, `RTMAX-1`.
fn parse_signal(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((number, _, _)) = NAMES.iter().find(|(_, name, _)| *name == bare) {
        return Some(*number);
    }
    let offset = |text: &str, sign| match text {
        "" => Some(0),
        _ => text.strip_prefix(sign)?.parse::<i32>().ok(),
    };
    let real_time = signal::real_time();
    let number = match (bare.strip_prefix("RTMIN"), bare.strip_prefix("RTMAX")) {
        (Some(above), _) => real_time.start().checked_add(offset(above, '+')?)?,
        (_, Some(below)) => real_time.end().checked_sub(offset(below, '-')?)?,
        _ => return None,
    };
    real_time.contains(&number).then_some(number)
}

/// What is done with a signal to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalAction {
    /// The ranks get it.
    Forward,
    /// It asks for the hang report.
    Report,
    /// It ends the job.
    End,
    /// Nothing.
    Ignore,
}

/// Which signals the ranks get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalRules {
    forwarded: Vec<i32>,
}

impl Default for SignalRules {
    fn default() -> SignalRules {
        SignalRules { forwarded: FORWARDED.into_iter().chain(signal::real_time()).collect() }
    }
}

impl SignalRules {
    /// What [`SignalRules::add`] reads, for messages.
    pub const WANTED: &'static str =
        "none, or signals that mpiexec can pass on, as in USR1,TERM,RTMIN+2";

    /// Adds the signals of a list, in which `none` removes all before it. `None`, and no change, if
    /// it is not such a list.
    pub fn add(&mut self, list: &str) -> Option<()> {
        let mut forwarded = self.forwarded.clone();
        for word in list.split(',').map(str::trim) {
            if word.eq_ignore_ascii_case("none") {
                forwarded.clear();
                continue;
            }
            let number = parse_signal(word)?;
            let is_known = FORWARDED.contains(&number)
                || FORWARDABLE.contains(&number)
                || signal::real_time().contains(&number);
            forwarded.push(is_known.then_some(number)?);
        }
        self.forwarded = forwarded;
        Some(())
    }

    /// What is done with a signal that is not one of the launcher's own.
    pub fn action(&self, number: i32) -> SignalAction {
        match number {
            _ if self.forwarded.contains(&number) => SignalAction::Forward,
            signal::SIGUSR1 => SignalAction::Report,
            _ if HARMLESS.contains(&number) || OWN.contains(&number) => SignalAction::Ignore,
            _ => SignalAction::End,
        }
    }

    /// Whether this signal ends the job.
    pub fn ends(&self, number: i32) -> bool {
        self.action(number) == SignalAction::End
    }
}

/// The signals that a launcher reads.
pub fn taken() -> Vec<i32> {
    let of_users = FORWARDED.into_iter().chain(FORWARDABLE).chain(signal::real_time());
    let stays =
        |number: &i32| [signal::SIGINT, signal::SIGQUIT].contains(number) || !is_ignored(*number);
    OWN.into_iter().chain(of_users.filter(stays)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_name_that_is_read_again() {
        for number in (1..32).chain(signal::real_time()) {
            let name = signal_name(number);
            assert!(name.starts_with("SIG"), "{number}: {name}");
            assert_eq!(parse_signal(&name), Some(number), "{name}");
            assert_eq!(parse_signal(&name[3..].to_lowercase()), Some(number), "{name}");
        }
        assert_eq!(parse_signal("RTMAX-1"), Some(*signal::real_time().end() - 1));
        assert_eq!(describe_signal(signal::SIGALRM), "SIGALRM, alarm clock");
        assert_eq!(describe_signal(70), "signal 70");
        for bad in ["", "SIG", "RTMIN-1", "RTMAX+1", "RTMIN+99", "RTMIN+", "USR3"] {
            assert_eq!(parse_signal(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_list_adds_to_what_is_forwarded_or_replaces_it() {
        use SignalAction::{End, Forward, Ignore, Report};
        let rules = |list: &str| {
            let mut rules = SignalRules::default();
            rules.add(list).map(|()| rules)
        };
        let actions = |rules: &SignalRules, numbers: [i32; 4]| numbers.map(|n| rules.action(n));
        let four = [signal::SIGUSR2, signal::SIGUSR1, signal::SIGTERM, signal::SIGURG];
        let usual = SignalRules::default();
        assert_eq!(actions(&usual, four), [Forward, Report, End, Forward]);
        assert_eq!(actions(&rules("USR1,15").unwrap(), four), [Forward; 4]);
        assert_eq!(actions(&rules("none").unwrap(), four), [End, Report, End, Ignore]);
        assert_eq!(actions(&rules("none, term").unwrap(), four), [End, Report, Forward, Ignore]);
        assert_eq!(usual.action(*signal::real_time().start()), Forward);
        assert!(usual.ends(signal::SIGQUIT) && usual.ends(signal::SIGPWR));
        for bad in ["", "KILL", "STOP", "SEGV", "CHLD", "TSTP", "0", "-1", "USR1,", "all", "USR1 2"]
        {
            assert_eq!(rules(bad), None, "{bad}");
        }
    }
}
