//! Scales map values to pixels; ticks are the round values on them.

/// Maps a logarithmic axis to a range of pixels.
pub struct LogScale {
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl LogScale {
    pub fn at(&self, value: f64) -> f64 {
        let span = (self.high / self.low).ln().max(1e-9);
        self.from + (value / self.low).ln() / span * (self.to - self.from)
    }
}

/// Maps the values from 0 to `high` to a range of pixels.
pub struct LinearScale {
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl LinearScale {
    pub fn at(&self, value: f64) -> f64 {
        match self.high > 0.0 {
            true => self.from + value / self.high * (self.to - self.from),
            false => self.from,
        }
    }

    /// Round values from 0 to the scale's end, about `count` of them: steps of 1, 2 or 5 times a
    /// power of ten.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        if self.high <= 0.0 || !self.high.is_finite() {
            return vec![0.0];
        }
        let step = self.high / count.max(1) as f64;
        let power = 10f64.powf(step.log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        // A step that rounding has made a little larger is still the same step.
        let step = round.into_iter().find(|round| *round >= step * 0.999);
        let step = step.unwrap_or(power * 10.0);
        let last = (self.high / step + 1e-9).floor() as usize;
        (0..=last).map(|place| place as f64 * step).collect()
    }
}

/// Round values between `low` and `high` of a logarithmic scale: decades, with 2 and 5 where there
/// are few.
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades {
        d if d > 3.0 => &[1.0],
        d if d > 0.7 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all =
        (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| (low..=high).contains(value)).collect()
}

/// Moves sorted positions apart until neighbours are `gap` apart and none is below `limit`
/// (downwards on the screen), the last of them first.
pub fn spread<T>(places: &mut [(f64, T)], gap: f64, mut limit: f64) {
    for i in 1..places.len() {
        places[i].0 = places[i].0.max(places[i - 1].0 + gap);
    }
    // What was moved past the limit moves back up.
    for place in places.iter_mut().rev() {
        place.0 = place.0.min(limit);
        limit = place.0 - gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(log_ticks(0.08, 70.0), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(1.0, 1e5).len(), 6);
        assert!(log_ticks(10.0, 14.0).len() >= 2);
        let scale = |high| LinearScale { high, from: 10.0, to: 110.0 };
        assert_eq!(scale(1.0).ticks(4), [0.0, 0.5, 1.0]);
        assert_eq!(scale(9.3).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(scale(0.0).ticks(5), [0.0]);
        assert_eq!((scale(4.0).at(1.0), scale(0.0).at(0.0)), (35.0, 10.0));
    }

    #[test]
    fn labels_move_apart_and_stay_inside() {
        let mut places = [(10.0, 'a'), (12.0, 'b'), (95.0, 'c'), (99.0, 'd')];
        spread(&mut places, 10.0, 100.0);
        assert_eq!(places.map(|place| place.0), [10.0, 20.0, 90.0, 100.0]);
    }
}
