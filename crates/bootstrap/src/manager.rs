//! What every process manager can do.

use std::fmt::Debug;

use crate::BootstrapError;
use crate::pmi1::value_table::ValueTable;

/// Who a process is, as its launcher says.
#[derive(Debug)]
pub struct ProcessIdentity {
    /// Rank of this process in its job.
    pub rank: u32,
    /// Number of processes of the job.
    pub size: u32,
    /// Number of the program in a job of several; `None` if the launcher does not say.
    pub appnum: Option<u32>,
    /// How many processes can usefully run; `None` if the launcher does not say.
    pub universe_size: Option<u32>,
    /// The launcher's name for the job.
    pub job_id: String,
}

/// A launcher's service to the processes that it started: who they are, and a store of values to
/// find each other.
///
/// A value belongs to the rank that put it. Every call but [`put`](ProcessManager::put) may block
/// until the launcher answers; a launcher that goes away is [`BootstrapError::Lost`], never a hang.
pub trait ProcessManager: Send + Debug {
    /// The interface, for people: `PMI-1`, `PMI-2` or `PMIx`.
    fn name(&self) -> &'static str;

    /// Who this process is.
    fn identity(&self) -> &ProcessIdentity;

    /// Its rank.
    fn rank(&self) -> u32 {
        self.identity().rank
    }

    /// Number of processes of its job.
    fn size(&self) -> u32 {
        self.identity().size
    }

    /// Stores a value under this rank's `key`. Others can read it after the next
    /// [`fence`](ProcessManager::fence).
    ///
    /// A key has at most 24 characters out of letters, digits, `-`, `_` and `.`; a value is
    /// printable ASCII without white space and `;`, of any length. A key is put once.
    ///
    /// # Errors
    /// When the launcher is gone or refuses.
    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError>;

    /// Publishes what was put and waits until every rank of the job has called this.
    ///
    /// # Errors
    /// When the launcher is gone or refuses.
    fn fence(&mut self) -> Result<(), BootstrapError>;

    /// Reads what `rank` put under `key` before the last fence.
    ///
    /// # Errors
    /// When there is no such value, or the launcher is gone.
    fn get(&mut self, rank: u32, key: &str) -> Result<String, BootstrapError>;

    /// What all ranks put before the last fence, where the launcher hands that out as a whole.
    /// `None`: each value is to be read by [`get`](ProcessManager::get).
    fn table(&mut self) -> Option<ValueTable> {
        None
    }

    /// Reads what the launcher itself stores for all ranks under `key`.
    ///
    /// # Errors
    /// When there is no such value, or the launcher is gone.
    fn get_shared(&mut self, key: &str) -> Result<String, BootstrapError> {
        Err(BootstrapError::Refused {
            manager: self.name(),
            call: key.to_owned(),
            answer: "it stores no values of its own".to_owned(),
        })
    }

    /// Asks the launcher to end the whole job with exit status `code`. Returns when the
    /// request has been sent; the caller then exits.
    ///
    /// # Errors
    /// When the launcher is gone.
    fn abort(&mut self, code: i32, message: &str) -> Result<(), BootstrapError>;

    /// Leaves the job: this process may then exit without counting as failed. No other call may
    /// follow.
    ///
    /// # Errors
    /// When the launcher is gone or refuses.
    fn finalize(&mut self) -> Result<(), BootstrapError>;
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
    digits.map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

/// Hexadecimal digits as bytes; `None` if they are none.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map(|p| Some(digit(p[0])? << 4 | digit(p[1])?)).collect()
}
