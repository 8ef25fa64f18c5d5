//! The LogGP parameters of a channel, from the raw times of `bench/src/loggp.c`.
//!
//! LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995; leon-2009, 5.4): a message of k bytes
//! occupies its sender's processor for `o_s`, travels for `L + (k - 1) G`, and occupies its
//! receiver's processor for `o_r`; consecutive messages of a node start at least `g + (k - 1) G`
//! apart.
//!
//! - [`measurement`]: the program's output;
//! - [`sharing`]: whether the ranks had a processor each;
//! - [`fit`](mod@fit): parameters with intervals;
//! - [`mod@sensitivity`]: how much longer an application takes with each parameter raised, by any
//!   runner: the simulated cluster, or the replayer.
//!
//! The `mica` command calls it; `replay` takes its [`Parameters`].

pub mod fit;
pub mod measurement;
pub mod sensitivity;
pub mod sharing;

pub use fit::{Estimate, FitOptions, GapBound, LogGpFit, SizeRow, fit};
pub use measurement::{LoggpSample, Measurement, MeasurementError};
pub use sensitivity::{Sensitivity, SensitivityRow, sensitivity};
pub use sharing::CoreSharing;

use serde::{Deserialize, Serialize};

/// The parameters of the model. Times in nanoseconds, `gap_per_byte` in nanoseconds per byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// L: from the end of the sender's overhead to the arrival of a short message.
    pub latency: f64,
    /// o_s: the sender's processor, for each message.
    pub send_overhead: f64,
    /// o_r: the receiver's processor, for each message.
    pub receive_overhead: f64,
    /// g: least time between the starts of two short messages of one node.
    pub gap: f64,
    /// G: time for each further byte.
    pub gap_per_byte: f64,
}

/// One of the [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// L.
    Latency,
    /// o_s.
    SendOverhead,
    /// o_r.
    ReceiveOverhead,
    /// g.
    Gap,
    /// G.
    GapPerByte,
}

impl Parameter {
    /// Every parameter.
    pub const ALL: [Parameter; 5] = [
        Parameter::Latency,
        Parameter::SendOverhead,
        Parameter::ReceiveOverhead,
        Parameter::Gap,
        Parameter::GapPerByte,
    ];

    /// Its letter in the literature.
    pub const fn symbol(self) -> &'static str {
        match self {
            Parameter::Latency => "L",
            Parameter::SendOverhead => "o_s",
            Parameter::ReceiveOverhead => "o_r",
            Parameter::Gap => "g",
            Parameter::GapPerByte => "G",
        }
    }

    /// Its unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Parameter::GapPerByte => "ns/B",
            _ => "ns",
        }
    }
}

impl Parameters {
    /// The value of one.
    pub const fn get(&self, parameter: Parameter) -> f64 {
        match parameter {
            Parameter::Latency => self.latency,
            Parameter::SendOverhead => self.send_overhead,
            Parameter::ReceiveOverhead => self.receive_overhead,
            Parameter::Gap => self.gap,
            Parameter::GapPerByte => self.gap_per_byte,
        }
    }

    /// These with another value of one.
    #[must_use]
    pub const fn with(mut self, parameter: Parameter, value: f64) -> Parameters {
        match parameter {
            Parameter::Latency => self.latency = value,
            Parameter::SendOverhead => self.send_overhead = value,
            Parameter::ReceiveOverhead => self.receive_overhead = value,
            Parameter::Gap => self.gap = value,
            Parameter::GapPerByte => self.gap_per_byte = value,
        }
        self
    }

    /// What is wrong with a value, if anything: the model's times are finite and not negative.
    pub fn flaw(&self) -> Option<String> {
        let wrong = |p: &Parameter| !(self.get(*p).is_finite() && self.get(*p) >= 0.0);
        let parameter = Parameter::ALL.into_iter().find(wrong)?;
        let (symbol, value) = (parameter.symbol(), self.get(parameter));
        Some(format!("{symbol} is {value} {}: expected 0 or more", parameter.unit()))
    }
}

#[cfg(test)]
mod tests;
