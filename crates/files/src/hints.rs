//! Hints of files (MPI 5.0, 14.2.8), each declared once: what a program may say, what holds where
//! it says nothing, and what the library does about it.
//!
//! Beside the standard's, these are the names that programs pass to ROMIO. A value that a hint
//! cannot have is ignored, as unknown hints are.

use mica_node::tunables::{self, BadValue, parse_bytes};
use mica_objects::info::Info;
use mica_policy::files::AccessChoice;

/// What kind of values a hint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintKind {
    /// `automatic`, `enable` or `disable`.
    Choice,
    /// A positive number.
    Number,
    /// A number in octal digits.
    Octal,
    /// `true` or `false`.
    Logical,
    /// Anything: the library has no use for it, and gives it back.
    Text,
}

/// The hints, and what holds where the program says nothing; `None`: nothing.
const HINTS: [(&str, HintKind, Option<&str>); 24] = [
    // Collective accesses: whether ranks exchange data so that few of them access the file in large
    // pieces, how many, and how large the pieces are.
    ("romio_cb_read", HintKind::Choice, Some("automatic")),
    ("romio_cb_write", HintKind::Choice, Some("automatic")),
    ("cb_buffer_size", HintKind::Number, None),
    ("cb_nodes", HintKind::Number, None),
    ("collective_buffering", HintKind::Logical, Some("true")),
    // Accesses of one rank in many short runs: whether blocks are read, and written back, and how
    // large they are.
    ("romio_ds_read", HintKind::Choice, Some("automatic")),
    ("romio_ds_write", HintKind::Choice, Some("automatic")),
    ("ind_rd_buffer_size", HintKind::Number, None),
    ("ind_wr_buffer_size", HintKind::Number, None),
    // Permissions of a file that is created.
    ("file_perm", HintKind::Octal, None),
    // Known, and without an effect here.
    ("access_style", HintKind::Text, None),
    ("cb_block_size", HintKind::Number, None),
    ("chunked", HintKind::Text, None),
    ("chunked_item", HintKind::Text, None),
    ("chunked_size", HintKind::Text, None),
    ("filename", HintKind::Text, None),
    ("io_node_list", HintKind::Text, None),
    ("nb_proc", HintKind::Number, None),
    ("num_io_nodes", HintKind::Number, None),
    ("striping_factor", HintKind::Number, None),
    ("striping_unit", HintKind::Number, None),
    ("cb_config_list", HintKind::Text, None),
    ("romio_no_indep_rw", HintKind::Logical, Some("false")),
    ("direct_io", HintKind::Logical, Some("false")),
];

/// The hints in force, as accesses need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Whether collective reads exchange data.
    pub exchange_reads: AccessChoice,
    /// Whether collective writes do.
    pub exchange_writes: AccessChoice,
    /// Bytes of the piece that a rank accesses at a time for all.
    pub exchange_block: u64,
    /// Ranks that do so; `None`: as many as the library finds right.
    pub aggregators: Option<usize>,
    /// Whether short runs are read in blocks.
    pub sieve_reads: AccessChoice,
    /// Whether they are written in blocks.
    pub sieve_writes: AccessChoice,
    /// Bytes of a block that is read.
    pub read_block: u64,
    /// Bytes of a block that is written.
    pub write_block: u64,
    /// Permissions of a file that is created.
    pub permissions: u32,
}

/// Permissions of a file that is created, before the process's mask.
const PERMISSIONS: u32 = 0o666;
/// Smallest block: a page of most machines.
const BLOCK_MIN: u64 = 4096;
/// Largest block: pieces in one are described by 32-bit numbers, and a rank has two.
const BLOCK_MAX: u64 = 1 << 30;

/// What ranks must have alike, since they choose by it without a word: the first rank's holds.
pub type SharedHints = [u64; 2];

impl HintKind {
    fn allows(self, value: &str) -> bool {
        match self {
            HintKind::Choice => CHOICE_WORDS.contains(&value),
            HintKind::Number => value.trim().parse::<u64>().is_ok_and(|number| number > 0),
            HintKind::Octal => u32::from_str_radix(value.trim(), 8).is_ok_and(|n| n <= 0o7777),
            HintKind::Logical => matches!(value, "true" | "false"),
            HintKind::Text => true,
        }
    }
}

/// The hints in force of a file that is opened with these.
pub fn in_force(given: &Info) -> Info {
    let info = Info::default();
    for (key, kind, default) in HINTS {
        let value = given.lookup(key).filter(|value| kind.allows(value));
        if let Some(value) = value.as_deref().or(default) {
            info.put(key, value);
        }
    }
    info
}

/// Puts these hints in force as well.
pub fn change(in_force: &Info, given: &Info) {
    for (key, kind, _) in HINTS {
        if let Some(value) = given.lookup(key).filter(|value| kind.allows(value)) {
            in_force.put(key, &value);
        }
    }
}

const CHOICES: [AccessChoice; 3] =
    [AccessChoice::Automatic, AccessChoice::Always, AccessChoice::Never];
/// What ROMIO calls them.
const CHOICE_WORDS: [&str; 3] = ["automatic", "enable", "disable"];

