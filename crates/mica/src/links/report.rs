//! The page of `mica links report`: one HTML file that works from itself alone, without a script,
//! with the figures of muecke-2010 in their order and a table beside what a chart cannot give
//! exactly.
//!
//! A chart shows at most [`POINTS`] calls of each class, evenly chosen from their order; the
//! statistics are of all calls. Text of the file passes `escape`.

use std::fmt::Write as _;

use mica_links::Observation;
use mica_links::analysis::cluster::{TIME_CLASSES, TimeClass};
use mica_links::analysis::distribution::LinkLoad;
use mica_links::explain::{Explanation, LoadKind, Selected, select};

use crate::draw::bars::{self, Series, legend};
use crate::draw::colour::{THEME, hue};
use crate::draw::page::{self, Cell, DataTable, columns};
use crate::draw::scale::TickUnit;
use crate::draw::scatter::{Axis, Scatter};
use crate::draw::star::Star;
use crate::draw::text::{count, escape, percent, time, trimmed, volume};

use super::{WorkloadFinding, studies, text};

/// The most points of a class in a chart.
const POINTS: usize = 4000;
/// Hues of short, medium and long.
const CLASS_HUES: [usize; 3] = [0, 1, 5];
/// The most axes of a star.
const AXES: usize = 24;

/// The page.
pub fn page(observation: &Observation, findings: &[WorkloadFinding]) -> String {
    let style = format!("{THEME}{}", page::STYLE);
    let mut html = page::open("Links between chips", &style);
    html += "<body>\n<main>\n";
    for finding in findings {
        let explanation = &finding.explanation;
        let selected = select(observation, explanation.workload, explanation.load).0;
        html += &workload(&Figures::new(explanation, &selected), finding);
    }
    if let Some(study) = &observation.study {
        html += &studies::html(study);
    }
    html + "</main>\n</body>\n</html>\n"
}

/// What the figures of a workload draw.
struct Figures<'a> {
    explanation: &'a Explanation,
    selected: &'a Selected,
    /// The calls of each class.
    classes: [Vec<usize>; 3],
    series: Vec<Series>,
}

impl<'a> Figures<'a> {
    fn new(explanation: &'a Explanation, selected: &'a Selected) -> Figures<'a> {
        let mut classes: [Vec<usize>; 3] = Default::default();
        for (call, seconds) in selected.seconds.iter().enumerate() {
            let within = explanation.clusters.iter().find(|cluster| *seconds <= cluster.to);
            classes[within.map_or(TimeClass::Long, |c| c.duration) as usize].push(call);
        }
        let series = TIME_CLASSES.into_iter().map(|class| Series {
            name: format!("{} ({})", class.name(), count(classes[class as usize].len() as u64)),
            colour: hue(CLASS_HUES[class as usize]),
        });
        Figures { explanation, selected, series: series.collect(), classes }
    }

    /// Points of the calls of each class.
    fn points(&self, of: impl Fn(usize) -> (f64, f64)) -> Vec<Vec<(f64, f64)>> {
        let points = |calls: &Vec<usize>| {
            let step = calls.len().div_ceil(POINTS).max(1);
            calls.iter().step_by(step).map(|call| of(*call)).collect()
        };
        self.classes.iter().map(points).collect()
    }
}

fn workload(figures: &Figures, finding: &WorkloadFinding) -> String {
    let explanation = figures.explanation;
    let mut html = head(finding);
    html += &page::section(
        "Beside the paper",
        "What did muecke-2010 measure, what is it here, and why do both differ?",
        &beside_the_paper(finding),
    );
    html += &page::section(
        "Every call, in its order",
        "Which calls are slow, and do they come together? (Figure 2)",
        &over_time(figures),
    );
    html += &page::section(
        "The fastest 95 %",
        "How are the usual times distributed? (Figure 3)",
        &fast(explanation),
    );
    html += &page::section(
        "Clusters of execution time",
        "Are there kinds of slow calls, and which links mark each? (Figure 7)",
        &clusters(explanation),
    );
    if explanation.links.is_empty() {
        return html;
    }
    html += &page::section(
        "Time against load",
        "Does the load of all links together explain the time, or that of one? (Figures 4, 5)",
        &against_load(figures),
    );
    html += &page::section(
        "Links by correlation",
        "Which links' load goes with the time more than chance allows?",
        &ranking(explanation),
    );
    html += &page::section(
        "Load in fast calls",
        "Do fast calls load the links evenly? Links are ordered by their median. (Figure 6)",
        &fast_loads(explanation),
    );
    html + &page::section(
        "Indicator and predictor",
        "Is a call's class known from the load during it, and from the load before it?",
        &validations(explanation),
    )
}

