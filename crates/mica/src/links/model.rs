//! `mica links model MACHINE SCHEDULE`: calls of a recorded schedule on a modelled machine
//! (`mica_links::model`), written as `mica links run` writes what it measures.
//!
//! With `--study` it also varies the background, and lets the predictor postpone calls and choose
//! between schedules there (`mica_links::model::study`); the results are printed, and go into the
//! file, from where `analyze` and `report` show them.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use mica_links::intensity::TrafficIntensity;
use mica_links::model::study::{IO_INTENSITIES, STREAM_INTENSITIES, StudyPlan, study};
use mica_links::predictor::PayoffTrial;
use mica_links::study::ModelStudy;
use mica_links::{Background, ChipMachine, ModelPlan, RecordedSchedule};

use super::disturb::BackgroundTraffic;
use super::named::schedule_named;
use super::placement::{between_chips, mapped};
use super::text;

/// The options of `mica links model`.
#[derive(Args)]
pub struct ModelOptions {
    /// The machine: the name of one that is shipped (x4600), or a file of TOML.
    machine: String,
    /// The schedule: the name of one that is shipped, a file with .txt at the end, or
    /// PREFIX:COLLECTIVE:N for call N (from 0) of a collective that a program made under
    /// MICA_RECORD_TRANSFERS=PREFIX.
    #[arg(default_value = "allreduce-16384")]
    schedule: String,
    /// Other traffic.
    #[arg(long, value_enum, default_value_t = BackgroundTraffic::Io)]
    background: BackgroundTraffic,
    /// Consecutive calls.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    calls: usize,
    /// The seed of the other traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Place ranks as mpiexec --map-by profile:FILE would, by the bytes that this schedule moves
    /// between them.
    #[arg(long)]
    map: bool,
    /// Vary the background, and let the predictor postpone calls and choose between this schedule
    /// and --against: some minutes.
    #[arg(long)]
    study: bool,
    /// The schedule to choose from beside SCHEDULE.
    #[arg(long, value_name = "SCHEDULE", default_value = "allreduce-16384-direct")]
    against: String,
    /// Worlds of the study: seeds of the other traffic.
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u64).range(2..=10_000))]
    worlds: u64,
    /// Calls in each world of the study.
    #[arg(long, value_name = "N", default_value_t = 400)]
    study_calls: usize,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "links.mica")]
    output: PathBuf,
}

/// Said of every observation under modelled I/O.
const TUNED: &str = "The I/O background of the model was chosen so that the slowest 5 % of the \
    calls of an allreduce of 16 KiB take about the 93 % of the time that the paper measured: that \
    share is no evidence of the cause. mica links model --study shows it under other backgrounds.";

/// Runs the model, writes the observation, and says where.
pub fn model(options: &ModelOptions) -> Result<String, Box<dyn Error>> {
    let machine = ChipMachine::named(&options.machine)?;
    let schedule = schedule_named(&options.schedule)?;
    let background = background(options.background, &machine);
    let (chips, placed) = chips(options, &machine, &schedule);
    let plan = ModelPlan {
        machine: &machine,
        schedule: &schedule,
        background: &background,
        chips,
        count: options.calls,
        seed: options.seed,
    };
    // Hidden where stderr is no terminal.
    let bar = ProgressBar::new(options.calls as u64);
    let mut observation = plan.observe(&mut |ended| bar.set_position(ended as u64))?;
    bar.finish_and_clear();
    if matches!(options.background, BackgroundTraffic::Io | BackgroundTraffic::Both) {
        observation.provenance.notes.push(TUNED.to_owned());
    }
    observation.provenance.notes.extend(placed.clone());
    let mut said = format!(
        "{} calls of {} on {} in {}\n",
        observation.calls.len(),
        schedule.collective,
        machine.name(),
        options.output.display()
    );
    if let Some(placed) = placed {
        said += &format!("{placed}\n");
    }
    if options.study {
        let found = studied(options, &plan)?;
        said += &text::study(&found);
        observation.study = Some(found);
    }
    super::write(&observation, &options.output)?;
    Ok(said)
}

fn studied(options: &ModelOptions, plan: &ModelPlan) -> Result<ModelStudy, Box<dyn Error>> {
    let against = schedule_named(&options.against)?;
    let is_same = (&against.collective, against.bytes, against.ranks())
        == (&plan.schedule.collective, plan.schedule.bytes, plan.schedule.ranks());
    if !is_same {
        return Err(format!(
            "--against {}: a schedule of {} of {} B on {} ranks is needed",
            options.against,
            plan.schedule.collective,
            plan.schedule.bytes,
            plan.schedule.ranks()
        )
        .into());
    }
    let schedules =
        [(options.schedule.as_str(), plan.schedule), (options.against.as_str(), &against)];
    let plan = StudyPlan {
        machine: plan.machine,
        schedules: &schedules,
        background: plan.background,
        intensities: &intensities(options.background),
        trial: PayoffTrial {
            calls: options.study_calls,
            // Not the observation's own seed.
            first_seed: options.seed.wrapping_add(1),
            worlds: options.worlds,
        },
    };
    let bar = ProgressBar::new(plan.steps());
    bar.tick();
    let found = study(&plan, &|| bar.inc(1))?;
    bar.finish_and_clear();
    Ok(found)
}

/// The chip of each rank, and what `--map` has changed.
fn chips(
    options: &ModelOptions,
    machine: &ChipMachine,
    schedule: &RecordedSchedule,
) -> (Vec<usize>, Option<String>) {
    let plain = machine.placement(schedule.ranks());
    if !options.map {
        return (plain, None);
    }
    let before: Vec<u32> = plain.iter().map(|&chip| chip as u32).collect();
    let pairs = schedule.pairs();
    let after = mapped(&pairs, &before);
    let volume = |chips: &[u32]| crate::draw::text::volume(between_chips(&pairs, chips) as f64);
    let said = format!(
        "Ranks are placed as --map-by profile: places them: a call moves {} between chips, by \
         default {}.",
        volume(&after),
        volume(&before)
    );
    (after.iter().map(|&chip| chip as usize).collect(), Some(said))
}

fn background(traffic: BackgroundTraffic, machine: &ChipMachine) -> Background {
    match traffic {
        BackgroundTraffic::None => Background::none(),
        BackgroundTraffic::Io => Background::io(machine),
        BackgroundTraffic::Memory => Background::memory_streams(machine),
        BackgroundTraffic::Both => Background::io(machine).and(Background::memory_streams(machine)),
    }
}

/// Those of the sorts of traffic that there are.
fn intensities(traffic: BackgroundTraffic) -> Vec<TrafficIntensity> {
    let io = matches!(traffic, BackgroundTraffic::Io | BackgroundTraffic::Both)
        .then_some(IO_INTENSITIES);
    let memory = matches!(traffic, BackgroundTraffic::Memory | BackgroundTraffic::Both)
        .then_some(STREAM_INTENSITIES);
    let memory = memory.into_iter().flatten();
    io.into_iter().flatten().chain(memory).collect()
}
