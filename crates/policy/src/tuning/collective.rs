//! The figures of collectives' steps in a tuning file: sections `[collective]` and
//! `[collective.LEVEL]`, in which every line is optional. Files of older versions have none of
//! them.

use std::fmt;

use mica_node::topology::Level;

use super::value::{TuningValue, spans, write_spans};
use crate::collective::{CollectiveCosts, LevelCosts};
use crate::costs::{PathCost, PathCosts, level_name};

/// The keys of `[collective]`.
pub(super) const KEYS: [&str; 3] = ["switch_ns", "reduce_byte_ns", "round_ns"];

/// The keys of `[collective.LEVEL]` that are numbers. `copy_start_ns` comes with the lists `from`
/// and `byte_ns`.
pub(super) const LEVEL_KEYS: [&str; 3] = ["sync_ns", "expose_ns", "copy_start_ns"];

/// The measured figures of the steps of collectives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectiveTuning {
    /// See [`CollectiveCosts::switch_ns`].
    pub switch_ns: Option<f64>,
    /// See [`CollectiveCosts::reduce_byte_ns`].
    pub reduce_byte_ns: Option<f64>,
    /// See [`CollectiveCosts::round_ns`].
    pub round_ns: Option<f64>,
    /// By level, each at most once.
    pub levels: Vec<(Level, LevelTuning)>,
}

/// The figures measured among ranks at one level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LevelTuning {
    /// See [`LevelCosts::sync_ns`].
    pub sync_ns: Option<f64>,
    /// See [`LevelCosts::expose_ns`].
    pub expose_ns: Option<f64>,
    /// See [`LevelCosts::copy`].
    pub copy: Option<PathCost>,
}

impl CollectiveTuning {
    /// The shipped figures together with `messages`, with the measured ones in their place.
    pub(super) fn applied(&self, messages: PathCosts) -> CollectiveCosts {
        let mut costs = CollectiveCosts::new(messages);
        let replace = |figure: &mut f64, measured: Option<f64>| {
            if let Some(measured) = measured {
                *figure = measured;
            }
        };
        replace(&mut costs.switch_ns, self.switch_ns);
        replace(&mut costs.reduce_byte_ns, self.reduce_byte_ns);
        replace(&mut costs.round_ns, self.round_ns);
        for &(level, measured) in &self.levels {
            let shipped = *costs.of(level);
            costs.set(
                level,
                LevelCosts {
                    sync_ns: measured.sync_ns.unwrap_or(shipped.sync_ns),
                    expose_ns: measured.expose_ns.unwrap_or(shipped.expose_ns),
                    copy: measured.copy.or(shipped.copy),
                },
            );
        }
        costs
    }

    /// Whether `[collective]` has any line.
    pub(super) fn is_measured(&self) -> bool {
        let CollectiveTuning { switch_ns, reduce_byte_ns, round_ns, levels: _ } = self;
        switch_ns.or(*reduce_byte_ns).or(*round_ns).is_some()
    }

    /// Reads the values of `[collective]`.
    pub(super) fn read(&mut self, values: &[(String, TuningValue)]) -> Result<(), String> {
        let [switch_ns, reduce_byte_ns, round_ns] = numbers(values, KEYS)?;
        *self = CollectiveTuning {
            switch_ns,
            reduce_byte_ns,
            round_ns,
            levels: std::mem::take(&mut self.levels),
        };
        Ok(())
    }

    /// Reads the values of `[collective.LEVEL]`.
    pub(super) fn read_level(
        &mut self,
        level: Level,
        values: &[(String, TuningValue)],
    ) -> Result<(), String> {
        let [sync_ns, expose_ns, start] = numbers(values, LEVEL_KEYS)?;
        let listed = values.iter().any(|(key, _)| key == "from" || key == "byte_ns");
        let copy = match start {
            Some(start_ns) => {
                Some(PathCost { spans: spans(values)?, ..PathCost::new(start_ns, &[(0, 0.0)]) })
            }
            None if listed => return Err("no copy_start_ns in this section".to_owned()),
            None => None,
        };
        if let Some(flaw) = copy.and_then(|copy| copy.flaw()) {
            return Err(flaw);
        }
        let measured = LevelTuning { sync_ns, expose_ns, copy };
        self.levels.push((level, measured));
        Ok(())
    }
}

/// The values of these keys, if present: nanoseconds.
fn numbers<const N: usize>(
    values: &[(String, TuningValue)],
    keys: [&str; N],
) -> Result<[Option<f64>; N], String> {
    let mut found = [None; N];
    for (found, key) in found.iter_mut().zip(keys) {
        if let Some((_, TuningValue::Number(ns))) = values.iter().find(|(known, _)| known == key) {
            if let Some(flaw) = crate::collective::costs::not_sane(key, *ns) {
                return Err(flaw);
            }
            *found = Some(*ns);
        }
    }
    Ok(found)
}

impl fmt::Display for CollectiveTuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, keys: [&str; 3], values: [Option<f64>; 3]| {
            for (key, value) in keys.into_iter().zip(values) {
                if let Some(value) = value {
                    writeln!(f, "{key} = {value}")?;
                }
            }
            Ok(())
        };
        if self.is_measured() {
            writeln!(f, "\n[collective]")?;
            lines(f, KEYS, [self.switch_ns, self.reduce_byte_ns, self.round_ns])?;
        }
        for (level, measured) in &self.levels {
            let LevelTuning { sync_ns, expose_ns, copy } = measured;
            writeln!(f, "\n[collective.{}]", level_name(*level))?;
            let start_ns = copy.map(|copy| copy.start_ns);
            lines(f, LEVEL_KEYS, [*sync_ns, *expose_ns, start_ns])?;
            if let Some(copy) = copy {
                write_spans(f, copy)?;
            }
        }
        Ok(())
    }
}
