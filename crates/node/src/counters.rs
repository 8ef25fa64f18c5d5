//! Counters, each declared once. The declaration feeds the values that a rank leaves in the job
//! segment, the launcher's table (`MICA_STATS=table`), `docs/counters.md` and, later, MPI_T
//! performance variables and a live view.
//!
//! A rank counts in private memory ([`Counters`]), which costs one addition, and publishes all
//! values at once in its block of the segment ([`RankBlock::publish_counters`]): when it ends, and
//! when it answers the launcher's question what it waits for. A reader in another process may see
//! values of two publications side by side, each of them whole.
//!
//! [`RankBlock::publish_counters`]: crate::segment::RankBlock::publish_counters

/// What a counter's value stands for: the classes of MPI_T that the library has (MPI 5.0, 15.3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterClass {
    /// Occurrences since the start (`MPI_T_PVAR_CLASS_COUNTER`).
    Count,
    /// A sum of amounts, such as bytes, since the start (`MPI_T_PVAR_CLASS_AGGREGATE`).
    Sum,
    /// A sum of nanoseconds since the start (`MPI_T_PVAR_CLASS_TIMER`).
    Nanoseconds,
}

/// The declaration of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterDeclaration {
    /// Short name.
    pub name: &'static str,
    /// What its value stands for.
    pub class: CounterClass,
    /// One sentence for users.
    pub description: &'static str,
}

macro_rules! counters {
    (
        traffic { $($path:ident: $path_name:literal, $meaning:literal;)* }
        access { $($access:ident: $access_name:literal, $access_meaning:literal;)* }
        $($counter:ident: $name:literal, $class:ident, $description:literal;)*
    ) => {
        /// The path that a message took, as its sender counts it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum TrafficClass {
            $(#[doc = concat!("Name: `", $path_name, "`. ", $meaning, ".")] $path,)*
        }

        impl TrafficClass {
            /// All of them, in order.
            pub const ALL: [TrafficClass; TRAFFIC_CLASSES] = [$(TrafficClass::$path),*];

            /// Short name.
            pub const fn name(self) -> &'static str {
                [$($path_name),*][self as usize]
            }

            /// What happens on this path, for users.
            pub const fn meaning(self) -> &'static str {
                [$($meaning),*][self as usize]
            }
        }

        /// Number of [`TrafficClass`]es.
        pub const TRAFFIC_CLASSES: usize = [$($path_name),*].len();

        /// How a one-sided operation reached its target's memory, as its origin counts it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum AccessClass {
            $(#[doc = concat!("Name: `", $access_name, "`. ", $access_meaning, ".")] $access,)*
        }

        impl AccessClass {
            /// All of them, in order.
            pub const ALL: [AccessClass; ACCESS_CLASSES] = [$(AccessClass::$access),*];

            /// Short name.
            pub const fn name(self) -> &'static str {
                [$($access_name),*][self as usize]
            }

            /// What happens, for users.
            pub const fn meaning(self) -> &'static str {
                [$($access_meaning),*][self as usize]
            }
        }

        /// Number of [`AccessClass`]es.
        pub const ACCESS_CLASSES: usize = [$($access_name),*].len();

        /// The counters other than those of messages, operations and bytes by path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $description] $counter,)*
        }

        /// Number of counters.
        pub const COUNTERS: usize = FIRST_SINGLE + [$($name),*].len();

        /// Every counter, in the order of the values.
        pub const ALL: [CounterDeclaration; COUNTERS] = [
            $(CounterDeclaration {
                name: concat!("sent_", $path_name, "_messages"),
                class: CounterClass::Count,
                description: concat!("Messages sent by this path: ", $meaning, "."),
            },
            CounterDeclaration {
                name: concat!("sent_", $path_name, "_bytes"),
                class: CounterClass::Sum,
                description: concat!("Bytes of the messages that `sent_", $path_name, "_messages` \
                    counts."),
            },)*
            $(CounterDeclaration {
                name: concat!("window_", $access_name, "_operations"),
                class: CounterClass::Count,
                description: concat!("One-sided operations of this rank ", $access_meaning, "."),
            },
            CounterDeclaration {
                name: concat!("window_", $access_name, "_bytes"),
                class: CounterClass::Sum,
                description: concat!("Bytes of the operations that `window_", $access_name, "_operations` counts."),
            },)*
            $(CounterDeclaration {
                name: $name,
                class: CounterClass::$class,
                description: $description,
            },)*
        ];
    };
}

