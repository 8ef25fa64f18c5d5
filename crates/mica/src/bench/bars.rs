//! Judges whether Mica reaches its bars.

use serde::Serialize;

use super::contestant::variant_name;
use super::data::{FigureKey, KeyValue};
use super::results::{ResultRow, quotient};
use super::suite::{Bar, MICA, Than};
use crate::draw::text::{size, three_digits};

/// A bar at one size, judged.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Judged {
    pub text: String,
    pub place: String,
    pub unit: String,
    /// Mica's median.
    pub value: Option<f64>,
    /// The value it is compared with; `against` is its name.
    pub reference: Option<f64>,
    pub against: String,
    pub ratio: Option<f64>,
    pub limit: String,
    /// `None` if it cannot be judged.
    pub pass: Option<bool>,
    /// Why it cannot be judged, or why what the hardware allows misses it as well.
    pub note: String,
}

/// Judges these bars; each size is a row.
pub fn judge(bars: &[&Bar], rows: &[ResultRow]) -> Vec<Judged> {
    let mut judged = Vec::new();
    for &bar in bars {
        let sizes: Vec<Option<u64>> = match bar.bytes.is_empty() {
            true => vec![None],
            false => bar.bytes.iter().copied().map(Some).collect(),
        };
        judged.extend(sizes.into_iter().map(|bytes| one(bar, bytes, rows)));
    }
    judged
}

/// Selects the figures that a bar means: `None` matches anything.
struct FigureFilter<'a> {
    program: &'a str,
    measure: &'a str,
    bytes: Option<u64>,
    ranks: Option<u32>,
    at: &'a std::collections::BTreeMap<String, toml::Value>,
}

impl FigureFilter<'_> {
    /// The only row that matches.
    fn find<'r>(&self, rows: &'r [ResultRow]) -> Result<&'r ResultRow, String> {
        let fits = |key: &FigureKey| {
            key.program == self.program
                && key.measure == self.measure
                && self.bytes.is_none_or(|bytes| bytes == key.bytes)
                && self.ranks.is_none_or(|ranks| ranks == key.ranks)
                && self
                    .at
                    .iter()
                    .all(|(name, value)| key.at(name) == Some(&KeyValue::of_bar(value)))
        };
        let found: Vec<&ResultRow> = rows.iter().filter(|row| fits(&row.key)).collect();
        match found[..] {
            [row] => Ok(row),
            [] => Err("not measured".to_owned()),
            _ => Err(format!("the bar fits {} figures: it has to say which", found.len())),
        }
    }
}

fn one(bar: &Bar, bytes: Option<u64>, rows: &[ResultRow]) -> Judged {
    let limit = match (bar.at_most, bar.at_least) {
        (Some(most), _) => format!("at most {}", three_digits(most)),
        (_, least) => format!("at least {}", three_digits(least.unwrap_or_default())),
    };
    let mut judged = Judged {
        text: bar.text.clone(),
        place: bytes.map(size).unwrap_or_default(),
        against: bar.against.clone(),
        limit,
        ..Judged::default()
    };
    let wanted = FigureFilter {
        program: &bar.program,
        measure: &bar.measure,
        bytes,
        ranks: bar.ranks,
        at: &bar.at,
    };
    if let Err(note) = fill(&mut judged, bar, &wanted, rows) {
        judged.note = note;
    }
    judged
}

fn fill(
    judged: &mut Judged,
    bar: &Bar,
    wanted: &FigureFilter<'_>,
    rows: &[ResultRow],
) -> Result<(), String> {
    let row = wanted.find(rows)?;
    judged.place = row.place();
    judged.unit = row.unit.clone();
    let who = bar.variant.as_deref().map_or(MICA.to_owned(), variant_name);
    let median = |row: &ResultRow, name: &str| row.contestants.get(name).map(|stats| stats.median);
    judged.value = median(row, &who);
    if judged.value.is_none() {
        return Err(format!("no figure of {who}"));
    }
    match bar.against.as_str() {
        "best-peer" => {
            let peer = row.best_peer.as_deref().ok_or("no figure of a peer")?;
            judged.against = peer.to_owned();
            judged.reference = median(row, peer);
        }
        "floor" => {
            let bound = row.floor.as_ref().ok_or("no figure of the floor")?;
            judged.against = format!("floor: {}", bound.label);
            judged.reference = Some(bound.value);
        }
        "value" => {}
        "own" => {
            let than = bar.than.clone().unwrap_or_default();
            let other = other(wanted, &than).find(rows);
            let other = other.map_err(|error| format!("what it is compared with: {error}"))?;
            judged.against = format!("own {}, {}", other.key.measure, other.key.place());
            judged.reference = median(other, &who);
        }
        against => {
            let name = match against.split_once(' ') {
                Some((_, variant)) => variant_name(variant),
                None => MICA.to_owned(),
            };
            judged.reference = median(row, &name);
            judged.against = name;
        }
    }
    let compared = match bar.against.as_str() {
        "value" => judged.value,
        _ => {
            judged.ratio = quotient(judged.value, judged.reference);
            judged.ratio
        }
    };
    let compared = compared.ok_or_else(|| format!("no figure of {}", judged.against))?;
    judged.pass = Some(
        bar.at_most.is_none_or(|most| compared <= most)
            && bar.at_least.is_none_or(|least| compared >= least),
    );
    if judged.pass == Some(false)
        && bar.against == "best-peer"
        && let Some(bound) = &row.floor
        && let Some(ratio) = quotient(Some(bound.value), judged.reference)
        && bar.at_most.is_some_and(|most| most < ratio && ratio <= compared)
    {
        judged.note = format!("the floor ({}) has {}", bound.label, three_digits(ratio));
    }
    Ok(())
}

