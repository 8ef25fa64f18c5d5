//! Messages by size, and the two-dimensional message distribution of chai-2009 (2.2.2).
//!
//! With `n` messages, `m` of them in a size class and `m_l` of these over level `l`, the bar of `l`
//! in the class is `m_l / m`, and the point is `m / n` (Figures 2.2 to 2.4); the same for bytes.
//! The groups at the right have all sizes together and the even distribution, in which each rank
//! sends as much to each other one.

use std::collections::BTreeMap;

use mica_profile::PairLevel;
use mica_profile::summary::{Amount, distribution, even_distribution};

use super::section::{Section, column, figure, pair};
use super::view::{ProfileView, class_label, class_range, level_colour};
use crate::draw::bars::{ChartBar, GroupedBars, Series, StackedBars, legend};
use crate::draw::colour;
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::scale::TickUnit;
use crate::draw::text::{count, percent, short, volume};

const AXIS: &str = "size class (bytes, from here to below twice as much)";
/// Half of the page's width.
const WIDTH: f64 = 520.0;
/// The whole, where there are more than [`FEW`] groups of bars.
const WIDE: f64 = 1080.0;
const FEW: usize = 8;

/// What a chart counts.
#[derive(Clone, Copy)]
enum Quantity {
    Messages,
    Bytes,
}

impl Quantity {
    fn of(self, amount: &Amount) -> u64 {
        match self {
            Quantity::Messages => amount.messages,
            Quantity::Bytes => amount.bytes,
        }
    }

    fn text(self, value: u64) -> String {
        match self {
            Quantity::Messages => count(value),
            Quantity::Bytes => volume(value as f64),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Quantity::Messages => "Number of messages",
            Quantity::Bytes => "Data volume",
        }
    }
}

/// Point-to-point messages and collective calls by size class.
pub fn by_size(view: &ProfileView) -> Section {
    let mut classes: BTreeMap<u8, [Amount; 2]> = BTreeMap::new();
    for size in &view.profile.sizes {
        let amount = &mut classes.entry(size.class).or_default()[usize::from(size.level.is_none())];
        amount.messages += size.messages;
        amount.bytes += size.bytes;
    }
    fill(&mut classes);
    let series = [("messages", 0), ("collective calls", 1)]
        .map(|(name, hue)| Series { name: name.into(), colour: colour::hue(hue) });
    let chart = |quantity: Quantity| {
        let bar = |(class, amounts): (&u8, &[Amount; 2])| ChartBar {
            label: class_label(*class),
            values: amounts.iter().map(|amount| quantity.of(amount) as f64).collect(),
            tip: format!(
                "{}\nmessages: {}\ncollective calls: {}",
                class_range(*class),
                quantity.text(quantity.of(&amounts[0])),
                quantity.text(quantity.of(&amounts[1]))
            ),
        };
        let bars: Vec<ChartBar> = classes.iter().map(bar).collect();
        size_chart(quantity, &series, &bars)
    };
    let charts = pair(
        (Quantity::Messages.title(), &chart(Quantity::Messages)),
        (Quantity::Bytes.title(), &chart(Quantity::Bytes)),
    );
    Section {
        id: "sizes",
        title: "Message sizes",
        question: "Are there many small messages or a few large ones? Small ones cost latency, \
                   large ones bandwidth. Collective calls count once for each rank, with what it \
                   gave.",
        body: match classes.is_empty() {
            true => "<p class=\"none\">Nothing was sent.</p>".into(),
            false => figure(&(legend(&series) + &charts), None, &size_table(&classes)),
        },
    }
}

fn size_chart(quantity: Quantity, series: &[Series], bars: &[ChartBar]) -> String {
    let chart = StackedBars {
        name: quantity.title(),
        series,
        bars,
        value_label: &|value| match quantity {
            Quantity::Messages => short(value),
            Quantity::Bytes => volume(value),
        },
        ticks: match quantity {
            Quantity::Messages => TickUnit::Decimal,
            Quantity::Bytes => TickUnit::Bytes,
        },
        axis: AXIS,
        width: WIDTH,
    };
    chart.columns()
}

