//! What a rank's answer to the launcher's question says beside its words ([`super::report`]): where
//! in the program it waits, and for which ranks. Both stand between the words, set apart by control
//! characters, which the words do not have ([`plain`]).
//!
//! ```text
//! waits in MPI_Recv STX OBJECT US OFFSET ETX for a message from rank 1 ...
//! SOH RANK,RANK,...        a line: it goes on when all of these have acted
//! ```
//!
//! The launcher finds the line of the source ([`HangText::read`]): it knows where debug information
//! is, and the rank may be in any state.

const RANKS: char = '\u{1}';
const PLACE: char = '\u{2}';
const PLACE_END: char = '\u{3}';
const OFFSET: char = '\u{1f}';

/// A rank's answer, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HangText {
    /// The words, in lines.
    pub words: String,
    /// For each thread of the rank that waits and says so: the ranks that must all act before it
    /// goes on.
    pub needs: Vec<Vec<u32>>,
}

/// The text without control characters other than line ends, which are for the launcher.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// The mark of a place: the offset of a call instruction in a file.
pub fn place_mark(object: &str, offset: u64) -> String {
    format!("{PLACE}{}{OFFSET}{offset:x}{PLACE_END}", plain(object).replace('\n', "?"))
}

/// The line that says which ranks must all act before a thread goes on.
pub fn needs_line(ranks: &[u32]) -> String {
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    format!("{RANKS}{}", ranks.join(","))
}

impl HangText {
    /// Reads an answer; `resolve` gives the words for a place in a file.
    pub fn read(answer: &str, mut resolve: impl FnMut(&str, u64) -> String) -> HangText {
        let mut read = HangText::default();
        for line in answer.split('\n') {
            if let Some(ranks) = line.strip_prefix(RANKS) {
                // A text that was cut off may end in half a number, which is a rank as well.
                let ranks: Option<Vec<u32>> = ranks.split(',').map(|r| r.parse().ok()).collect();
                read.needs.extend(ranks);
                continue;
            }
            if !read.words.is_empty() {
                read.words.push('\n');
            }
            let mut rest = line;
            while let Some((before, after)) = rest.split_once(PLACE) {
                read.words.push_str(before);
                rest = after;
                if let Some((mark, after)) = after.split_once(PLACE_END) {
                    rest = after;
                    let place = mark.split_once(OFFSET).and_then(|(object, offset)| {
                        Some((object, u64::from_str_radix(offset, 16).ok()?))
                    });
                    if let Some((object, offset)) = place {
                        read.words.push_str(&resolve(object, offset));
                    }
                }
            }
            read.words.push_str(rest);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(object: &str, offset: u64) -> String {
        format!("{object}+{offset:#x}")
    }

    #[test]
    fn places_and_ranks_are_read_as_written() {
        let place = place_mark("/my dir/a\u{3}b", 0x12f);
        let answer =
            format!("waits in MPI_Waitall {place} for 2 requests\na\n{}", needs_line(&[4, 1]));
        let read = HangText::read(&answer, resolve);
        assert_eq!(read.words, "waits in MPI_Waitall /my dir/a?b+0x12f for 2 requests\na");
        assert_eq!(read.needs, [vec![4, 1]]);
        let both = format!("{answer}\nwaits\n{}", needs_line(&[3]));
        assert_eq!(HangText::read(&both, resolve).needs, [vec![4, 1], vec![3]]);
    }

    #[test]
    fn what_is_no_mark_does_no_harm() {
        for (answer, words) in [
            ("a\u{2}b", "ab"),
            ("a\u{2}b\u{3}c", "ac"),
            ("a\u{2}b\u{1f}x\u{3}c", "ac"),
            ("\u{1}1,x", ""),
            ("", ""),
        ] {
            let read = HangText::read(answer, resolve);
            assert_eq!((read.words.as_str(), read.needs.len()), (words, 0), "{answer:?}");
        }
        assert_eq!(plain("a\u{1}b\nc\u{2}"), "a?b\nc?");
    }
}
