//! What the thesis says (leon-2009), in one place. Reports put our figures beside these.
//!
//! Pages are those printed in the thesis. Its figures are not in our copy of the text, so a value
//! that only a figure shows is not here; what the text says of the figure is.

/// A statement of the thesis.
#[derive(Debug)]
pub struct Fact {
    /// What it is about.
    pub claim: &'static str,
    /// What it says.
    pub value: PaperValue,
    /// Where.
    pub place: &'static str,
}

/// The value of a statement, in the unit that it names.
#[derive(Debug, Clone, Copy)]
pub enum PaperValue {
    /// At most this, and this in some case.
    UpTo(f64, &'static str),
    /// Near this.
    About(f64, &'static str),
    /// From one to the other.
    Between(f64, f64, &'static str),
    /// More than this.
    MoreThan(f64, &'static str),
    /// A shape, which holds or does not.
    Shape,
}

pub const INJECTION_READS: Fact = Fact {
    claim: "Injection into the L3 reduces the memory reads of the traversal",
    value: PaperValue::UpTo(96.0, "%"),
    place: "Figure 2.4, page 16",
};
pub const PREFETCH_READS: Fact = Fact {
    claim: "With prefetching the memory is read as often as without",
    value: PaperValue::About(0.0, "% fewer"),
    place: "Figure 2.4, page 16",
};
pub const INJECTION_TIME: Fact = Fact {
    claim: "Injection into the L3 reduces the time of the traversal",
    value: PaperValue::UpTo(30.0, "%"),
    place: "Figure 2.5, page 17",
};
pub const PREFETCH_TIME: Fact = Fact {
    claim: "Prefetching reduces the time of the traversal",
    value: PaperValue::UpTo(37.0, "%"),
    place: "Figure 2.5, page 17",
};

pub const BLIND_POLLUTES: Fact = Fact {
    claim: "Injecting ghost rows as soon as they come is slower than no injection",
    value: PaperValue::Shape,
    place: "2.4.2, pages 20 and 21 (an argument, without a measurement)",
};
pub const WAIT_POLICY_HELPS: Fact = Fact {
    claim: "A policy that injects only while the program waits does not pollute",
    value: PaperValue::Shape,
    place: "2.4.2, page 21 (an argument, without a measurement)",
};
pub const L3_HELPS: Fact = Fact {
    claim: "A policy that puts long messages into the L3 does not pollute",
    value: PaperValue::Shape,
    place: "2.4.2, page 21 (an argument, without a measurement)",
};

pub const GAIN_GROWS: Fact = Fact {
    claim: "The slower the memory, the more an injection policy gains",
    value: PaperValue::Shape,
    place: "Figure 5.1, pages 44 and 45",
};
pub const SAME_RATIO_SAME_GAIN: Fact = Fact {
    claim: "At the same ratio of processor to memory speed, processors of unlike speed gain alike",
    value: PaperValue::Shape,
    place: "5.1, page 46",
};
pub const HEADER_BEATS_PAYLOAD: Fact = Fact {
    claim: "For AMG the header policy gains more than the payload policy",
    value: PaperValue::Shape,
    place: "5.2, page 51",
};
pub const PAYLOAD_READS_LESS: Fact = Fact {
    claim: "For AMG the payload policy reads the memory less often than base",
    value: PaperValue::Shape,
    place: "Figure 5.2, pages 48 and 49",
};

pub const FFT_PAYLOAD: Fact = Fact {
    claim: "The payload policy makes the FFT faster",
    value: PaperValue::Between(6.0, 8.0, "%"),
    place: "Figure 5.5, pages 51 and 52",
};
pub const FFT_HEADER: Fact = Fact {
    claim: "The header policy makes the FFT faster",
    value: PaperValue::About(0.0, "%"),
    place: "Figure 5.5, pages 51 and 52",
};
pub const FFT_READS: Fact = Fact {
    claim: "The FFT's gain goes with fewer memory reads: payload has fewer, header hardly",
    value: PaperValue::Shape,
    place: "Figure 5.5, page 52",
};

pub const AMG_WAITS: Fact = Fact {
    claim: "AMG's share of communication that is in MPI_Waitall",
    value: PaperValue::MoreThan(20.0, "%"),
    place: "Figure 5.6(c), page 52",
};
pub const FFT_COMMUNICATION: Fact = Fact {
    claim: "The FFT's share of time in communication",
    value: PaperValue::About(10.0, "%"),
    place: "Figure 5.6(b), page 54",
};
pub const FFT_ALLTOALL: Fact = Fact {
    claim: "The FFT's share of communication that is in MPI_Alltoall",
    value: PaperValue::MoreThan(80.0, "%"),
    place: "Figure 5.6(d), page 54",
};
pub const AMG_ISEND: Fact = Fact {
    claim: "Most of the data that AMG sends goes by MPI_Isend",
    value: PaperValue::MoreThan(50.0, "%"),
    place: "Figure 5.6(e), page 54",
};

pub const COLLECTIVES_GAIN: Fact = Fact {
    claim: "Allgather, allreduce and bcast gain by the payload policy",
    value: PaperValue::UpTo(20.0, "%"),
    place: "Figure 5.7, pages 55 and 56",
};
pub const COLLECTIVES_GROW: Fact = Fact {
    claim: "Their gain grows with the size of the message",
    value: PaperValue::Shape,
    place: "Figure 5.7, page 55",
};
pub const SCATTER_GAIN: Fact = Fact {
    claim: "Scatter gains by the payload policy",
    value: PaperValue::About(0.0, "%"),
    place: "Figure 5.7, page 55",
};

pub const THROTTLE_DECLINES: Fact = Fact {
    claim: "The sort slows down steadily as the bandwidth of the network falls",
    value: PaperValue::Shape,
    place: "Figures 3.4 and 3.5, pages 34 and 35",
};
pub const LOOSE_SHIFTS: Fact = Fact {
    claim: "Loose and accurate modes show the same trend, the one shifted against the other",
    value: PaperValue::Shape,
    place: "Figures 3.4 and 3.5, page 34",
};
pub const DIVERGENCE: Fact = Fact {
    claim: "The time of a program starts to diverge when the quantum exceeds a threshold",
    value: PaperValue::Shape,
    place: "3.2, pages 35 and 36 (the curve is in reference [19])",
};

pub const ADAPTIVE: Fact = Fact {
    claim: "A bad policy can be detected and changed while the program runs",
    value: PaperValue::Shape,
    place: "7.2, page 71 (a question that it leaves open)",
};