/// Adds the classes between those that occur, so that the axis has no gaps.
fn fill<T: Default>(classes: &mut BTreeMap<u8, T>) {
    let ends = (classes.keys().next().copied(), classes.keys().last().copied());
    if let (Some(first), Some(last)) = ends {
        for class in first..=last {
            classes.entry(class).or_default();
        }
    }
}

/// A row of a table: its label, sorted by `place`, then messages and bytes of each amount.
fn amount_cells(label: String, place: f64, amounts: &[Amount]) -> Vec<Cell> {
    let mut cells = vec![Cell::number(place, label)];
    for amount in amounts {
        let bytes = amount.bytes as f64;
        cells.push(Cell::number(amount.messages as f64, count(amount.messages)));
        cells.push(Cell::number(bytes, volume(bytes)));
    }
    cells
}

fn size_table(classes: &BTreeMap<u8, [Amount; 2]>) -> String {
    let row = |(class, amounts): (&u8, &[Amount; 2])| {
        amount_cells(class_range(*class), f64::from(*class), amounts)
    };
    DataTable {
        caption: "Messages by size",
        header: columns("size | messages | their bytes | collective calls | their bytes"),
        rows: classes.iter().map(row).collect(),
    }
    .html()
}

/// The message distribution in two dimensions.
pub fn two_dimensional(view: &ProfileView) -> Section {
    let amounts = distribution(view.profile);
    let even = even_distribution(&view.profile.ranks);
    let occurs = |level: &PairLevel| {
        even.contains_key(level) || amounts.keys().any(|(_, other)| other == level)
    };
    let levels: Vec<PairLevel> = PairLevel::ALL.into_iter().filter(occurs).collect();
    let mut classes: BTreeMap<u8, Vec<Amount>> = BTreeMap::new();
    for (class, _) in amounts.keys() {
        let of = |level: &PairLevel| amounts.get(&(*class, *level)).copied().unwrap_or_default();
        classes.insert(*class, levels.iter().map(of).collect());
    }
    let table = RankDistribution { levels, classes, even };
    Section {
        id: "distribution",
        title: "Message distribution",
        question: "How near are the ranks that exchange messages of each size? A bar is a level's \
                   share within its size class, a diamond the share of the class in all messages. \
                   \u{201c}All\u{201d} has every size; \u{201c}even\u{201d} is what it would be if \
                   each rank sent as much to each other rank.",
        body: table.html(),
    }
}

struct RankDistribution {
    levels: Vec<PairLevel>,
    /// An amount for each level.
    classes: BTreeMap<u8, Vec<Amount>>,
    even: BTreeMap<PairLevel, f64>,
}

impl RankDistribution {
    fn html(&self) -> String {
        if self.classes.is_empty() {
            return "<p class=\"none\">No rank sent a message to another.</p>".into();
        }
        let series = self
            .levels
            .iter()
            .map(|level| Series { name: level.name().into(), colour: level_colour(*level) });
        let series: Vec<Series> = series.collect();
        let charts = [Quantity::Messages, Quantity::Bytes].map(|q| self.chart(q, &series));
        let messages = (Quantity::Messages.title(), charts[0].as_str());
        let bytes = (Quantity::Bytes.title(), charts[1].as_str());
        let arrange = if self.classes.len() > FEW { column } else { pair };
        let charts = arrange(messages, bytes);
        let mut names = legend(&series);
        names = names.replace("</ul>", "<li><i class=\"diamond\"></i>class in all</li></ul>");
        figure(&(names + &charts), None, &self.table())
    }

    fn values(&self, amounts: &[Amount], quantity: Quantity) -> (Vec<u64>, u64) {
        let values: Vec<u64> = amounts.iter().map(|amount| quantity.of(amount)).collect();
        let sum = values.iter().sum();
        (values, sum)
    }

