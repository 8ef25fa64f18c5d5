use super::*;
use std::collections::HashSet;

#[test]
fn a_value_is_found_under_its_name() {
    let live = LiveCounters::default();
    live.count_message(TrafficClass::Net, Level::Network, 70);
    live.count_message(TrafficClass::Net, Level::Network, 7);
    live.add(Counter::LateWaitTime, 5);
    live.count(Counter::Parks);
    live.window(Some(0)).count_operation(AccessClass::Rma, 10);
    live.window(None).count_operation(AccessClass::Rma, 20);
    live.count_wait(WaitReason::QueueFull);
    live.add_wait_time(WaitReason::QueueFull, 9);
    live.count_algorithm(1);
    let counters = live.snapshot();
    let element = |name: &str, at: usize| {
        let counter = ALL.iter().find(|c| c.name == name).expect(name);
        counters.values()[counter.first + at]
    };
    let value = |name: &str| element(name, 0);
    assert_eq!(value("wait_queue_full_count"), 1);
    assert_eq!(value("wait_queue_full_time"), 9);
    assert_eq!(counters.waits(WaitReason::QueueFull), (1, 9));
    assert_eq!(value("collective_binomial_calls"), 1);
    assert_eq!(element("level_network_messages", 0), 1);
    assert_eq!(element("level_network_bytes", 1), 70);
    assert_eq!(counters.by_size(Level::Network, 1), (1, 70));
    assert_eq!(counters.by_level(Level::Network), (2, 77));
    assert_eq!(value("sent_net_messages"), 2);
    assert_eq!(value("sent_net_bytes"), 77);
    assert_eq!(value("window_rma_operations"), 2);
    assert_eq!(value("window_rma_bytes"), 30);
    assert_eq!(counters.operations(AccessClass::Rma), (2, 30));
    assert_eq!(value("late_wait_time"), 5);
    assert_eq!(value("parks"), 1);
    assert_eq!(counters.values().iter().sum::<u64>(), 117 + 79 + 11);
    assert_eq!(counters.messages(TrafficClass::Net), 2);
    assert_eq!(counters.bytes(TrafficClass::Net), 77);
    assert_eq!(counters.get(Counter::Parks), 1);
}

#[test]
fn a_sum_that_is_kept_elsewhere_is_set_and_not_added_again() {
    let live = LiveCounters::default();
    live.set(Counter::LateCalls, 4);
    live.set(Counter::LateCalls, 7);
    live.raise(Counter::UnexpectedQueueLongest, 5);
    live.raise(Counter::UnexpectedQueueLongest, 3);
    let mut counters = live.snapshot();
    assert_eq!(counters.get(Counter::LateCalls), 7);
    counters.merge(&counters.clone());
    assert_eq!(counters.get(Counter::LateCalls), 14);
    let longest = counters.get(Counter::UnexpectedQueueLongest);
    assert_eq!(longest, 5, "the larger of two ranks, not their sum");
}

#[test]
fn inline_messages_and_collectives_are_found_under_their_path() {
    let live = LiveCounters::default();
    live.count_inline(Level::SharedCache, 8);
    live.count_inline(Level::Node, 40);
    live.count_collective(TrafficClass::Mapped, 100);
    live.count_message(TrafficClass::Mapped, Level::Package, 5000);
    let counters = live.snapshot();
    assert_eq!(counters.messages(TrafficClass::Inline), 2);
    assert_eq!(counters.bytes(TrafficClass::Inline), 48);
    assert_eq!(counters.by_size(Level::Node, 0), (1, 40));
    assert_eq!(counters.messages(TrafficClass::Mapped), 2);
    assert_eq!(counters.bytes(TrafficClass::Mapped), 5100);
    assert_eq!(counters.by_level(Level::Package), (1, 5000));
}

#[test]
fn size_classes_are_intervals_that_grow_by_four() {
    for (bytes, class) in [(0, 0), (1, 0), (64, 0), (65, 1), (256, 1), (257, 2), (4096, 3)] {
        assert_eq!(size_class(bytes), class, "{bytes} B");
    }
    assert_eq!(size_class(4 << 20), 8);
    assert_eq!(size_class((4 << 20) + 1), 9);
    assert_eq!(size_class(usize::MAX), 9);
    for class in 0..SIZE_CLASSES - 1 {
        let max = size_class_max(class).expect("all but the last have one");
        assert_eq!((size_class(max), size_class(max + 1)), (class, class + 1));
    }
    assert_eq!(size_class_max(SIZE_CLASSES - 1), None);
}

#[test]
fn names_are_unique_and_descriptions_are_sentences() {
    let names: HashSet<&str> = ALL.iter().map(|c| c.name).collect();
    assert_eq!(names.len(), ALL.len());
    for counter in &ALL {
        let text = counter.description;
        assert!(text.starts_with(char::is_uppercase) && text.ends_with('.'), "{text}");
    }
}

/// `docs/counters.md` has a line for each counter; `MICA_RENEW=1 cargo test -p mica-node
/// counters` writes it.
#[test]
fn the_documentation_lists_every_counter() {
    let mut text = String::from(
        "# Counters\n\nEvery rank counts these from `MPI_Init` on, in the job segment, where other \
         processes of the job read them live.\n\
         They are MPI_T's performance variables ([tools.md](tools.md)), by the names `mica_NAME`; \
         `MICA_STATS=table` prints the\n\
         sums over all ranks when the job ends. A counter by size class has one \
         value for each class of message sizes: up to\n\
         64 B, then up to 4 times as much each, up to 4 MiB, and all above.\n\
         Generated from `crates/node/src/counters/mod.rs`.\n\n\
         | name | class | values | what is counted |\n|---|---|---|---|\n",
    );
    for counter in &ALL {
        let class = counter.class.name();
        text += &format!(
            "| `{}` | {class} | {} | {} |\n",
            counter.name, counter.elements, counter.description
        );
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
    if std::env::var_os("MICA_RENEW").is_some() {
        std::fs::write(path, &text).expect("docs/counters.md is written");
    }
    let page = std::fs::read_to_string(path).expect("docs/counters.md is there");
    assert_eq!(page, text, "renew it: MICA_RENEW=1 cargo test -p mica-node counters");
}

#[test]
fn a_freed_window_leaves_its_counts_with_the_rank() {
    let live = LiveCounters::default();
    let window = live.window(Some(3));
    window.count_operation(AccessClass::Kernel, 100);
    window.count_lock();
    window.count_lock();
    window.count_lock_wait();
    live.window(Some(4)).count_operation(AccessClass::Kernel, 1);
    let before = live.snapshot();
    assert_eq!(before.operations(AccessClass::Kernel), (2, 101));
    assert_eq!(before.get(Counter::WindowLocks), 2);
    assert_eq!(before.get(Counter::WindowLockWaits), 1);
    assert_eq!(window.counts().operations[AccessClass::Kernel as usize], (1, 100));
    live.retire_window(3);
    assert_eq!(window.counts(), WindowCounts::default());
    assert_eq!(live.snapshot(), before);
}
