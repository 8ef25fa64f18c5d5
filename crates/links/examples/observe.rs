//! Observes calls on the modelled X4600 under background I/O, and prints how their times are
//! distributed and how long the model took: `observe SCHEDULE CALLS SEED`.

use std::error::Error;
use std::time::Instant;

use mica_links::{Background, ChipMachine, RecordedSchedule, observe_model};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [schedule, calls, seed] = arguments.as_slice() else {
        return Err("usage: observe SCHEDULE CALLS SEED".into());
    };
    let machine = ChipMachine::named("x4600")?;
    let schedule = RecordedSchedule::shipped(schedule)?;
    let background = Background::io(&machine);
    let begun = Instant::now();
    let seen = observe_model(&machine, &schedule, &background, calls.parse()?, seed.parse()?)?;
    let took = begun.elapsed();
    let mut times = seen.calls.time.clone();
    times.sort_by(f64::total_cmp);
    let total: f64 = times.iter().sum();
    let slowest: f64 = times[times.len() * 19 / 20..].iter().sum();
    let at = |part: usize| times[(times.len() - 1) * part / 100] * 1e6;
    println!("median {:.1} us, 95 % {:.1} us, maximum {:.1} us", at(50), at(95), at(100));
    println!("the slowest 5 % take {:.1} % of {total:.3} s", 100.0 * slowest / total);
    println!("modelled in {took:.2?}");
    Ok(())
}
