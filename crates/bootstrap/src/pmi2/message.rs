//! The messages of PMI-2: six characters with the length in decimal, then `cmd=NAME;key=value;...`,
//! where a semicolon in a value is doubled.
//!
//! Pure. Source: the wire protocol of MPICH's PMI-2 client, of Hydra, and of Slurm's pmi2 plugin.

use crate::pmi1::message::{MessageError, Pmi1Message};

/// Characters of the length.
const HEAD: usize = 6;

/// Writes a message with its length before it.
///
/// # Errors
/// When the command or a key cannot be written, or the message is longer than six digits can say.
pub fn to_frame(message: &Pmi1Message) -> Result<Vec<u8>, MessageError> {
    let command = message.command();
    if command.is_empty() || command.contains(';') {
        return Err(MessageError::NotAWord { key: "cmd".to_owned(), value: command.to_owned() });
    }
    let mut text = format!("cmd={command};");
    for (key, value) in message.fields() {
        if key.is_empty() || key.contains([';', '=']) || key == "cmd" {
            return Err(MessageError::NotAWord { key: key.clone(), value: value.clone() });
        }
        text.extend([key, "=", &value.replace(';', ";;"), ";"]);
    }
    if text.len() > 999_999 {
        return Err(MessageError::LineTooLong);
    }
    Ok(format!("{:6}{text}", text.len()).into_bytes())
}

/// Reads what stands behind the length.
fn parse(text: &str) -> Result<Pmi1Message, MessageError> {
    let line = || text.chars().take(200).collect::<String>();
    let mut words = Words(text);
    let command = words.next().and_then(|word| {
        let name = word.strip_prefix("cmd=")?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    let Some(command) = command else {
        return Err(MessageError::NoCommand { line: line() });
    };
    let mut message = Pmi1Message::new(command);
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let line = line();
            return Err(MessageError::NotAPair { word, line });
        };
        if key == "cmd" || message.get(key).is_some() {
            return Err(MessageError::Twice { key: key.to_owned(), line: line() });
        }
        message = message.with(key, value);
    }
    Ok(message)
}

/// The words between single semicolons, with double ones made single.
struct Words<'a>(&'a str);

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut word = String::new();
        let mut rest = self.0.chars();
        while let Some(c) = rest.next() {
            match c {
                ';' if rest.as_str().starts_with(';') => {
                    rest.next();
                    word.push(';');
                }
                ';' => break,
                c => word.push(c),
            }
        }
        self.0 = rest.as_str();
        Some(word)
    }
}

/// Cuts a stream of bytes into messages, however the bytes come in pieces.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Nothing received yet.
    pub fn new() -> Frames {
        Frames::default()
    }

    /// Adds bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of a message that is not complete yet.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the next message; `None` if more bytes are needed.
    ///
    /// # Errors
    /// When the message is none; it is taken then. Without a length there is no way on.
    pub fn next_message(&mut self) -> Result<Option<Pmi1Message>, MessageError> {
        if self.bytes.len() < HEAD {
            return Ok(None);
        }
        let head = std::str::from_utf8(&self.bytes[..HEAD]).unwrap_or("not text");
        let digits = head.trim();
        let length = digits.bytes().all(|b| b.is_ascii_digit());
        let Some(length) = length.then(|| digits.parse::<usize>().ok()).flatten() else {
            return Err(MessageError::NoLength {
                head: String::from_utf8_lossy(&self.bytes[..HEAD]).into_owned(),
            });
        };
        if self.bytes.len() < HEAD + length {
            return Ok(None);
        }
        let frame: Vec<u8> = self.bytes.drain(..HEAD + length).skip(HEAD).collect();
        match std::str::from_utf8(&frame) {
            // Some end the text with a line end or a NUL within the length.
            Ok(text) => parse(text.trim_end_matches(['\n', '\0'])).map(Some),
            Err(_) => {
                let line = String::from_utf8_lossy(&frame);
                let line = line.chars().take(200).collect();
                Err(MessageError::NotText { line })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(bytes: &[u8]) -> Result<Option<Pmi1Message>, MessageError> {
        let mut frames = Frames::new();
        frames.push(bytes);
        frames.next_message()
    }

    #[test]
    fn reads_frames_of_hydra_and_slurm() {
        let answer = one(b"    36cmd=kvs-get-response;value=a;;b;rc=0;").expect("a message");
        let answer = answer.expect("complete");
        assert_eq!(answer.command(), "kvs-get-response");
        assert_eq!(answer.get("value"), Some("a;b"));
        assert_eq!(answer.number::<i32>("rc"), Ok(0));
        let frame = to_frame(&Pmi1Message::new("job-getid")).expect("a frame");
        assert_eq!(frame, b"    14cmd=job-getid;");
        // The last semicolon may be missing.
        let bare = one(b"    10cmd=x;rc=0").expect("a message");
        assert_eq!(bare.expect("complete").get("rc"), Some("0"));
    }

    #[test]
    fn rejects_commands_that_would_be_read_as_fields() {
        for command in ["", "x;rc=0", ";"] {
            let frame = to_frame(&Pmi1Message::new(command));
            assert!(matches!(frame, Err(MessageError::NotAWord { .. })), "{command:?}");
        }
    }

    #[test]
    fn rejects_malformed_frames() {
        assert_eq!(one(b"    1"), Ok(None));
        assert_eq!(one(b"    99cmd=x;"), Ok(None));
        for bad in
            [&b"cmd=x;rc=0"[..], b"   -10cmd=x;", b"      cmd=x;", b"\xff\xff\xff\xff\xff\xff"]
        {
            assert!(matches!(one(bad), Err(MessageError::NoLength { .. })), "{bad:?}");
        }
        assert!(matches!(one(b"     5hello"), Err(MessageError::NoCommand { .. })));
        assert!(matches!(one(b"     8cmd=x;y;"), Err(MessageError::NotAPair { .. })));
        assert!(matches!(one(b"    14cmd=x;a=1;a=2;"), Err(MessageError::Twice { .. })));
        assert!(matches!(one(b"     2\xff\xff"), Err(MessageError::NotText { .. })));
    }

    fn messages() -> impl Strategy<Value = Pmi1Message> {
        let fields = proptest::collection::btree_map("[a-zA-Z][a-z_-]{0,9}", "[ -~äö]{0,40}", 0..8);
        ("[a-z_-]{1,12}", fields).prop_map(|(command, fields)| {
            let fields = fields.into_iter().filter(|(key, _)| key != "cmd");
            fields.fold(Pmi1Message::new(command), |m, (key, value)| m.with(key, value))
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            sent in proptest::collection::vec(messages(), 1..5),
            cut in 1usize..40,
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(|m| to_frame(m).expect("words")).collect();
            let (mut frames, mut received) = (Frames::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                frames.push(piece);
                while let Some(message) = frames.next_message().expect("well formed") {
                    received.push(message);
                }
            }
            prop_assert_eq!(received, sent);
            prop_assert_eq!(frames.pending(), 0);
        }

        #[test]
        fn no_bytes_make_it_panic(
            head in "[0-9 ]{6}",
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut frames = Frames::new();
            frames.push(head.as_bytes());
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.next_message() {}
        }
    }
}