counters! {
    traffic {
        Own: "own", "to the rank itself";
        Inline: "inline", "shared memory, in the ring's slot";
        Ring: "ring", "shared memory, in the ring's arena";
        Cells: "cells", "shared memory, through cells";
        Direct: "direct", "single copy by the kernel";
        Mapped: "mapped", "single copy in memory that both ranks map";
        Net: "net", "over the network";
        Area: "area", "collectives, through a communicator's area";
    }
    access {
        Memory: "memory", "by loads and stores";
        Kernel: "kernel", "by copies of the kernel";
        Rma: "rma", "by RMA of the network";
        Requests: "requests", "by messages that the target carries out";
    }
    WindowLocks: "window_locks", Count,
        "Locks of windows that this rank has asked for.";
    WindowLockWaits: "window_lock_waits", Count,
        "Times that this rank waited for a lock of a window.";
    UnexpectedMessages: "unexpected_messages", Count,
        "Messages that arrived before a receive for them was posted.";
    HeldSenders: "held_senders", Count,
        "Times that this rank asked a sender to hold its messages back, because too many waited.";
    SkewedSenders: "skewed_senders", Count,
        "Times that this rank notified a sender that it lags behind.";
    Parks: "parks", Count,
        "Times that a thread of this rank slept in a call of MPI.";
    ForeignArrivals: "foreign_arrivals", Count,
        "Arrivals from the network that were dropped because no rank of this job sent them.";
    MalformedArrivals: "malformed_arrivals", Count,
        "Arrivals from the network that were dropped because of their length, sender or number.";
    FailedArrivals: "failed_arrivals", Count,
        "Arrivals from the network that the provider completed with an error.";
    LateCalls: "late_calls", Count,
        "Collective calls observed for late arrivals (`MICA_LATE`); known when the rank ends, as \
         the next two.";
    LateWaits: "late_waits", Count,
        "Those of them in which another rank arrived after this one.";
    LateWaitTime: "late_wait_time", Nanoseconds,
        "From this rank's arrival to that of the last rank, summed over those calls.";
}

/// Where the values begin that stand for one number alone.
const FIRST_SINGLE: usize = 2 * (TRAFFIC_CLASSES + ACCESS_CLASSES);

/// The values of all counters of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// In the order of [`ALL`]: messages and bytes of each path, operations and bytes of each kind of
    /// access, then the [`Counter`]s.
    values: [u64; COUNTERS],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new([0; COUNTERS])
    }
}

impl Counters {
    /// Counters with these values, in the order of [`ALL`].
    pub const fn new(values: [u64; COUNTERS]) -> Counters {
        Counters { values }
    }

    /// Counts a message of `bytes` bytes.
    #[inline(always)]
    pub const fn count_message(&mut self, path: TrafficClass, bytes: usize) {
        self.add_messages(path, 1, bytes as u64);
    }

    /// Counts `messages` messages of `bytes` bytes in total.
    #[inline(always)]
    pub const fn add_messages(&mut self, path: TrafficClass, messages: u64, bytes: u64) {
        self.values[2 * path as usize] += messages;
        self.values[2 * path as usize + 1] += bytes;
    }

    /// Counts one occurrence.
    #[inline(always)]
    pub const fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `amount` to a counter.
    #[inline(always)]
    pub const fn add(&mut self, counter: Counter, amount: u64) {
        self.values[FIRST_SINGLE + counter as usize] += amount;
    }

    /// Sets a counter whose sum is kept elsewhere.
    #[inline(always)]
    pub const fn set(&mut self, counter: Counter, value: u64) {
        self.values[FIRST_SINGLE + counter as usize] = value;
    }

    /// Adds the values of another rank.
    pub fn merge(&mut self, other: &Counters) {
        for (sum, value) in self.values.iter_mut().zip(other.values) {
            *sum += value;
        }
    }

