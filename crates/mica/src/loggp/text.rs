//! The result as text.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table};
use mica_sim::loggp::{Estimate, GapBound, LogGpFit, Parameter};

use crate::draw::text::{size, trimmed};
use crate::terminal::table;

/// The parameters, what they rest on, and the times of each size.
pub fn render(fitted: &LogGpFit) -> String {
    let mut text = format!("{}\n\n", fitted.library);
    let mut table = table(" | value | 95 % interval | unit | what");
    for (parameter, estimate) in Parameter::ALL.into_iter().zip(&fitted.estimates) {
        table.add_row([
            parameter.symbol().to_owned(),
            trimmed(estimate.value),
            between(estimate),
            parameter.unit().to_owned(),
            meaning(parameter).to_owned(),
        ]);
    }
    let _ = writeln!(text, "{}\n", aligned(table, 2));
    for note in notes(fitted) {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(text, "\n{}", sizes(fitted));
    text
}

/// What a parameter is.
pub fn meaning(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::Latency => "latency of a short message, without overheads",
        Parameter::SendOverhead => "processor time of a send",
        Parameter::ReceiveOverhead => "processor time of a receive",
        Parameter::Gap => "least time between short messages",
        Parameter::GapPerByte => "time for each further byte",
    }
}

/// What the reader should know of the fit.
pub fn notes(fitted: &LogGpFit) -> Vec<String> {
    let mut notes = Vec::new();
    let rate = 1.0 / fitted.parameters.gap_per_byte;
    if rate.is_finite() {
        notes.push(format!("1/G is {} GB/s.", trimmed(rate)));
    }
    let counted = fitted.sizes.iter().filter(|row| row.counts).count();
    notes.push(match fitted.bound {
        GapBound::Network => format!(
            "g and G: a line through the gaps of {counted} of {} sizes, those above both \
             overheads.",
            fitted.sizes.len()
        ),
        GapBound::Processor => "g and G are the processors': at nearly every size an overhead is \
                                as long as the gap, so the network's own are not seen."
            .to_owned(),
    });
    notes.push(format!(
        "Root mean square of the relative errors of this line: {} %.",
        trimmed(fitted.gap_error * 100.0)
    ));
    if let Some((bytes, height)) = fitted.step {
        notes.push(format!(
            "From {} on a message costs {} ns more (announced, then sent when asked for).",
            size(bytes),
            trimmed(height)
        ));
    }
    if let Some(sharing) = &fitted.sharing {
        notes.push(format!(
            "Not the channel's alone: {sharing}. Bind each rank to a core of its own (mpiexec \
             --bind-to core), on an idle machine."
        ));
    } else if fitted.estimates[0].value < 0.0 {
        notes.push(
            "L is below 0: the overheads are longer than half a round trip, since a blocked \
             receive costs less than one whose message is there already. The model does not fit."
                .to_owned(),
        );
    }
    notes
}

/// A row for each size, in nanoseconds.
fn sizes(fitted: &LogGpFit) -> String {
    let mut table = table("size | o_s | o_r | one way | gap | line | (ns)");
    for row in &fitted.sizes {
        table.add_row([
            size(row.bytes),
            trimmed(row.send.value),
            trimmed(row.receive.value),
            trimmed(row.one_way.value),
            trimmed(row.gap.value),
            trimmed(line(fitted, row.bytes)),
            if row.counts { "" } else { "does not count" }.to_owned(),
        ]);
    }
    aligned(table, 6)
}

/// The fitted gap of a size.
pub fn line(fitted: &LogGpFit, bytes: u64) -> f64 {
    let [.., gap, per_byte] = &fitted.estimates;
    let step = fitted.step.filter(|(from, _)| bytes >= *from);
    gap.value + per_byte.value * bytes.saturating_sub(1) as f64 + step.map_or(0.0, |s| s.1)
}

/// The differences of the parameters from another measurement: of one network with another set of
/// parameters, or of none, they are the network's own share.
pub fn differences(fitted: &LogGpFit, baseline: &LogGpFit) -> String {
    let mut table = table(" | value | before | difference | unit");
    for parameter in Parameter::ALL {
        let at = parameter as usize;
        let (now, before) = (fitted.estimates[at].value, baseline.estimates[at].value);
        table.add_row([
            parameter.symbol().to_owned(),
            trimmed(now),
            trimmed(before),
            trimmed(now - before),
            parameter.unit().to_owned(),
        ]);
    }
    format!("{}\n\n", aligned(table, 4))
}

fn between(estimate: &Estimate) -> String {
    format!("{} to {}", trimmed(estimate.low), trimmed(estimate.high))
}

/// The table with its first columns of numbers to the right, without space at line ends.
fn aligned(mut table: Table, numbers: usize) -> String {
    for column in 1..numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use mica_sim::loggp::{CoreSharing, FitOptions, Measurement, fit};

    /// Gaps of 500 ns and half a nanosecond for each byte; overheads of 100 ns, latency 1000 ns.
    pub fn example() -> LogGpFit {
        let mut raw = String::from("mica-loggp 1 2 3 20 Some <MPI>\n");
        for bytes in [1u64, 1024, 4096, 65536] {
            let gap = 500.0 + 0.5 * (bytes - 1) as f64;
            let train = 5000.0 + 2.0 * gap;
            raw += &format!("{bytes} 0 10 100 80 100 60 2280 5000 {train}\n");
        }
        fit(&Measurement::parse(&raw).unwrap(), &FitOptions::default())
    }

    #[test]
    fn prints_parameters_and_sizes() {
        let text = render(&example());
        let lines: Vec<&str> = text.lines().collect();
        let row = |name: &str| lines.iter().find(|l| l.trim_start().starts_with(name));
        assert!(row("L ").unwrap().contains("1000"), "{text}");
        assert!(row("G ").unwrap().contains("0.5"), "{text}");
        assert!(row("64 KiB").unwrap().contains("33300"), "{text}");
        assert!(text.contains("1/G is 2 GB/s"), "{text}");
        assert!(lines.iter().all(|line| line.len() < 110), "{text}");
    }

    #[test]
    fn negative_latency_of_shared_processors_is_not_explained_by_the_model() {
        let mut fitted = example();
        fitted.estimates[0].value = -20_400.0;
        let alone = notes(&fitted).join("\n");
        assert!(alone.contains("The model does not fit") && !alone.contains("shared"), "{alone}");
        fitted.sharing = Some(CoreSharing::Switched { per_exchange: 1.5 });
        let shared = notes(&fitted).join("\n");
        assert!(shared.contains("shared processors") && shared.contains("--bind-to core"));
        assert!(!shared.contains("The model does not fit"), "{shared}");
    }

    #[test]
    fn prints_what_has_changed() {
        let (before, mut now) = (example(), example());
        now.estimates[0].value += 500.0;
        let text = differences(&now, &before);
        assert!(text.contains("1500") && text.contains(" 500"), "{text}");
    }
}