/// The figure that `own` compares with: absent fields of `than` are as in the bar.
fn other<'a>(wanted: &FigureFilter<'a>, than: &'a Than) -> FigureFilter<'a> {
    FigureFilter {
        program: than.program.as_deref().unwrap_or(wanted.program),
        measure: than.measure.as_deref().unwrap_or(wanted.measure),
        bytes: than.bytes.or(wanted.bytes),
        ranks: than.ranks.or(wanted.ranks),
        at: than.at.as_ref().unwrap_or(wanted.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::FigureTable;
    use crate::bench::results::{rows, tests as made};
    use crate::bench::run::{BenchRun, FLOOR};

    fn judged(bar: &str, runs: &[BenchRun]) -> Judged {
        let mut suite = made::suite();
        let text = format!("text = \"t\"\nprogram = \"p\"\n{bar}");
        suite.bars = vec![toml::from_str(&text).unwrap()];
        let data = FigureTable::of(runs, &suite);
        let names = ["mica", "mica+v", "x", "y"].map(str::to_owned);
        let bars: Vec<&Bar> = suite.bars.iter().collect();
        judge(&bars, &rows(&data, &suite, &names)).remove(0)
    }

    fn runs() -> Vec<BenchRun> {
        let mut runs = vec![
            made::run(0, "mica", "time", 8, 1.0, "us"),
            made::run(0, "mica+v", "time", 8, 0.8, "us"),
            made::run(0, "x", "time", 8, 2.0, "us"),
            made::run(0, "y", "time", 8, 1.6, "us"),
            made::run(0, FLOOR, "flag", 8, 0.5, "us"),
            made::run(0, "mica", "hidden", 8, 85.0, "%"),
        ];
        for (depth, value) in [(1, 1.0), (10_000, 1.4)] {
            let mut run = made::run(0, "mica", "match", 8, value, "us");
            run.figures[0].more.insert("depth".into(), depth.into());
            runs.push(run);
        }
        runs
    }

    #[test]
    fn bars_are_judged_against_what_they_name() {
        let time = "measure = \"time\"\nbytes = [8]\n";
        let depth = "measure = \"match\"\nat = { depth = 10000 }\nagainst = \"own\"\n\
            than = { at = { depth = 1 } }\n";
        let hidden = "measure = \"hidden\"\nagainst = \"value\"\n";
        let floor = "against = \"floor\"\nat_most = 1.7";
        let variant = "variant = \"v\"\nagainst = \"mica\"\nat_least = 0.9";
        for (bar, against, ratio, pass) in [
            (format!("{time}against = \"best-peer\"\nat_most = 0.65"), "y", Some(0.625), true),
            (format!("{time}against = \"best-peer\"\nat_most = 0.6"), "y", Some(0.625), false),
            (format!("{time}{floor}"), "floor: a flag", Some(2.0), false),
            (format!("{time}against = \"variant v\"\nat_most = 1.3"), "mica+v", Some(1.25), true),
            (format!("{time}{variant}"), "mica", Some(0.8), false),
            (format!("{depth}at_most = 1.5"), "own match, 8 B, depth 1, 2 ranks", Some(1.4), true),
            (format!("{hidden}at_least = 80.0"), "value", None, true),
            (format!("{hidden}at_least = 90.0"), "value", None, false),
        ] {
            let judged = judged(&bar, &runs());
            assert_eq!(judged.pass, Some(pass), "{bar}: {judged:?}");
            assert_eq!(judged.against, against, "{bar}");
            assert_eq!(judged.ratio, ratio, "{bar}");
        }
    }

    #[test]
    fn bar_below_the_floor_says_so() {
        let below = "measure = \"time\"\nbytes = [8]\nagainst = \"best-peer\"\nat_most = ";
        // The floor has 0.5 of the 1.0 that Mica takes, and 0.3125 of the best peer's 1.6.
        for (limit, note) in [("0.5", ""), ("0.3", "the floor (a flag) has 0.313"), ("0.7", "")] {
            assert_eq!(judged(&format!("{below}{limit}"), &runs()).note, note, "{limit}");
        }
    }

    #[test]
    fn bar_without_figures_is_neither_reached_nor_missed() {
        let unknown = "measure = \"none\"\nagainst = \"best-peer\"\nat_most = 1.0";
        let vague = "measure = \"match\"\nagainst = \"best-peer\"\nat_most = 1.0";
        let alone = "measure = \"hidden\"\nagainst = \"best-peer\"\nat_most = 1.0";
        for (bar, note) in
            [(unknown, "not measured"), (vague, "fits 2 figures"), (alone, "no figure of a peer")]
        {
            let judged = judged(bar, &runs());
            assert_eq!(judged.pass, None, "{bar}");
            assert!(judged.note.contains(note), "{bar}: {}", judged.note);
        }
    }
}