    /// Counts `operations` one-sided operations on `bytes` bytes in total.
    #[inline(always)]
    pub const fn add_operations(&mut self, access: AccessClass, operations: u64, bytes: u64) {
        let at = 2 * (TRAFFIC_CLASSES + access as usize);
        self.values[at] += operations;
        self.values[at + 1] += bytes;
    }

    /// One-sided operations of one kind, and their bytes.
    pub const fn operations(&self, access: AccessClass) -> (u64, u64) {
        let at = 2 * (TRAFFIC_CLASSES + access as usize);
        (self.values[at], self.values[at + 1])
    }

    /// Messages sent by a path.
    pub const fn messages(&self, path: TrafficClass) -> u64 {
        self.values[2 * path as usize]
    }

    /// Bytes sent by a path.
    pub const fn bytes(&self, path: TrafficClass) -> u64 {
        self.values[2 * path as usize + 1]
    }

    /// The value of a counter.
    pub const fn get(&self, counter: Counter) -> u64 {
        self.values[FIRST_SINGLE + counter as usize]
    }

    /// All values, in the order of [`ALL`].
    pub const fn values(&self) -> &[u64; COUNTERS] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_value_is_found_under_its_name() {
        let mut counters = Counters::default();
        counters.count_message(TrafficClass::Net, 70);
        counters.count_message(TrafficClass::Net, 7);
        counters.add(Counter::LateWaitTime, 5);
        counters.count(Counter::Parks);
        counters.add_operations(AccessClass::Rma, 2, 30);
        let value = |name: &str| {
            let index = ALL.iter().position(|c| c.name == name).expect(name);
            counters.values()[index]
        };
        assert_eq!(value("sent_net_messages"), 2);
        assert_eq!(value("sent_net_bytes"), 77);
        assert_eq!(value("window_rma_operations"), 2);
        assert_eq!(value("window_rma_bytes"), 30);
        assert_eq!(counters.operations(AccessClass::Rma), (2, 30));
        assert_eq!(value("late_wait_time"), 5);
        assert_eq!(value("parks"), 1);
        assert_eq!(counters.values().iter().sum::<u64>(), 117);
        assert_eq!(counters.messages(TrafficClass::Net), 2);
        assert_eq!(counters.bytes(TrafficClass::Net), 77);
        assert_eq!(counters.get(Counter::Parks), 1);
    }

    #[test]
    fn a_sum_that_is_kept_elsewhere_is_set_and_not_added_again() {
        let mut counters = Counters::default();
        counters.set(Counter::LateCalls, 4);
        counters.set(Counter::LateCalls, 7);
        assert_eq!(counters.get(Counter::LateCalls), 7);
        counters.merge(&counters.clone());
        assert_eq!(counters.get(Counter::LateCalls), 14);
    }

    #[test]
    fn names_are_unique_and_descriptions_are_sentences() {
        let names: HashSet<&str> = ALL.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), COUNTERS);
        for counter in &ALL {
            let text = counter.description;
            assert!(
                text.starts_with(char::is_uppercase) && text.ends_with('.'),
                "{text}"
            );
        }
    }

    /// `docs/counters.md` has a line for each counter; `MICA_RENEW=1 cargo test -p mica-node
    /// counters` writes it.
    #[test]
    fn the_documentation_lists_every_counter() {
        let mut text = String::from(
            "# Counters\n\nEvery rank counts these from `MPI_Init` on. `MICA_STATS=table` prints the sums of messages and bytes\n\
             by path when the job ends, and of one-sided operations if there were any. Generated from `crates/node/src/counters.rs`.\n\n\
             | name | class | what is counted |\n|---|---|---|\n",
        );
        for counter in &ALL {
            let class = match counter.class {
                CounterClass::Count => "count",
                CounterClass::Sum => "sum",
                CounterClass::Nanoseconds => "nanoseconds",
            };
            text += &format!(
                "| `{}` | {class} | {} |\n",
                counter.name, counter.description
            );
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        if std::env::var_os("MICA_RENEW").is_some() {
            std::fs::write(path, &text).expect("docs/counters.md is written");
        }
        let page = std::fs::read_to_string(path).expect("docs/counters.md is there");
        assert_eq!(
            page, text,
            "renew it: MICA_RENEW=1 cargo test -p mica-node counters"
        );
    }
}
