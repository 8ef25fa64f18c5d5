//! Text in charts and pages: escaping, and numbers that are short and still honest.

/// Escapes text for XML and HTML, in elements and in attributes between double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON for a `<script>` element: no byte of it can end the element or begin a comment, and it is
/// still the same JSON, since `<`, `>` and `&` occur in strings alone.
pub fn script_json(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Three significant digits, without an exponent: `0.0747`, `8.72`, `16000`.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = |value: f64| 2 - value.abs().log10().floor() as i32;
    let unit = 10f64.powi(digits(value));
    let rounded = (value * unit).round() / unit;
    // Rounding may have added a digit: 99.96 is 100, not 100.0.
    let digits = digits(rounded);
    format!("{rounded:.*}", digits.clamp(0, 12) as usize)
}

/// `20 k`, `0.5`, `3 M`.
pub fn short(value: f64) -> String {
    for (unit, factor) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if value >= factor * 0.9999 {
            return format!("{} {unit}", trimmed(value / factor));
        }
    }
    trimmed(value)
}

/// Three digits, without zeros after the point.
pub fn trimmed(value: f64) -> String {
    let text = three_digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `64 KiB`: only exact multiples are shortened, so that a size is never rounded.
pub fn size(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >> shift > 0 && bytes & ((1 << shift) - 1) == 0 {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// `1.46 MiB`: three digits, for volumes whose single bytes do not matter.
pub fn volume(bytes: f64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        let factor = (1u64 << shift) as f64;
        if bytes >= factor * 0.9995 {
            return format!("{} {unit}", trimmed(bytes / factor));
        }
    }
    format!("{} B", trimmed(bytes))
}

/// `1.5 ms`: three digits of a time in seconds.
pub fn time(seconds: f64) -> String {
    for (unit, factor) in [("s", 1.0), ("ms", 1e-3), ("us", 1e-6)] {
        if seconds.abs() >= factor * 0.9995 {
            return format!("{} {unit}", trimmed(seconds / factor));
        }
    }
    format!("{} ns", trimmed(seconds / 1e-9))
}

/// `12.3 %` of a share between 0 and 1.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p < 0.1 => "< 0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

/// `1 234 567`, with thin spaces.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.07467, "0.0747"),
            (8.7249, "8.72"),
            (15_987.0, "16000"),
            (99.96, "100"),
            (0.0, "0"),
            (-1.2345, "-1.23"),
        ] {
            assert_eq!(three_digits(value), text);
        }
        assert_eq!((short(20_000.0).as_str(), short(0.5).as_str()), ("20 k", "0.5"));
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((count(0), count(999)), ("0".into(), "999".into()));
        assert_eq!((time(0.0015), time(3e-8)), ("1.5 ms".into(), "30 ns".into()));
        assert_eq!((time(0.0), time(61.0)), ("0 ns".into(), "61 s".into()));
        assert_eq!(volume(1_536_000.0), "1.46 MiB");
        assert_eq!((percent(0.0), percent(0.0002)), ("0 %".into(), "< 0.1 %".into()));
    }

    #[test]
    fn sizes_are_exact() {
        for (bytes, text) in [(0, "0 B"), (1536, "1536 B"), (65536, "64 KiB"), (1 << 20, "1 MiB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn embedded_json_cannot_end_its_element() {
        let text = "</script><!-- & \u{2028} \"";
        let json = script_json(&serde_json::to_string(text).unwrap());
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
