//! `mica info --explain write_all --view vector:4096:8192 -n 8`: which way an access to a file
//! takes, and what that follows from.

use std::error::Error;
use std::fmt::Write as _;

use mica_node::topology::{available_cores, readable_bytes};
use mica_node::tunables;
use mica_policy::files::{
    AccessChoice, AccessCosts, AccessDirection, AccessPart, RunSpacing, exchanges, goes_by_blocks,
};

/// A call of MPI, without `MPI_File_`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FileCall {
    name: &'static str,
    direction: AccessDirection,
    is_collective: bool,
}

const CALLS: [FileCall; 4] = [
    FileCall { name: "read", direction: AccessDirection::Read, is_collective: false },
    FileCall { name: "write", direction: AccessDirection::Write, is_collective: false },
    FileCall { name: "read_all", direction: AccessDirection::Read, is_collective: true },
    FileCall { name: "write_all", direction: AccessDirection::Write, is_collective: true },
];

/// What each rank sees of the file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExplainView {
    /// A piece of its own, behind that of the rank before.
    Contiguous,
    /// Pieces of `len` bytes, `stride` apart; a rank's begin where those of the rank before end.
    Vector {
        /// Bytes of a piece.
        len: u64,
        /// From the beginning of one to that of the next.
        stride: u64,
    },
}

/// The call of this name.
pub fn call(text: &str) -> Option<FileCall> {
    CALLS.into_iter().find(|call| call.name == text)
}

/// A value of `--view`.
pub fn view(text: &str) -> Result<ExplainView, String> {
    let number = |text: &str| tunables::parse_bytes(text).filter(|&bytes| bytes > 0);
    let vector = text.strip_prefix("vector:").and_then(|rest| {
        let (len, stride) = rest.split_once(':')?;
        let (len, stride) = (number(len)?, number(stride)?);
        (len <= stride).then_some(ExplainView::Vector { len, stride })
    });
    match text {
        "contiguous" => Ok(ExplainView::Contiguous),
        _ => vector.ok_or_else(|| {
            "expected contiguous, or vector:LENGTH:STRIDE with pieces that do not overlap"
                .to_owned()
        }),
    }
}

impl ExplainView {
    /// The part of `rank`, which accesses `bytes` bytes.
    fn part(self, rank: u64, bytes: u64) -> AccessPart {
        match self {
            ExplainView::Contiguous => {
                let start = rank * bytes;
                AccessPart { start, end: start + bytes, bytes, run: bytes }
            }
            ExplainView::Vector { len, stride } => {
                let start = rank * len;
                let last = bytes.div_ceil(len).saturating_sub(1);
                let end = start + last * stride + (bytes - last * len);
                AccessPart { start, end, bytes, run: len.min(bytes) }
            }
        }
    }

    fn describe(self) -> String {
        match self {
            ExplainView::Contiguous => "contiguous, rank after rank".to_owned(),
            ExplainView::Vector { len, stride } => {
                let (len, stride) = (readable_bytes(len), readable_bytes(stride));
                format!(
                    "pieces of {len}, {stride} from one to the next; a rank's begin where those \
                     of the rank before end"
                )
            }
        }
    }
}

impl FileCall {
    /// The answer as text.
    pub fn answer(
        self,
        bytes: u64,
        view: ExplainView,
        ranks: Option<usize>,
    ) -> Result<String, Box<dyn Error>> {
        let ranks = match ranks {
            Some(ranks) => ranks,
            None => available_cores().max(2),
        };
        let costs = AccessCosts::SHIPPED;
        let choice = AccessChoice::from_word(tunables::IO_EXCHANGE.choice()?);
        let parts: Vec<_> = (0..ranks as u64).map(|rank| view.part(rank, bytes)).collect();
        let is_exchanged = self.is_collective && exchanges(&parts, self.direction, choice, &costs);
        let mut text = format!(
            "Call       MPI_File_{} of {} by each of {ranks} ranks\nView       {}\n",
            self.name,
            readable_bytes(bytes),
            view.describe()
        );
        let way = match is_exchanged {
            true => {
                let window = readable_bytes(tunables::IO_BLOCK.number()?);
                format!(
                    "exchange: ranks send their pieces to aggregators, as many as cores, which \
                     access windows of {window}"
                )
            }
            false => self.alone(bytes, view, &costs)?,
        };
        let _ = writeln!(text, "Way        {way}");
        let _ = writeln!(
            text,
            "Costs      a call of the system as much as {}; a write between those of other ranks \
             as much as {}",
            readable_bytes(costs.call_bytes),
            readable_bytes(costs.alternating_write_bytes)
        );
        if self.is_collective {
            let _ = writeln!(
                text,
                "Forced by  {}, or the hint romio_cb_{}",
                tunables::IO_EXCHANGE.env,
                self.verb()
            );
        }
        let _ = writeln!(
            text,
            "           {}, or the hint romio_ds_{}",
            tunables::IO_SIEVE.env,
            self.verb()
        );
        Ok(text)
    }

    fn verb(self) -> &'static str {
        match self.direction {
            AccessDirection::Read => "read",
            AccessDirection::Write => "write",
        }
    }

    /// What a rank does by itself.
    fn alone(
        self,
        bytes: u64,
        view: ExplainView,
        costs: &AccessCosts,
    ) -> Result<String, tunables::BadValue> {
        let ExplainView::Vector { len, stride } = view else {
            return Ok("alone: each rank by one call".to_owned());
        };
        let block = tunables::IO_SIEVE_BLOCK.number()?;
        let spacing = RunSpacing { len, distance: stride };
        let by_blocks = match AccessChoice::from_word(tunables::IO_SIEVE.choice()?) {
            AccessChoice::Always => true,
            AccessChoice::Never => false,
            AccessChoice::Automatic => goes_by_blocks(self.direction, spacing, block, costs),
        };
        Ok(match by_blocks && bytes > len {
            true => format!("alone: each rank in blocks of {}", readable_bytes(block)),
            false => format!("alone: each rank by {} calls", bytes.div_ceil(len)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(name: &str, bytes: u64, described: &str, ranks: usize) -> String {
        let text = call(name).unwrap().answer(bytes, view(described).unwrap(), Some(ranks));
        let text = text.unwrap();
        let way = text.lines().find_map(|line| line.strip_prefix("Way        "));
        way.unwrap().split(':').next().unwrap().to_owned()
    }

    #[test]
    fn interleaved_writes_are_exchanged_and_reads_are_not() {
        assert_eq!(way("write_all", 1 << 20, "vector:4096:32768", 8), "exchange");
        assert_eq!(way("read_all", 1 << 20, "vector:4096:32768", 8), "alone");
        assert_eq!(way("read_all", 1 << 20, "vector:16:1024", 64), "exchange");
        assert_eq!(way("write_all", 1 << 20, "contiguous", 8), "alone");
        assert_eq!(way("write", 1 << 20, "vector:4096:32768", 8), "alone");
    }

    #[test]
    fn one_rank_goes_by_blocks_or_by_calls() {
        let answer = |view_of: &str| {
            call("write").unwrap().answer(1 << 20, view(view_of).unwrap(), Some(1)).unwrap()
        };
        assert!(answer("vector:64:128").contains("in blocks of"));
        assert!(answer("vector:64K:128K").contains("by 16 calls"));
        assert!(answer("contiguous").contains("by one call"));
    }

    #[test]
    fn refuses_views_that_are_none() {
        for wrong in ["vector", "vector:8", "vector:0:8", "vector:16:8", "matrix:1:2"] {
            assert!(view(wrong).is_err(), "{wrong}");
        }
        assert!(call("seek").is_none());
    }
}
