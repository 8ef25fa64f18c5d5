//! The messages of PMI-1: lines of `key=value` words, the first of which is `cmd=NAME`.
//!
//! Pure, and used by both sides: the client in this crate and the server in mpiexec. What is
//! written is strict (no white space in keys and values, so that any other PMI reads it); what is
//! read is lenient where the field's implementations differ (several spaces, a trailing carriage
//! return, a message text of several words).
//!
//! Source: the wire protocol of MPICH's `simple` PMI client and of Hydra (`PMI_FD`), described in
//! balaji-2010, "PMI: a scalable parallel process-management interface", section 3.

use std::fmt::Display;
use std::str::FromStr;

/// Bytes of a line at most. MPICH's buffers have 1024 to 4096; a peer that sends more than this is
/// no PMI.
pub const LINE_MAX: usize = 64 * 1024;

/// Why bytes are no PMI-1 message, or a message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No line end within [`LINE_MAX`] bytes.
    #[error("a line of more than {LINE_MAX} bytes")]
    LineTooLong,
    /// The bytes are not UTF-8.
    #[error("a line that is not text: {line:?}")]
    NotText {
        /// What came, as far as it can be shown.
        line: String,
    },
    /// The line does not begin with `cmd=NAME`.
    #[error("a line without cmd=NAME at its beginning: {line:?}")]
    NoCommand {
        /// The line.
        line: String,
    },
    /// A word is no `key=value`.
    #[error("{word:?} is no key=value in the line {line:?}")]
    NotAPair {
        /// The word.
        word: String,
        /// The line.
        line: String,
    },
    /// A key comes twice.
    #[error("{key} comes twice in the line {line:?}")]
    Twice {
        /// The key.
        key: String,
        /// The line.
        line: String,
    },
    /// A key that the command needs is missing.
    #[error("cmd={command} came without {key}")]
    Missing {
        /// The command.
        command: String,
        /// The key.
        key: &'static str,
    },
    /// A value is no number of the size expected.
    #[error("cmd={command} came with {key}={value}, which is not a number that it can have")]
    NotANumber {
        /// The command.
        command: String,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
    },
    /// The bytes before a message of PMI-2 do not say how long it is.
    #[error("{head:?} where the length of a message should be")]
    NoLength {
        /// The bytes.
        head: String,
    },
    /// A key or value cannot be written as one word of a message.
    #[error("{key}={value:?} cannot be written into a message")]
    NotAWord {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
}

/// One message: a command and its fields in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmi1Message {
    command: String,
    fields: Vec<(String, String)>,
}

impl Pmi1Message {
    /// A message without fields.
    pub fn new(command: impl Into<String>) -> Pmi1Message {
        Pmi1Message { command: command.into(), fields: Vec::new() }
    }

