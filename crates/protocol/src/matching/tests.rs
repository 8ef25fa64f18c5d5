//! Matching compared with a naive queue: the first posted receive, or the first message, that
//! matches.

use super::{MatchEnvelope, MatchPattern, PostedQueue, UnexpectedQueue};
use proptest::prelude::*;

fn envelope() -> impl Strategy<Value = MatchEnvelope> {
    (0u64..2, 0u32..3, 0i32..3).prop_map(|(context, source, tag)| MatchEnvelope {
        context,
        source,
        tag,
    })
}

fn pattern() -> impl Strategy<Value = MatchPattern> {
    (0u64..2, prop::option::of(0u32..3), prop::option::of(0i32..3))
        .prop_map(|(context, source, tag)| MatchPattern { context, source, tag })
}

#[derive(Debug, Clone)]
enum Step {
    Post(MatchPattern),
    Arrive(MatchEnvelope),
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => pattern().prop_map(Step::Post),
        4 => envelope().prop_map(Step::Arrive),
        1 => (0usize..64).prop_map(Step::Cancel),
    ]
}

proptest! {
    /// The two queues as the engine uses them: an arrival takes a receive or is kept; a receive
    /// takes a message or is posted.
    #[test]
    fn queues_agree_with_naive_ones(steps in prop::collection::vec(step(), 0..400)) {
        let (mut posted, mut unexpected) = (PostedQueue::default(), UnexpectedQueue::default());
        let mut naive_posted: Vec<(MatchPattern, usize, u32)> = Vec::new();
        let mut naive_unexpected: Vec<(MatchEnvelope, usize)> = Vec::new();
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Post(pattern) => {
                    let expected = naive_unexpected.iter().position(|(e, _)| pattern.matches(e));
                    let found = unexpected.find(&pattern);
                    prop_assert_eq!(expected.is_some(), found.is_some());
                    if let (Some(at), Some(ticket)) = (expected, found) {
                        prop_assert_eq!(naive_unexpected.remove(at), unexpected.remove(ticket));
                    } else {
                        naive_posted.push((pattern, id, posted.post(pattern, id)));
                    }
                }
                Step::Arrive(envelope) => {
                    let expected = naive_posted.iter().position(|(p, ..)| p.matches(&envelope));
                    let taken = posted.take(&envelope);
                    prop_assert_eq!(expected.map(|at| naive_posted.remove(at).1), taken);
                    if taken.is_none() {
                        naive_unexpected.push((envelope, id));
                        unexpected.insert(envelope, 0, id);
                    }
                }
                Step::Cancel(which) => if !naive_posted.is_empty() {
                    let (_, id, ticket) = naive_posted.remove(which % naive_posted.len());
                    prop_assert_eq!(posted.remove(ticket), id);
                },
            }
            prop_assert_eq!(posted.is_empty(), naive_posted.is_empty());
            prop_assert_eq!(unexpected.len(), naive_unexpected.len());
        }
    }
}

#[test]
fn ten_thousand_of_one_key_stay_in_order() {
    let mut unexpected = UnexpectedQueue::default();
    for i in 0..10_000 {
        unexpected.insert(MatchEnvelope { context: 0, source: i % 100, tag: 7 }, i as usize, i);
    }
    let any = MatchPattern { context: 0, source: None, tag: Some(7) };
    let (of_seven, of_all) = unexpected.bytes_from(7);
    assert!(of_seven > 0 && of_seven < of_all);
    for i in 0..10_000 {
        let ticket = unexpected.find(&any).expect("kept");
        assert_eq!(unexpected.remove(ticket).1, i);
    }
    assert_eq!(unexpected.bytes_from(7), (0, 0));
    assert_eq!(unexpected.bytes_from(1000), (0, 0), "never heard of");
}