fn beside_the_paper(finding: &WorkloadFinding) -> String {
    let rows = finding.paper.iter().map(|row| {
        let cells = [row.figure, row.what, row.paper, row.here.as_str(), row.why];
        cells.map(Cell::text).to_vec()
    });
    let table = DataTable {
        caption: "The paper: 2000 MPI_Allreduce of 16 kB on 32 ranks, Sun Fire X4600 M2, Open MPI \
                  1.3, background not controlled",
        header: columns("figure | what | paper | here | why they differ"),
        rows: rows.collect(),
    };
    format!("<div class=\"words\">{}</div>\n", table.html())
}

fn head(finding: &WorkloadFinding) -> String {
    let explanation = &finding.explanation;
    let all = &explanation.distribution;
    let mut html = format!(
        "<header>\n<p class=\"kicker\">Links between chips</p>\n<h1>{}</h1>\n\
         <p class=\"where\">{}</p>\n",
        escape(&explanation.what),
        escape(&explanation.machine)
    );
    let facts = [
        ("Calls", count(all.calls as u64), format!("{} in all", time(all.total_seconds))),
        ("Median", time(all.median), format!("shortest {}", time(all.min))),
        ("95 % up to", time(all.p95), format!("99 % up to {}", time(all.p99))),
        ("Longest", time(all.max), String::new()),
        ("Slowest 5 %", percent(all.slowest_share), "of the time".to_owned()),
    ];
    html += &page::facts(facts);
    html += &page::sentences("findings", "What stands out", &explanation.advice);
    let mut notes = explanation.notes.clone();
    notes.extend(finding.moved_bytes.map(|moved| {
        format!("A call moves {} between ranks, by the library's account.", volume(moved))
    }));
    notes.extend(finding.numa.map(text::memory_lines).into_iter().flatten());
    html += &page::sentences("notes", "Notes", &notes);
    html + "</header>\n"
}

fn over_time(figures: &Figures) -> String {
    let selected = figures.selected;
    let points = figures.points(|call| (selected.start[call], selected.seconds[call]));
    let chart = Scatter {
        name: "Execution time of each call over the time of its start",
        x_name: "start of the call",
        y_name: "execution time",
        x_axis: Axis::Linear(TickUnit::Decimal),
        y_axis: Axis::Log(TickUnit::Decimal),
        x_label: &time,
        y_label: &time,
        series: &figures.series,
        points: &points,
    };
    format!("{}<div class=\"figure\">{}</div>\n", legend(&figures.series), chart.svg())
}

/// The histogram: all bars are one path.
fn fast(explanation: &Explanation) -> String {
    let (width, left, floor) = (620.0, 60.0, 200.0);
    let bars = &explanation.histogram;
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return String::new() };
    let most = bars.iter().map(|bar| bar.calls).max().unwrap_or(1).max(1);
    let step = (width - left - 16.0) / bars.len() as f64;
    let mut path = String::new();
    for (place, bar) in bars.iter().enumerate() {
        let tall = bar.calls as f64 / most as f64 * (floor - 14.0);
        let x = left + place as f64 * step;
        let _ = write!(path, "M{x:.1} {floor}v-{tall:.1}h{:.2}v{tall:.1}z", step * 0.92);
    }
    let right = width - 16.0;
    let mut svg = bars::open("Histogram of the times of fast calls", width, 240.0);
    let _ = writeln!(
        svg,
        "<path fill=\"{}\" d=\"{path}\"/><path class=\"border\" d=\"M{left} {floor}H{right}\"/>",
        hue(0)
    );
    let mut text = |class: &str, x: f64, y: f64, text: &str| {
        let text = escape(text);
        let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
    };
    text("quiet", left, floor + 18.0, &time(first.from));
    text("end quiet", right, floor + 18.0, &time(last.to));
    text("end quiet", left - 8.0, 20.0, &count(most as u64));
    text("end quiet", left - 8.0, floor, "0");
    format!("<div class=\"figure\">{svg}</svg></div>\n")
}

