//! The form that descriptions of chips had before they were a section of the machine's: all keys at
//! the top, bandwidths in bytes a second, latencies in seconds. Files of users still have it.

use toml::{Table, Value};

/// A key of the old form, the new one, and what its number is multiplied by.
type Renamed = (&'static str, &'static str, f64);

/// Bytes a second in GB/s.
const GB_S: f64 = 1e-9;
/// Seconds in nanoseconds.
const NS: f64 = 1e9;

const CHIPS: [Renamed; 5] = [
    ("sockets", "count", 1.0),
    ("cores_per_socket", "cores", 1.0),
    ("core_bandwidth", "core_gb_s", GB_S),
    ("memory_bandwidth", "memory_gb_s", GB_S),
    ("local_latency", "local_latency_ns", NS),
];
const LINK: [Renamed; 2] = [("bandwidth", "gb_s", GB_S), ("latency", "latency_ns", NS)];

/// The description in today's form; unchanged unless it is in the old one.
pub(super) fn renewed(mut old: Table) -> Table {
    if !old.contains_key("sockets") {
        return old;
    }
    let mut new = Table::new();
    for (key, today) in [("name", "description"), ("source", "source")] {
        if let Some(value) = old.remove(key) {
            new.insert(today.to_owned(), value);
        }
    }
    if let Some(Value::Array(links)) = old.get_mut("link") {
        for link in links.iter_mut().filter_map(Value::as_table_mut) {
            *link = renamed(std::mem::take(link), &LINK);
        }
    }
    new.insert("chips".to_owned(), Value::Table(renamed(old, &CHIPS)));
    new
}

/// A table with other names for keys that have them; others stay, also unknown ones.
fn renamed(old: Table, keys: &[Renamed]) -> Table {
    let rename = |(key, value): (String, Value)| match keys.iter().find(|(was, ..)| *was == key) {
        Some((_, today, factor)) => ((*today).to_owned(), scaled(value, *factor)),
        None => (key, value),
    };
    old.into_iter().map(rename).collect()
}

fn scaled(value: Value, factor: f64) -> Value {
    match value {
        Value::Integer(number) if factor != 1.0 => Value::Float(decimal(number as f64 * factor)),
        Value::Float(number) => Value::Float(decimal(number * factor)),
        other => other,
    }
}

/// A number as a person would write it: 45 and not 45.00000000000001.
fn decimal(number: f64) -> f64 {
    format!("{number:.12e}").parse().unwrap_or(number)
}
