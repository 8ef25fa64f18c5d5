//! Which recorded receive takes which recorded message, as MPI matches them (MPI 5.0, 3.5): by
//! source, communicator and tag; of the messages of a sender that fit a receive it takes the one
//! that was sent first, of the receives that a message fits it goes to the one that was posted
//! first. From one sender both rules give the same pairs, whenever the messages arrive. Between
//! senders a time line does not say what arrived first, so receives of any source take what named
//! ones leave, in order of the starts of the sends.

use std::collections::{BTreeMap, VecDeque};

use mica_profile::{MessageEnvelope, TimelineInterval};

/// What a message is matched by besides its ranks; `None` is what was not recorded, and any tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageLabel {
    comm: Option<u32>,
    tag: Option<i32>,
}

impl MessageLabel {
    /// Of what a call sends, or receives if it does not send.
    pub fn of(interval: &TimelineInterval) -> MessageLabel {
        MessageLabel::with(interval.envelope, |envelope| envelope.tag)
    }

    /// Of what a call receives that sends as well.
    pub fn of_receive_part(interval: &TimelineInterval) -> MessageLabel {
        MessageLabel::with(interval.envelope, |envelope| {
            envelope.receive_tag.unwrap_or(MessageEnvelope::ANY_TAG)
        })
    }

    fn with(
        envelope: Option<MessageEnvelope>,
        tag: impl FnOnce(&MessageEnvelope) -> i32,
    ) -> MessageLabel {
        let tag = envelope.as_ref().map(tag);
        MessageLabel {
            comm: envelope.map(|envelope| envelope.comm),
            tag: tag.filter(|tag| *tag != MessageEnvelope::ANY_TAG),
        }
    }

    /// Whether a receive with this label takes a message with that one.
    fn takes(self, message: MessageLabel) -> bool {
        fn fit<T: PartialEq>(wanted: Option<T>, given: Option<T>) -> bool {
            wanted.is_none() || given.is_none() || wanted == given
        }
        fit(self.comm, message.comm) && fit(self.tag, message.tag)
    }
}

/// A message to the rank whose receives are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentMessage {
    /// Who sends it.
    pub from: u32,
    /// Its label.
    pub label: MessageLabel,
    /// When the send began.
    pub start_ns: u64,
}

/// A receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedReceive {
    /// The source, `None` if the call does not name one.
    pub from: Option<u32>,
    /// Its label.
    pub label: MessageLabel,
}

/// For each receive of a rank, in the order in which they were posted, the number of the message
/// that it takes. Those of one sender are in the order in which it sent them.
pub fn matches(messages: &[SentMessage], receives: &[RecordedReceive]) -> Vec<Option<usize>> {
    let mut queues: BTreeMap<u32, VecDeque<usize>> = BTreeMap::new();
    for (number, message) in messages.iter().enumerate() {
        queues.entry(message.from).or_default().push_back(number);
    }
    let take = |queue: &mut VecDeque<usize>, label: MessageLabel| {
        let place = queue.iter().position(|&number| label.takes(messages[number].label))?;
        queue.remove(place)
    };
    let mut found = vec![None; receives.len()];
    for (receive, found) in receives.iter().zip(&mut found) {
        let queue = receive.from.and_then(|from| queues.get_mut(&from));
        *found = queue.and_then(|queue| take(queue, receive.label));
    }
    let mut left: Vec<usize> = queues.into_values().flatten().collect();
    left.sort_by_key(|&number| (messages[number].start_ns, messages[number].from));
    let mut left = VecDeque::from(left);
    for (receive, found) in receives.iter().zip(&mut found) {
        if receive.from.is_none() {
            *found = take(&mut left, receive.label);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn label(comm: u32, tag: i32) -> MessageLabel {
        MessageLabel { comm: Some(comm), tag: Some(tag) }
    }

    const fn any_tag(comm: u32) -> MessageLabel {
        MessageLabel { comm: Some(comm), tag: None }
    }

    fn found(messages: &[(u32, MessageLabel)], receives: &[(Option<u32>, MessageLabel)]) -> String {
        let numbered = messages.iter().zip(0..);
        let messages: Vec<SentMessage> = numbered
            .map(|(&(from, label), start_ns)| SentMessage { from, label, start_ns })
            .collect();
        let receives: Vec<RecordedReceive> =
            receives.iter().map(|&(from, label)| RecordedReceive { from, label }).collect();
        let found = matches(&messages, &receives);
        let names = found.iter().map(|found| found.map_or("-".into(), |number| number.to_string()));
        names.collect::<Vec<String>>().join(" ")
    }

    #[test]
    fn tags_and_communicators_choose_among_a_sender_s_messages() {
        let messages = [(0, label(0, 1)), (0, label(0, 2)), (0, label(1, 2))];
        let receives = [label(1, 2), label(0, 2), label(0, 1)].map(|label| (Some(0), label));
        assert_eq!(found(&messages, &receives), "2 1 0");
    }

    #[test]
    fn equal_labels_keep_their_order() {
        let messages = [(0, label(0, 1)), (0, label(0, 2)), (0, label(0, 1))];
        let receives = [label(0, 1), label(0, 1), label(0, 2)].map(|label| (Some(0), label));
        assert_eq!(found(&messages, &receives), "0 2 1");
    }

    #[test]
    fn any_tag_takes_the_first_of_its_communicator() {
        let messages = [(0, label(1, 9)), (0, label(0, 7)), (0, label(0, 5))];
        let receives = [any_tag(0), label(0, 5), any_tag(1)].map(|label| (Some(0), label));
        assert_eq!(found(&messages, &receives), "1 2 0");
    }

    #[test]
    fn any_source_takes_what_named_receives_leave() {
        let messages = [(1, label(0, 1)), (2, label(0, 1)), (2, label(0, 3))];
        let receives =
            [(None, label(0, 3)), (None, label(0, 1)), (Some(1), any_tag(0)), (None, any_tag(0))];
        assert_eq!(found(&messages, &receives), "2 1 0 -");
    }
}
