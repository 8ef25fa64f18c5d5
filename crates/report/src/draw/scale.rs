//! Scales map values to pixels; ticks are the round values on them.

/// Maps a logarithmic axis to a range of pixels.
pub struct LogScale {
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl LogScale {
    /// Where a value is.
    pub fn at(&self, value: f64) -> f64 {
        let span = (self.high / self.low).ln().max(1e-9);
        self.from + (value / self.low).ln() / span * (self.to - self.from)
    }
}

/// Of what ticks are round numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickUnit {
    /// Steps of 1, 2 or 5 times a power of ten.
    Decimal,
    /// Steps of a power of two, which are round in B, KiB and MiB.
    Bytes,
}

/// Maps the values from 0 to `high` to a range of pixels.
pub struct LinearScale {
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl LinearScale {
    /// Where a value is.
    pub fn at(&self, value: f64) -> f64 {
        match self.high > 0.0 {
            true => self.from + value / self.high * (self.to - self.from),
            false => self.from,
        }
    }

    /// Round values from 0 to the scale's end, about `count` of them.
    pub fn ticks(&self, count: usize, unit: TickUnit) -> Vec<f64> {
        if self.high <= 0.0 || !self.high.is_finite() {
            return vec![0.0];
        }
        let step = self.high / count.max(1) as f64;
        let step = match unit {
            TickUnit::Decimal => decimal_step(step),
            // There is no part of a byte.
            TickUnit::Bytes => (step * 0.999).log2().ceil().max(0.0).exp2(),
        };
        let last = (self.high / step + 1e-9).floor() as usize;
        (0..=last).map(|place| place as f64 * step).collect()
    }
}

/// The least round step that is not below `step`.
fn decimal_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    // A step that rounding has made a little larger is still the same step.
    round.into_iter().find(|round| *round >= step * 0.999).unwrap_or(power * 10.0)
}

/// Powers of two between `low` and `high` of a logarithmic scale, at most ten or so: every one, or
/// those of every second, fourth, eighth.
pub fn log_byte_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    let mut every = 1;
    while (last - first) / every > 10 {
        every *= 2;
    }
    (first..=last).filter(|power| power % every == 0).map(|power| f64::from(power).exp2()).collect()
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
    use super::super::text::volume;
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(log_ticks(0.08, 70.0), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(1.0, 1e5).len(), 6);
        assert!(log_ticks(10.0, 14.0).len() >= 2);
        let scale = |high| LinearScale { high, from: 10.0, to: 110.0 };
        let ticks = |high, count| scale(high).ticks(count, TickUnit::Decimal);
        assert_eq!(ticks(1.0, 4), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(9.3, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(0.0, 5), [0.0]);
        assert_eq!((scale(4.0).at(1.0), scale(0.0).at(0.0)), (35.0, 10.0));
    }

    #[test]
    fn ticks_of_bytes_are_round_in_their_unit() {
        let labels = |high| -> Vec<String> {
            let scale = LinearScale { high, from: 0.0, to: 1.0 };
            scale.ticks(6, TickUnit::Bytes).into_iter().map(volume).collect()
        };
        // In steps of 20,000 they would be 19.5 KiB, 39.1 KiB.
        assert_eq!(labels(90_000.0), ["0 B", "16 KiB", "32 KiB", "48 KiB", "64 KiB", "80 KiB"]);
        assert_eq!(labels(1.3e6), ["0 B", "256 KiB", "512 KiB", "768 KiB", "1 MiB"]);
        assert_eq!(labels(3.0), ["0 B", "1 B", "2 B", "3 B"]);
        assert_eq!(labels(0.0), ["0 B"]);
        assert_eq!(log_byte_ticks(6.0, 70.0), [8.0, 16.0, 32.0, 64.0]);
        assert_eq!(log_byte_ticks(0.9, 1.1e6).len(), 11);
        assert_eq!(log_byte_ticks(3.0, 3.5), [0.0; 0]);
    }

    #[test]
    fn labels_move_apart_and_stay_inside() {
        let mut places = [(10.0, 'a'), (12.0, 'b'), (95.0, 'c'), (99.0, 'd')];
        spread(&mut places, 10.0, 100.0);
        assert_eq!(places.map(|place| place.0), [10.0, 20.0, 90.0, 100.0]);
    }
}
