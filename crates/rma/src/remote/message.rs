//! The layout of requests and answers.
//!
//! | part of a request | bytes |
//! |---|---|
//! | head: kind, operator, element, answer, address | 5 words |
//! | number of runs | 1 word |
//! | runs: offset from the address, and how much | 2 words each |
//! | data | as the runs say |
//!
//! An answer is one word, `MPI_SUCCESS` or an error class, and data. Words have the byte order of
//! the machine: all ranks of a job have the same.

use mica_memory::{Block, Region};

use mica_objects::datatype::BasicType;
use mica_objects::error::{Error, Result};

/// Tag of requests. Answers have their numbers as tags, from [`FIRST_ANSWER`] on.
pub(super) const REQUEST_TAG: i32 = 0;
pub(super) const FIRST_ANSWER: i32 = 1;

const WORD: usize = 8;
const HEAD: usize = 6 * WORD;
const RUN: usize = 2 * WORD;

/// Bytes of the longest request. Longer operations are several requests.
pub(super) const REQUEST_MAX: usize = 64 << 10;
/// Bytes of data of one request or answer at most.
pub(super) const DATA_MAX: usize = 32 << 10;
/// Runs of one request at most.
pub(super) const RUNS_MAX: usize = (REQUEST_MAX - HEAD - DATA_MAX) / RUN;

/// Bytes before the data of an answer.
pub(super) const ANSWER_HEAD: usize = WORD;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RequestKind {
    Put = 1,
    Get = 2,
    Accumulate = 3,
    CompareAndSwap = 4,
    LockShared = 5,
    LockExclusive = 6,
    Unlock = 7,
    Flush = 8,
    Post = 9,
    Complete = 10,
    /// Where is this memory registered?
    NameRegistration = 11,
}

impl RequestKind {
    const ALL: [RequestKind; 11] = [
        RequestKind::Put,
        RequestKind::Get,
        RequestKind::Accumulate,
        RequestKind::CompareAndSwap,
        RequestKind::LockShared,
        RequestKind::LockExclusive,
        RequestKind::Unlock,
        RequestKind::Flush,
        RequestKind::Post,
        RequestKind::Complete,
        RequestKind::NameRegistration,
    ];
}

/// A request without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteRequest {
    pub kind: RequestKind,
    /// Handle of the operator of an accumulate.
    pub op: u32,
    /// The type of the elements; for put and get, bytes.
    pub element: BasicType,
    /// Tag of the answer; `None`: there is none.
    pub answer: Option<i32>,
    /// Where offset 0 lies in the target's part of the window; in a dynamic window, at the target.
    pub address: u64,
    /// Offsets, and how many elements lie side by side there.
    pub runs: Vec<(i64, u64)>,
}

impl RemoteRequest {
    /// A request about no memory.
    pub fn plain(kind: RequestKind, answer: Option<i32>) -> RemoteRequest {
        RemoteRequest {
            kind,
            op: 0,
            element: BasicType::Byte,
            answer,
            address: 0,
            runs: Vec::new(),
        }
    }

    /// Bytes before the data.
    pub fn head_bytes(&self) -> usize {
        HEAD + self.runs.len() * RUN
    }

    /// A message with this request and room for `data` bytes behind it, and the message's length.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn message(&self, data: usize) -> Result<(Region, usize)> {
        let bytes = self.head_bytes() + data;
        debug_assert!(bytes <= REQUEST_MAX, "a request of {bytes} bytes");
        let message = Block::allocate(bytes)?;
        let mut words = vec![
            self.kind as u64,
            u64::from(self.op),
            self.element.code().into(),
            self.answer.map_or(0, |tag| tag as u64),
            self.address,
            self.runs.len() as u64,
        ];
        for &(at, n) in &self.runs {
            words.extend([at as u64, n]);
        }
        let words: Vec<[u8; WORD]> = words.into_iter().map(u64::to_ne_bytes).collect();
        message.write_bytes(words.as_flattened());
        Ok((message, bytes))
    }

    /// The request in a message of `bytes` bytes. `None` if it is none.
    pub fn read(message: &Region, bytes: usize) -> Option<RemoteRequest> {
        let word = |at: usize| {
            let mut word = [0; WORD];
            message.at(at * WORD).read_bytes(&mut word);
            u64::from_ne_bytes(word)
        };
        if bytes < HEAD {
            return None;
        }
        let runs = usize::try_from(word(5)).ok().filter(|&runs| runs <= RUNS_MAX)?;
        if bytes < HEAD + runs * RUN {
            return None;
        }
        let kind = RequestKind::ALL.into_iter().find(|&kind| kind as u64 == word(0))?;
        Some(RemoteRequest {
            kind,
            op: word(1) as u32,
            element: BasicType::of_code(word(2) as u8)?,
            answer: match word(3) as i32 {
                0 => None,
                tag => Some(tag),
            },
            address: word(4),
            runs: (0..runs).map(|run| (word(6 + 2 * run) as i64, word(7 + 2 * run))).collect(),
        })
    }
}

/// An answer with room for `data` bytes, and its length.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
pub(super) fn answer(error: i32, data: usize) -> Result<(Region, usize)> {
    let bytes = ANSWER_HEAD + data;
    let message = Block::allocate(bytes)?;
    set_error(&message, error);
    Ok((message, bytes))
}

/// Writes the error that an answer carries; `MPI_SUCCESS`: none.
pub(super) fn set_error(answer: &Region, error: i32) {
    answer.write_bytes(&(error as u64).to_ne_bytes());
}

/// The error that an answer carries, if it does.
pub(super) fn answered(answer: &Region) -> Option<Error> {
    let mut word = [0; WORD];
    answer.read_bytes(&mut word);
    match u64::from_ne_bytes(word) as i32 {
        mica_objects::constants::SUCCESS => None,
        class => {
            let detail = match class {
                mica_objects::constants::ERR_NO_MEM => "the target has no memory to carry it out",
                mica_objects::constants::ERR_RMA_RANGE => {
                    "the target has no such memory attached, or could not change it"
                }
                _ => "the target failed to carry it out",
            };
            Some(Error::other(class, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_travel_as_bytes() {
        let request = RemoteRequest {
            kind: RequestKind::Accumulate,
            op: 0x21,
            element: BasicType::DoubleInt,
            answer: Some(77),
            address: u64::MAX - 5,
            runs: vec![(-8, 3), (i64::MAX, 1)],
        };
        let (message, bytes) = request.message(16).expect("memory");
        assert_eq!(bytes, request.head_bytes() + 16);
        assert_eq!(RemoteRequest::read(&message, bytes), Some(request.clone()));
        assert_eq!(RemoteRequest::read(&message, request.head_bytes() - 1), None);
        assert_eq!(RemoteRequest::read(&message, 0), None);
        let plain = RemoteRequest::plain(RequestKind::Flush, None);
        let (message, bytes) = plain.message(0).expect("memory");
        assert_eq!(RemoteRequest::read(&message, bytes), Some(plain));
        message.write_bytes(&99_u64.to_ne_bytes());
        assert_eq!(RemoteRequest::read(&message, bytes), None);
    }

    #[test]
    fn answers_carry_an_error_or_none() {
        let (fine, bytes) = answer(mica_objects::constants::SUCCESS, 8).expect("memory");
        assert_eq!((answered(&fine), bytes), (None, 16));
        let (wrong, _) = answer(mica_objects::constants::ERR_RMA_RANGE, 0).expect("memory");
        let code = answered(&wrong).expect("an error").code();
        assert_eq!(code, mica_objects::constants::ERR_RMA_RANGE);
    }
}