impl Hints {
    /// What ranks must have alike.
    pub fn shared(&self) -> SharedHints {
        let choices = (self.exchange_reads as u64) | (self.exchange_writes as u64) << 2;
        [choices | (self.aggregators.unwrap_or(0) as u64) << 4, self.exchange_block]
    }

    /// Takes over what another rank has.
    pub fn adopt(&mut self, [choices, block]: SharedHints) {
        let choice = |bits: u64| CHOICES[(bits & 3).min(2) as usize];
        (self.exchange_reads, self.exchange_writes) = (choice(choices), choice(choices >> 2));
        self.aggregators = Some((choices >> 4) as usize).filter(|&number| number > 0);
        self.exchange_block = block;
    }

    /// Says in `info`, which has what this rank was given, what ranks have alike.
    pub fn show_shared(&self, info: &Info) {
        let word = |choice: AccessChoice| CHOICE_WORDS[choice as usize];
        info.put("romio_cb_read", word(self.exchange_reads));
        info.put("romio_cb_write", word(self.exchange_writes));
        info.put("cb_buffer_size", &self.exchange_block.to_string());
        match self.aggregators {
            Some(number) => info.put("cb_nodes", &number.to_string()),
            None => drop(info.remove("cb_nodes")),
        }
    }

    /// What these hints, all of which are [in force](in_force), say. The sizes that were not given
    /// are added to them.
    ///
    /// # Errors
    /// Where the program has changed a variable to what it cannot be.
    pub fn of(info: &Info) -> Result<Hints, BadValue> {
        let block = tunables::IO_BLOCK.number()?;
        let sieve = tunables::IO_SIEVE_BLOCK.number()?;
        let size = |key: &str, default: u64| {
            let given = info.lookup(key).and_then(|value| parse_bytes(value.trim()));
            let size = given.unwrap_or(default).clamp(BLOCK_MIN, BLOCK_MAX);
            info.put(key, &size.to_string());
            size
        };
        let exchange_forced = AccessChoice::from_word(tunables::IO_EXCHANGE.choice()?);
        let sieve_forced = AccessChoice::from_word(tunables::IO_SIEVE.choice()?);
        let choice = |key: &str, otherwise: AccessChoice| match info.lookup(key).as_deref() {
            Some("enable") => AccessChoice::Always,
            Some("disable") => AccessChoice::Never,
            _ => otherwise,
        };
        let is_off = info.lookup("collective_buffering").is_some_and(|value| value == "false");
        let exchange = |key: &str| match choice(key, exchange_forced) {
            AccessChoice::Automatic if is_off => AccessChoice::Never,
            choice => choice,
        };
        let number = |key: &str| info.lookup(key).and_then(|value| value.trim().parse().ok());
        let octal = info.lookup("file_perm");
        let octal = octal.and_then(|value| u32::from_str_radix(value.trim(), 8).ok());
        Ok(Hints {
            exchange_reads: exchange("romio_cb_read"),
            exchange_writes: exchange("romio_cb_write"),
            exchange_block: size("cb_buffer_size", block),
            aggregators: number("cb_nodes"),
            sieve_reads: choice("romio_ds_read", sieve_forced),
            sieve_writes: choice("romio_ds_write", sieve_forced),
            read_block: size("ind_rd_buffer_size", sieve),
            write_block: size("ind_wr_buffer_size", sieve),
            permissions: octal.unwrap_or(PERMISSIONS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hint_cannot_be_is_not_in_force() {
        let given = Info::default();
        given.put("romio_cb_write", "perhaps");
        given.put("romio_ds_write", "disable");
        given.put("cb_nodes", "-3");
        given.put("cb_buffer_size", "65536");
        given.put("striping_unit", "1048576");
        given.put("no_such_hint", "1");
        let info = in_force(&given);
        let hints = Hints::of(&info).unwrap();
        assert_eq!(hints.exchange_writes, AccessChoice::Automatic);
        assert_eq!(hints.sieve_writes, AccessChoice::Never);
        assert_eq!((hints.aggregators, hints.exchange_block), (None, 65536));
        assert_eq!(info.lookup("striping_unit").as_deref(), Some("1048576"));
        assert_eq!(info.lookup("no_such_hint"), None);
        assert!(info.lookup("ind_wr_buffer_size").is_some());
        let more = Info::default();
        more.put("cb_nodes", "2");
        change(&info, &more);
        let changed = Hints::of(&info).unwrap();
        assert_eq!(changed.aggregators, Some(2));
        let mut other = hints;
        other.exchange_writes = AccessChoice::Never;
        other.adopt(changed.shared());
        assert_eq!(other, changed);
        // Another rank's own hints do not hold where the first rank's do.
        let own = Info::default();
        own.put("romio_cb_write", "disable");
        own.put("cb_nodes", "7");
        own.put("romio_ds_write", "enable");
        let mut hints_of_own = Hints::of(&own).unwrap();
        hints_of_own.adopt(hints.shared());
        hints_of_own.show_shared(&own);
        assert_eq!(own.lookup("romio_cb_write").as_deref(), Some("automatic"));
        assert_eq!(own.lookup("cb_nodes"), None);
        assert_eq!(own.lookup("cb_buffer_size").as_deref(), Some("65536"));
        assert_eq!(own.lookup("romio_ds_write").as_deref(), Some("enable"));
    }
}
