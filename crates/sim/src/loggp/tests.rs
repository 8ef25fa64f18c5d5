use std::fmt::Write as _;

use super::*;

/// What a network and processors of these parameters let the program print.
struct Planted {
    parameters: Parameters,
    /// Parts of the overheads that are not on the path of a round trip.
    send_end: f64,
    receive_start: f64,
    /// From this size on a message costs `step` more.
    announced_from: u64,
    step: f64,
    /// Relative noise, uniform in both directions.
    noise: f64,
}

const TRAIN: u32 = 16;

fn planted() -> Planted {
    Planted {
        parameters: Parameters {
            latency: 2000.0,
            send_overhead: 350.0,
            receive_overhead: 420.0,
            gap: 700.0,
            gap_per_byte: 0.45,
        },
        send_end: 90.0,
        receive_start: 120.0,
        announced_from: u64::MAX,
        step: 0.0,
        noise: 0.0,
    }
}

impl Planted {
    fn print(&self, rounds: u32, seed: u64) -> String {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut text = format!("mica-loggp 1 2 {TRAIN} 25.0 Mica x (y)\nbytes round ...\n");
        for round in 0..rounds {
            for bytes in [1, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072] {
                let times = self.times(bytes);
                let _ = write!(text, "{bytes} {round} 100");
                for time in times {
                    let noise = 1.0 + self.noise * (2.0 * random.f64() - 1.0);
                    let _ = write!(text, " {:.4}", time * noise);
                }
                text.push('\n');
            }
        }
        text
    }

    fn times(&self, bytes: u64) -> [f64; 7] {
        let p = &self.parameters;
        let (issue, complete) =
            (p.send_overhead - self.send_end, p.receive_overhead - self.receive_start);
        let further = (bytes - 1) as f64 * p.gap_per_byte;
        let step = if bytes >= self.announced_from { self.step } else { 0.0 };
        let one_way = issue + p.latency + further + step + complete;
        let gap = (p.gap + further + step).max(p.send_overhead).max(p.receive_overhead);
        let single = one_way + issue + p.latency + complete;
        let train = single + f64::from(TRAIN - 1) * gap;
        [p.send_overhead, issue, p.receive_overhead, complete, 2.0 * one_way, single, train]
    }

    fn fitted(&self, rounds: u32) -> LogGpFit {
        let measurement = Measurement::parse(&self.print(rounds, 7)).unwrap();
        fit(&measurement, &FitOptions::default())
    }
}

fn assert_near(fit: &LogGpFit, planted: &Parameters, share: f64) {
    for parameter in Parameter::ALL {
        let (got, want) = (fit.parameters.get(parameter), planted.get(parameter));
        let symbol = parameter.symbol();
        assert!((got - want).abs() <= share * want, "{symbol}: {got}, not {want}");
    }
}

#[test]
fn recovers_exact_parameters() {
    let planted = planted();
    let fit = planted.fitted(3);
    assert_near(&fit, &planted.parameters, 1e-6);
    assert_eq!((fit.bound, fit.step), (GapBound::Network, None));
    assert!(fit.sizes.iter().all(|row| row.counts));
    assert!(fit.estimates.iter().all(|e| e.high - e.low < 1e-6 * e.value));
}

#[test]
fn recovers_parameters_under_noise_and_says_how_well() {
    let planted = Planted { noise: 0.02, ..planted() };
    let fit = planted.fitted(31);
    assert_near(&fit, &planted.parameters, 0.05);
    for (estimate, parameter) in fit.estimates.iter().zip(Parameter::ALL) {
        let want = planted.parameters.get(parameter);
        let symbol = parameter.symbol();
        assert!(estimate.low < estimate.high, "{symbol}: {estimate:?}");
        assert!(
            (estimate.low - 0.02 * want..=estimate.high + 0.02 * want).contains(&want),
            "{symbol}: {estimate:?} and {want}"
        );
    }
}

#[test]
fn finds_a_gap_that_overheads_hide_for_short_messages() {
    let mut planted = planted();
    planted.parameters.gap = 100.0;
    let fit = planted.fitted(3);
    assert_near(&fit, &planted.parameters, 1e-4);
    assert!(!fit.sizes[0].counts && fit.sizes[10].counts);
}

