use super::*;

fn trial(shipped: &[f64], tuned: &[f64]) -> VerifiedSize {
    VerifiedSize { shipped: shipped.to_vec(), tuned: tuned.to_vec() }
}

/// Messages with times of three paths; the shipped figures choose path 0 everywhere.
struct Invented {
    /// For each part: the probes at which it changes the choice, and to which.
    parts: Vec<Vec<(u32, u8)>>,
    times: fn(u32, u8) -> Vec<f64>,
    measured: Vec<(u32, TrialParts)>,
    most: usize,
}

impl Invented {
    fn new(parts: &[&[(u32, u8)]], times: fn(u32, u8) -> Vec<f64>) -> Invented {
        Invented {
            parts: parts.iter().map(|part| part.to_vec()).collect(),
            times,
            measured: Vec::new(),
            most: usize::MAX,
        }
    }
}

impl Candidate for Invented {
    type Probe = u32;
    type Choice = u8;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn differing(&self, parts: TrialParts) -> Vec<(u32, u8)> {
        let of = |(n, part): (usize, &Vec<(u32, u8)>)| match parts & 1 << n {
            0 => Vec::new(),
            _ => part.clone(),
        };
        // The later part decides where two set a choice.
        let all: std::collections::BTreeMap<_, _> =
            self.parts.iter().enumerate().flat_map(of).collect();
        all.into_iter().collect()
    }

    fn measure(&mut self, probe: u32, parts: TrialParts) -> Option<VerifiedSize> {
        if self.measured.len() == self.most {
            return None;
        }
        self.measured.push((probe, parts));
        let chosen = self.differing(parts);
        let choice = chosen.iter().find(|(at, _)| *at == probe)?.1;
        Some(VerifiedSize { shipped: (self.times)(probe, 0), tuned: (self.times)(probe, choice) })
    }
}

#[test]
fn a_ratio_needs_most_rounds_on_its_side() {
    use TrialVerdict::{Better, Same, Worse};
    let even = [100.0; 5];
    for (tuned, verdict) in [
        ([80.0, 82.0, 79.0, 81.0, 80.0], Better),
        ([120.0, 118.0, 121.0, 119.0, 160.0], Worse),
        // Within the margin, however constant.
        ([98.0, 98.0, 98.0, 98.0, 98.0], Same),
        ([102.0, 102.0, 102.0, 102.0, 102.0], Same),
        // Noise: as many rounds are faster as slower.
        ([70.0, 140.0, 90.0, 130.0, 85.0], Same),
        // One disturbed round changes nothing.
        ([80.0, 82.0, 300.0, 81.0, 80.0], Better),
    ] {
        assert_eq!(trial(&even, &tuned).verdict(), verdict, "{tuned:?}");
    }
    // Both sides are slow in the same rounds.
    let shared = trial(&[100.0, 300.0, 100.0], &[80.0, 240.0, 80.0]);
    assert_eq!(shared.verdict(), Better);
    assert_eq!(trial(&[], &[]).verdict(), Same);
}

fn accepted(parts: &[&[(u32, u8)]], times: fn(u32, u8) -> Vec<f64>) -> TrialParts {
    verify(&mut Invented::new(parts, times)).accepted
}

#[test]
fn a_choice_that_measures_worse_is_left_to_the_shipped_figures() {
    // 64 KiB by path 1: 3.8 us instead of 3.2.
    let times = |_: u32, choice: u8| match choice {
        0 => vec![3200.0, 3210.0, 3190.0],
        _ => vec![3800.0, 3810.0, 3790.0],
    };
    let found = verify(&mut Invented::new(&[&[(65536, 1)]], times));
    assert_eq!((found.accepted, found.trials.len()), (0, 1));
}

#[test]
fn accepts_gains_without_losses() {
    let times = |_: u32, choice: u8| vec![1000.0 - 200.0 * f64::from(choice); 3];
    let mut candidate = Invented::new(&[&[(64, 1), (128, 1)]], times);
    assert_eq!(verify(&mut candidate).accepted, 1);
    assert_eq!(candidate.measured.len(), 2);
    // Path 1 gains, path 2 loses; the third part brings both.
    let times = |_: u32, choice: u8| vec![[100.0, 70.0, 150.0][usize::from(choice)]; 5];
    assert_eq!(accepted(&[&[(64, 1)], &[(128, 2)], &[(256, 1), (512, 2)]], times), 0b001);
    assert_eq!(accepted(&[&[(64, 1)], &[(64, 2)], &[(256, 1)]], times), 0b101);
}

#[test]
fn noise_changes_nothing() {
    let times = |_: u32, choice: u8| match choice {
        0 => vec![100.0, 130.0, 90.0, 110.0, 95.0],
        _ => vec![120.0, 95.0, 105.0, 90.0, 100.0],
    };
    assert_eq!(accepted(&[&[(64, 1), (128, 1)], &[(256, 1)]], times), 0);
}

#[test]
fn prefers_fewer_parts_among_equal_gains() {
    let times = |_: u32, choice: u8| vec![100.0 - 30.0 * f64::from(choice.min(1)); 5];
    // The second part changes nothing that gains.
    assert_eq!(accepted(&[&[(64, 1)], &[(64, 1)]], times).count_ones(), 1);
}

#[test]
fn a_bonus_is_given_up_for_no_loss() {
    struct WithBonus(Invented);
    impl Candidate for WithBonus {
        type Probe = u32;
        type Choice = u8;
        fn parts(&self) -> usize {
            self.0.parts()
        }
        fn differing(&self, parts: TrialParts) -> Vec<(u32, u8)> {
            self.0.differing(parts)
        }
        fn bonus(&self, parts: TrialParts) -> f64 {
            if parts & 1 == 1 { 0.2 } else { 0.0 }
        }
        fn measure(&mut self, probe: u32, parts: TrialParts) -> Option<VerifiedSize> {
            self.0.measure(probe, parts)
        }
    }
    let times = |_: u32, choice: u8| vec![100.0 + 30.0 * f64::from(choice); 3];
    // Nothing differs: the bonus alone keeps the part.
    let found = verify(&mut WithBonus(Invented::new(&[&[], &[(64, 1)]], times)));
    assert_eq!((found.accepted, found.gain), (1, 0.2));
    // It chooses worse at one probe.
    let found = verify(&mut WithBonus(Invented::new(&[&[(64, 1)], &[]], times)));
    assert_eq!(found.accepted, 0);
}

#[test]
fn rejects_what_was_not_measured() {
    let times = |_: u32, choice: u8| vec![100.0 - 30.0 * f64::from(choice); 3];
    let mut candidate = Invented::new(&[&[(64, 1)], &[(128, 1), (256, 1)]], times);
    candidate.most = 2;
    let accepted = verify(&mut candidate).accepted;
    let shown: Vec<u32> = candidate.measured.iter().map(|(probe, _)| *probe).collect();
    for (probe, _) in candidate.differing(accepted) {
        assert!(shown.contains(&probe), "{probe} was accepted unseen");
    }
}