    fn chart(&self, quantity: Quantity, series: &[Series]) -> String {
        let group = |label: String, title: &str, amounts: &[Amount]| {
            let (values, sum) = self.values(amounts, quantity);
            let shares: Vec<f64> =
                values.iter().map(|value| super::facts::share(*value, sum)).collect();
            let mut tip = title.to_owned();
            for ((level, value), share) in self.levels.iter().zip(&values).zip(&shares) {
                let (value, share) = (quantity.text(*value), percent(*share));
                tip += &format!("\n{}: {share} ({value})", level.name());
            }
            ChartBar { label, values: shares, tip }
        };
        let total = self.total();
        let all = self.values(&total, quantity).1;
        let mut groups = Vec::new();
        let mut points = Vec::new();
        for (class, amounts) in &self.classes {
            let point = super::facts::share(self.values(amounts, quantity).1, all);
            let mut bar = group(class_label(*class), &class_range(*class), amounts);
            bar.tip += &format!("\nclass in all: {}", percent(point));
            groups.push(bar);
            points.push(point);
        }
        let even: Vec<f64> = self.levels.iter().map(|level| self.even_share(*level)).collect();
        let mut tip = "Even distribution".to_owned();
        for (level, share) in self.levels.iter().zip(&even) {
            tip += &format!("\n{}: {}", level.name(), percent(*share));
        }
        let aside = [
            group("all".into(), "All sizes", &total),
            ChartBar { label: "even".into(), values: even, tip },
        ];
        let chart = GroupedBars {
            name: quantity.title(),
            series,
            groups: &groups,
            points: &points,
            aside: &aside,
            axis: AXIS,
            width: if groups.len() > FEW { WIDE } else { WIDTH },
        };
        chart.svg()
    }

    fn even_share(&self, level: PairLevel) -> f64 {
        self.even.get(&level).copied().unwrap_or(0.0)
    }

    fn total(&self) -> Vec<Amount> {
        let mut total = vec![Amount::default(); self.levels.len()];
        for amounts in self.classes.values() {
            for (sum, amount) in total.iter_mut().zip(amounts) {
                sum.messages += amount.messages;
                sum.bytes += amount.bytes;
            }
        }
        total
    }

    fn table(&self) -> String {
        let mut header: Vec<String> = vec!["size".into()];
        for level in &self.levels {
            header.push(format!("{}: messages", level.name()));
            header.push(format!("{}: bytes", level.name()));
        }
        let classes = self.classes.iter();
        let mut rows: Vec<Vec<Cell>> = classes
            .map(|(class, amounts)| amount_cells(class_range(*class), f64::from(*class), amounts))
            .collect();
        rows.push(amount_cells("all sizes".into(), 1000.0, &self.total()));
        let mut even = vec![Cell::number(1001.0, "even distribution")];
        for level in &self.levels {
            let share = self.even_share(*level);
            even.extend([(); 2].map(|()| Cell::number(share, percent(share))));
        }
        rows.push(even);
        DataTable { caption: "Message distribution", header, rows }.html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_profile::Profile;

    /// The example's ring: 100 messages in a shared cache, 100 in a node, 200 over the network.
    #[test]
    fn bars_are_shares_within_a_class() {
        let profile = Profile::example();
        let html = two_dimensional(&ProfileView::new(&profile)).body;
        for part in [
            "16 KiB to below 32 KiB&#10;shared cache: 25.0 % (100)&#10;node: 25.0 % (100)",
            "network: 50.0 % (200)&#10;class in all: 100.0 %",
            "Even distribution&#10;shared cache: 16.7 %&#10;node: 16.7 %&#10;network: 66.7 %",
        ] {
            let part = part.replace("&#10;", "\n");
            assert!(html.contains(&part), "{part}\n{html}");
        }
    }
}