#[test]
fn says_where_processors_are_the_limit_at_every_size() {
    let mut planted = planted();
    planted.parameters.gap_per_byte = 1e-9;
    planted.parameters.gap = 0.0;
    let fit = planted.fitted(3);
    assert_eq!(fit.bound, GapBound::Processor);
    assert!((fit.parameters.gap - 420.0).abs() < 1.0);
}

#[test]
fn keeps_the_step_of_announced_messages_out_of_g() {
    let planted = Planted { announced_from: 16384, step: 1400.0, ..planted() };
    let fit = planted.fitted(3);
    assert_near(&fit, &planted.parameters, 1e-4);
    let (bytes, height) = fit.step.expect("a step");
    assert!(bytes == 16384 && (height - 1400.0).abs() < 1.0);
    let noisy = Planted { noise: 0.02, ..super::tests::planted() };
    assert_eq!(noisy.fitted(31).step, None);
}

#[test]
fn equal_seeds_give_equal_intervals() {
    let planted = Planted { noise: 0.1, ..planted() };
    assert_eq!(planted.fitted(9), planted.fitted(9));
}

#[test]
fn says_what_is_wrong_with_a_measurement() {
    let good = planted().print(2, 1);
    for (text, words) in [
        (String::new(), "first line is \"\""),
        (good.replace("mica-loggp 1", "mica-loggp 2"), "not the output"),
        (good.replace("64 0 100", "64 0 x"), "line 4 of"),
        (good.replace("64 0 100", "64 0 100 5"), "line 4 of"),
        (good.lines().take(15).map(|l| format!("{l}\n")).collect(), "cut off"),
        (good.lines().take(4).map(|l| format!("{l}\n")).collect(), "2 sizes"),
    ] {
        let error = Measurement::parse(&text).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{words}: {error}");
    }
}

#[test]
fn says_that_ranks_shared_processors() {
    let text = planted().print(2, 1);
    let with = |lines: &str| {
        let text = text.replace("round ...\n", &format!("round ...\n{lines}"));
        Measurement::parse(&text).map(|measured| fit(&measured, &FitOptions::default()).sharing)
    };
    let apart = "place 0 0-0 vm\nplace 1 1-1 vm\nswitches 2 1000\n";
    assert_eq!(with(apart), Ok(None));
    let shared = with(&apart.replace("1-1", "0-0")).unwrap().expect("they share");
    assert_eq!(shared.to_string(), "2 ranks share 1 processor of vm");
    let lost = with(&apart.replace("switches 2", "switches 2000")).unwrap();
    assert_eq!(lost, Some(CoreSharing::Switched { per_exchange: 2.0 }));
    assert!(with("place 1 0-0 vm\n").is_err() && with("switches x 1\n").is_err());
}

#[test]
fn ranks_parameters_by_what_they_cost() {
    let run = |raised: Option<(Parameter, f64)>| -> Result<f64, String> {
        Ok(match raised {
            None => 10.0,
            Some((Parameter::Latency, factor)) => 10.0 + 0.5 * (factor - 1.0),
            Some((Parameter::GapPerByte, factor)) => 10.0 + 3.0 * (factor - 1.0),
            Some(_) => 10.0,
        })
    };
    let result = sensitivity(&Parameter::ALL, &[2.0, 4.0], run).unwrap();
    assert_eq!(result.rows[0].parameter, Parameter::GapPerByte);
    assert!((result.rows[0].elasticity - 0.3).abs() < 1e-12);
    assert_eq!(result.rows[1].parameter, Parameter::Latency);
    assert!((result.rows[1].elasticity - 0.05).abs() < 1e-12);
    let failing = sensitivity(&[Parameter::Gap], &[2.0], |_| Err::<f64, _>("no machine"));
    assert_eq!(failing, Err("no machine"));
}

#[test]
fn refuses_values_that_no_network_has() {
    let fine = planted().parameters;
    assert_eq!(fine.flaw(), None);
    for value in [-1.0, f64::NAN, f64::INFINITY] {
        let flaw = fine.with(Parameter::GapPerByte, value).flaw().unwrap();
        assert!(flaw.starts_with("G is"), "{flaw}");
    }
}
