//! What arrives from process managers: PMI-1, PMI-2, and the endpoint records that ranks publish
//! through them.

use mica_bootstrap::endpoint_record::EndpointRecord;
use mica_bootstrap::pmi1::message::{MessageError, MessageLines, Pmi1Message};
use mica_bootstrap::pmi2::message::{Frames, to_frame};

/// The messages before the first error, and that error.
type Received = (Vec<Pmi1Message>, Option<MessageError>);

/// Receives `bytes` in pieces of `piece` bytes; `next` appends bytes or takes a message.
fn receive<R>(
    bytes: &[u8],
    piece: usize,
    mut reader: R,
    push: fn(&mut R, &[u8]),
    next: fn(&mut R) -> Result<Option<Pmi1Message>, MessageError>,
) -> Received {
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        push(&mut reader, piece);
        loop {
            match next(&mut reader) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}

/// The first byte is the length of the pieces in which the other bytes arrive.
pub fn run_pmi1(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else {
        return;
    };
    let received = |piece| {
        receive(bytes, piece, MessageLines::new(), MessageLines::push, MessageLines::next_message)
    };
    let all = received(bytes.len().max(1));
    assert_eq!(received(usize::from(piece).max(1)), all);
    for message in all.0 {
        let line = match message.to_line() {
            Ok(line) => line,
            // A value of several words can be read, but is never written.
            Err(MessageError::NotAWord { value, .. }) if value.contains(' ') => continue,
            Err(error) => panic!("{message:?} was read and cannot be written: {error}"),
        };
        assert_eq!(Pmi1Message::parse(&line), Ok(message), "{line:?}");
    }
}

/// Like [`run_pmi1`], for PMI-2.
pub fn run_pmi2(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else {
        return;
    };
    let received = |piece| {
        let (push, next) = (Frames::push, Frames::next_message);
        receive(bytes, piece, Frames::new(), push, next)
    };
    let all = received(bytes.len().max(1));
    assert_eq!(received(usize::from(piece).max(1)), all);
    for message in all.0 {
        let frame = match to_frame(&message) {
            Ok(frame) => frame,
            // Doubled semicolons are accepted in commands and keys when read, but written in values
            // only.
            Err(MessageError::NotAWord { key, .. }) if key.contains(';') || key == "cmd" => {
                continue;
            }
            // A message of the maximum length (six digits) may grow by a semicolon at its end.
            Err(MessageError::LineTooLong) => continue,
            Err(error) => panic!("{message:?} was read and cannot be written: {error}"),
        };
        let (again, error) =
            receive(&frame, frame.len(), Frames::new(), Frames::push, Frames::next_message);
        assert_eq!((again, error), (vec![message], None));
    }
}

/// Decodes the endpoint record of a rank.
pub fn run_endpoint_record(bytes: &[u8]) {
    if let Ok(record) = EndpointRecord::decode(bytes, 3) {
        let again = EndpointRecord::decode(&record.encode(), 3);
        assert_eq!(again.ok().as_ref(), Some(&record));
    }
}