/// A table and, where there are links, the star of each class.
fn clusters(explanation: &Explanation) -> String {
    let rows = explanation.clusters.iter().map(|cluster| {
        let marks = cluster.marks.iter().take(6).map(|mark| {
            let name = &explanation.links[mark.link];
            format!("{name} ({})", percent(mark.superiority))
        });
        vec![
            Cell::text(cluster.duration.name()),
            Cell::number(cluster.from, time(cluster.from)),
            Cell::number(cluster.to, time(cluster.to)),
            Cell::number(cluster.calls as f64, count(cluster.calls as u64)),
            Cell::number(cluster.time_share, percent(cluster.time_share)),
            Cell::text(marks.collect::<Vec<_>>().join(", ")),
        ]
    });
    let table = DataTable {
        caption: "Clusters, and links on which their calls have more load than other calls (in \
                  brackets: in which share of all pairs)",
        header: columns("class | from | to | calls | of the time | more load on"),
        rows: rows.collect(),
    };
    let star = match explanation.links.len() < 3 || explanation.clusters.len() < 2 {
        true => String::new(),
        false => star(explanation),
    };
    star + &table.html()
}

/// The mean load of the links that mark a cluster, or of all if that are too few.
fn star(explanation: &Explanation) -> String {
    let clusters = &explanation.clusters;
    let mut axes: Vec<usize> =
        clusters.iter().flat_map(|cluster| cluster.marks.iter().map(|mark| mark.link)).collect();
    axes.sort_unstable();
    axes.dedup();
    if axes.len() < 3 {
        axes = (0..explanation.links.len()).collect();
    }
    axes.truncate(AXES);
    let highest = |link: usize| clusters.iter().map(|c| c.star[link]).fold(0.0, f64::max);
    let share = |star: &Vec<f64>, link: usize| star[link] / highest(link).max(1e-12);
    let values: Vec<Vec<f64>> = clusters
        .iter()
        .map(|cluster| axes.iter().map(|link| share(&cluster.star, *link)).collect())
        .collect();
    let series = clusters.iter().enumerate().map(|(place, cluster)| Series {
        name: format!("{} to {}", time(cluster.from), time(cluster.to)),
        colour: hue(place),
    });
    let series: Vec<Series> = series.collect();
    let names: Vec<String> = axes.iter().map(|link| explanation.links[*link].clone()).collect();
    let star = Star {
        name: "Mean load of links in each cluster",
        axes: &names,
        series: &series,
        values: &values,
    };
    format!("{}<div class=\"one figure\">{}</div>\n", legend(&series), star.svg())
}

fn against_load(figures: &Figures) -> String {
    let explanation = figures.explanation;
    let total = |call: usize| figures.selected.loads.iter().map(|load| load[call]).sum::<f64>();
    let label = unit(explanation.load);
    let chart = |name: &str, of: &dyn Fn(usize) -> f64, rho: f64| {
        let points = figures.points(|call| (figures.selected.seconds[call], of(call)));
        let scatter = Scatter {
            name,
            x_name: "execution time",
            y_name: name,
            x_axis: Axis::Log(TickUnit::Decimal),
            y_axis: Axis::Linear(TickUnit::Bytes),
            x_label: &time,
            y_label: &label,
            series: &figures.series,
            points: &points,
        };
        format!("<div><h3>{}: correlation {rho:.2}</h3>{}</div>", escape(name), scatter.svg())
    };
    let mut html = legend(&figures.series) + "<div class=\"pair figure\">";
    html += &chart("load of all links", &total, explanation.total_correlation);
    for link in explanation.ranking.iter().take(3) {
        let load = &figures.selected.loads[link.link];
        let name = format!("load of link {}", explanation.links[link.link]);
        html += &chart(&name, &|call| load[call], link.rho);
    }
    html + "</div>\n"
}

/// How loads are written.
fn unit(load: LoadKind) -> fn(f64) -> String {
    match load {
        LoadKind::Rate => |value| format!("{}/s", volume(value)),
        LoadKind::Bytes | LoadKind::Background => volume,
    }
}