    /// The message with one field more.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Display) -> Pmi1Message {
        self.fields.push((key.into(), value.to_string()));
        self
    }

    /// The command: what stands behind `cmd=`.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The fields behind the command, in order.
    pub fn fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When it is not there.
    pub fn text(&self, key: &'static str) -> Result<&str, MessageError> {
        self.get(key).ok_or_else(|| MessageError::Missing { command: self.command.clone(), key })
    }

    /// The value of `key` as a number.
    ///
    /// # Errors
    /// When it is not there, or no number that a `T` can hold.
    pub fn number<T: FromStr>(&self, key: &'static str) -> Result<T, MessageError> {
        let value = self.text(key)?;
        value.parse().map_err(|_| MessageError::NotANumber {
            command: self.command.clone(),
            key,
            value: value.to_owned(),
        })
    }

    /// Reads a line, with or without its line end.
    ///
    /// Words without `=` continue the value before them: some launchers answer with a text of
    /// several words.
    ///
    /// # Errors
    /// When the line is no message; the error shows it.
    pub fn parse(line: &str) -> Result<Pmi1Message, MessageError> {
        let mut words = line.split_ascii_whitespace();
        let command = words.next().and_then(|word| word.strip_prefix("cmd="));
        let Some(command) = command.filter(|name| !name.is_empty()) else {
            return Err(MessageError::NoCommand { line: shown(line) });
        };
        let mut message = Pmi1Message::new(command);
        for word in words {
            match (word.split_once('='), message.fields.last_mut()) {
                (Some((key, value)), _) if !key.is_empty() => {
                    if key == "cmd" || message.get(key).is_some() {
                        let key = key.to_owned();
                        return Err(MessageError::Twice { key, line: shown(line) });
                    }
                    message.fields.push((key.to_owned(), value.to_owned()));
                }
                (None, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                _ => {
                    return Err(MessageError::NotAPair {
                        word: word.to_owned(),
                        line: shown(line),
                    });
                }
            }
        }
        Ok(message)
    }

    /// Writes the message as a line, line end included.
    ///
    /// # Errors
    /// When a key or a value has white space, a key has a `=` or nothing at all, or comes twice:
    /// the other side would read something else.
    pub fn to_line(&self) -> Result<String, MessageError> {
        let word = |text: &str| !text.contains(|c: char| c.is_ascii_whitespace());
        let mut line = format!("cmd={}", self.command);
        let bad = |key: &str, value: &str| MessageError::NotAWord {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        if self.command.is_empty() || !word(&self.command) {
            return Err(bad("cmd", &self.command));
        }
        for (at, (key, value)) in self.fields.iter().enumerate() {
            let named = !key.is_empty() && !key.contains('=') && word(key) && key != "cmd";
            if !named || !word(value) {
                return Err(bad(key, value));
            }
            if self.fields[..at].iter().any(|(other, _)| other == key) {
                return Err(MessageError::Twice { key: key.clone(), line });
            }
            line.extend([" ", key, "=", value]);
        }
        line.push('\n');
        if line.len() > LINE_MAX {
            return Err(MessageError::LineTooLong);
        }
        Ok(line)
    }
}

/// A line as errors show it: not without end.
fn shown(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}

/// Cuts a stream of bytes into messages, however the bytes come in pieces.
#[derive(Debug, Default)]
pub struct MessageLines {
    bytes: Vec<u8>,
    /// How many of the bytes are known to hold no line end.
    searched: usize,
}

impl MessageLines {
    /// Nothing received yet.
    pub fn new() -> MessageLines {
        MessageLines::default()
    }

    /// Adds bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of a line that is not complete yet: not zero at the end of the stream means that it
    /// was cut.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the next message; `None` if more bytes are needed. Empty lines are passed over.
    ///
    /// # Errors
    /// When the line is no message; it is taken, so that the next call goes on behind it. A line
    /// that is too long is not taken: there is no way on.
    pub fn next_message(&mut self) -> Result<Option<Pmi1Message>, MessageError> {
        loop {
            let new = &self.bytes[self.searched..];
            let Some(end) = new.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.bytes.len();
                if self.searched > LINE_MAX {
                    return Err(MessageError::LineTooLong);
                }
                return Ok(None);
            };
            let end = self.searched + end;
            if end > LINE_MAX {
                return Err(MessageError::LineTooLong);
            }
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            self.searched = 0;
            let Ok(line) = std::str::from_utf8(&line) else {
                let line = shown(&String::from_utf8_lossy(&line));
                return Err(MessageError::NotText { line });
            };
            if !line.trim().is_empty() {
                return Pmi1Message::parse(line).map(Some);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_lines_of_hydra() {
        let put =
            Pmi1Message::parse("cmd=put kvsname=kvs_1_0 key=P0-a value=x=y\n").expect("a put");
        assert_eq!(put.command(), "put");
        assert_eq!(put.get("value"), Some("x=y"));
        assert_eq!(put.get("nothing"), None);
        let maxes = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 \r\n";
        let maxes = Pmi1Message::parse(maxes).expect("maxes");
        assert_eq!(maxes.number::<usize>("vallen_max"), Ok(1024));
        let failed = Pmi1Message::parse("cmd=get_result rc=-1 msg=no such key").expect("a failure");
        assert_eq!(failed.get("msg"), Some("no such key"));
        assert_eq!(failed.number::<i32>("rc"), Ok(-1));
        assert!(matches!(
            failed.number::<u32>("rc"),
            Err(MessageError::NotANumber { key: "rc", .. })
        ));
        assert!(matches!(failed.text("value"), Err(MessageError::Missing { key: "value", .. })));
        assert_eq!(
            Pmi1Message::new("init").with("pmi_version", 1).to_line(),
            Ok("cmd=init pmi_version=1\n".to_owned())
        );
    }

    #[test]
    fn rejects_malformed_messages() {
        for line in ["", "hello", "cmd=", "rc=0 cmd=x", "mcmd=spawn", "=x"] {
            let error = Pmi1Message::parse(line).expect_err(line);
            assert!(matches!(error, MessageError::NoCommand { .. }), "{line}");
        }
        for line in ["cmd=x y", "cmd=x =y", "cmd=x a=1 =y"] {
            let error = Pmi1Message::parse(line).expect_err(line);
            assert!(matches!(error, MessageError::NotAPair { .. }), "{line}");
        }
        for line in ["cmd=x a=1 a=1", "cmd=x cmd=y"] {
            let error = Pmi1Message::parse(line).expect_err(line);
            assert!(matches!(error, MessageError::Twice { .. }), "{line}");
        }
    }

    #[test]
    fn rejects_unwritable_fields() {
        let message = || Pmi1Message::new("put");
        for (key, value) in
            [("a b", "1"), ("a", "1 2"), ("a", "1\n"), ("", "1"), ("a=", "1"), ("cmd", "1")]
        {
            let line = message().with(key, value).to_line();
            assert!(matches!(line, Err(MessageError::NotAWord { .. })), "{key}={value}");
        }
        let twice = message().with("a", 1).with("a", 2).to_line();
        assert!(matches!(twice, Err(MessageError::Twice { .. })));
        let long = message().with("a", "x".repeat(LINE_MAX)).to_line();
        assert_eq!(long, Err(MessageError::LineTooLong));
    }

    #[test]
    fn rejects_endless_line() {
        let mut lines = MessageLines::new();
        lines.push(&vec![b'x'; LINE_MAX]);
        assert_eq!(lines.next_message(), Ok(None));
        lines.push(b"xx");
        assert_eq!(lines.next_message(), Err(MessageError::LineTooLong));
    }

    #[test]
    fn continues_after_bad_line() {
        let mut lines = MessageLines::new();
        lines.push(b"\xff\xfe\nhello\n\n  \ncmd=finalize\ncmd=ab");
        assert!(matches!(lines.next_message(), Err(MessageError::NotText { .. })));
        assert!(matches!(lines.next_message(), Err(MessageError::NoCommand { .. })));
        assert_eq!(lines.next_message(), Ok(Some(Pmi1Message::new("finalize"))));
        assert_eq!(lines.next_message(), Ok(None));
        assert_eq!(lines.pending(), 6);
    }

    fn messages() -> impl Strategy<Value = Pmi1Message> {
        let fields =
            proptest::collection::btree_map("[a-zA-Z][a-z_-]{0,9}", "[!-~äöü]{0,40}", 0..8);
        ("[a-z_]{1,12}", fields).prop_map(|(command, fields)| {
            let fields = fields.into_iter().filter(|(key, _)| key != "cmd");
            fields.fold(Pmi1Message::new(command), |m, (key, value)| m.with(key, value))
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in messages()) {
            let line = message.to_line().expect("words only");
            prop_assert_eq!(Pmi1Message::parse(&line), Ok(message));
        }

        #[test]
        fn pieces_do_not_matter(
            sent in proptest::collection::vec(messages(), 0..6),
            cuts in proptest::collection::vec(1usize..50, 1..20),
        ) {
            let bytes: String = sent.iter().map(|m| m.to_line().expect("words only")).collect();
            let (mut lines, mut received) = (MessageLines::new(), Vec::new());
            let (mut rest, mut cuts) = (bytes.as_bytes(), cuts.iter().cycle());
            while !rest.is_empty() {
                let cut = rest.len().min(*cuts.next().expect("a cycle"));
                lines.push(&rest[..cut]);
                rest = &rest[cut..];
                while let Some(message) = lines.next_message().expect("well formed") {
                    received.push(message);
                }
            }
            prop_assert_eq!(received, sent);
            prop_assert_eq!(lines.pending(), 0);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut lines = MessageLines::new();
            lines.push(&bytes);
            let ends = bytes.iter().filter(|&&b| b == b'\n').count();
            for _ in 0..=ends {
                if let Ok(Some(message)) = lines.next_message() {
                    // What it takes from anywhere it can also say again, unless a text of several
                    // words was in it.
                    let words = message.fields().iter().all(|(_, value)| !value.contains(' '));
                    prop_assert!(!words || message.to_line().is_ok());
                }
            }
        }
    }
}