fn ranking(explanation: &Explanation) -> String {
    let rows = explanation.ranking.iter().map(|link| {
        let chosen = explanation.relevant.iter().find(|chosen| chosen.link == link.link);
        let stability = chosen.map_or(String::new(), |chosen| percent(chosen.stability));
        vec![
            Cell::text(&explanation.links[link.link]),
            Cell::number(link.rho, format!("{:.2}", link.rho)).with_bar(link.rho, hue(0)),
            Cell::text(format!("{:.2} to {:.2}", link.interval.low, link.interval.high)),
            Cell::number(link.p, if link.p < 1e-6 { "< 1e-6".into() } else { trimmed(link.p) }),
            Cell::text(if link.beyond_chance { "yes" } else { "no" }),
            Cell::number(link.coincidence, percent(link.coincidence)),
            Cell::text(stability),
            Cell::text(if explanation.named.contains(&link.link) { "yes" } else { "" }),
        ]
    });
    let table = DataTable {
        caption: "Spearman's rank correlation with the execution time; p after Holm's correction; \
                  in the relevant set: the share of half samples that select the link",
        header: columns(
            "link | correlation | 95 % interval | p | beyond chance | of slow calls above the \
             usual load | relevant | named above",
        ),
        rows: rows.collect(),
    };
    let none = match explanation.named.is_empty() {
        true => format!("<p class=\"none\">{}</p>\n", text::NONE_NAMED),
        false => String::new(),
    };
    table.html() + &none
}

fn fast_loads(explanation: &Explanation) -> String {
    let loads = &explanation.fast_loads;
    let names = ["least", "median", "highest"].iter().zip([4, 0, 5]);
    let series: Vec<Series> = names
        .map(|(name, colour)| Series { name: (*name).to_owned(), colour: hue(colour) })
        .collect();
    let of = |value: fn(&LinkLoad) -> f64| {
        let points = loads.iter().enumerate();
        points.map(|(place, load)| (place as f64, value(load))).collect()
    };
    let points = [of(|load| load.min), of(|load| load.median), of(|load| load.max)];
    let name_at = |place: f64| match loads.get(place as usize) {
        Some(load) if place.fract() == 0.0 => explanation.links[load.link].clone(),
        _ => String::new(),
    };
    let chart = Scatter {
        name: "Load of each link in fast calls",
        x_name: "link",
        y_name: "load",
        x_axis: Axis::Linear(TickUnit::Decimal),
        y_axis: Axis::Linear(TickUnit::Bytes),
        x_label: &name_at,
        y_label: &unit(explanation.load),
        series: &series,
        points: &points,
    };
    let rows = loads.iter().map(|load| {
        let cell = |value| Cell::number(value, unit(explanation.load)(value));
        let link = Cell::text(&explanation.links[load.link]);
        vec![link, cell(load.min), cell(load.median), cell(load.max)]
    });
    let table = DataTable {
        caption: "Load of each link in the fastest 95 % of the calls",
        header: columns("link | least | median | highest"),
        rows: rows.collect(),
    };
    format!("{}<div class=\"figure\">{}</div>\n{}", legend(&series), chart.svg(), table.html())
}

fn validations(explanation: &Explanation) -> String {
    let both = [
        ("Load during the call", &explanation.indicator),
        ("Load before the call", &explanation.predictor),
    ];
    let mut html = String::new();
    for (title, validation) in both {
        let Some(validation) = validation else {
            let _ =
                writeln!(html, "<p class=\"none\">{title}: too few calls, or of one class.</p>");
            continue;
        };
        let rows = TIME_CLASSES.into_iter().map(|class| {
            let row = validation.confusion[class as usize];
            let cells = row.map(|calls| Cell::number(calls as f64, count(calls as u64)));
            std::iter::once(Cell::text(class.name())).chain(cells).collect()
        });
        let caption = format!(
            "{title}: right in {} of held-out calls, the best constant guess in {} (difference \
             {:+.1} to {:+.1} points)",
            percent(validation.accuracy),
            percent(validation.constant),
            100.0 * validation.gain.low,
            100.0 * validation.gain.high
        );
        let table = DataTable {
            caption: &caption,
            header: columns("is | said short | said medium | said long"),
            rows: rows.collect(),
        };
        html += &table.html();
    }
    html
}
