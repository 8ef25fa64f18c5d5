//! What the thesis says (leon-2009), in one place. Reports put our figures beside these.
//!
//! Pages are those printed in the thesis. Its figures are not in our copy of the text, so a value
//! that only a figure shows is not here; what the text says of the figure is.

use PaperValue::{About, Between, MoreThan, Shape, UpTo};

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

/// The table of statements: name, value, place, claim.
macro_rules! facts {
    ($($name:ident, $value:expr, $place:literal, $claim:literal;)*) => {
        $(pub const $name: Fact = Fact { claim: $claim, value: $value, place: $place };)*
    };
}

facts! {
    INJECTION_READS, UpTo(96.0, "%"), "Figure 2.4, page 16",
        "Injection into the L3 reduces the memory reads of the traversal";
    PREFETCH_READS, About(0.0, "% fewer"), "Figure 2.4, page 16",
        "With prefetching the memory is read as often as without";
    INJECTION_TIME, UpTo(30.0, "%"), "Figure 2.5, page 17",
        "Injection into the L3 reduces the time of the traversal";
    PREFETCH_TIME, UpTo(37.0, "%"), "Figure 2.5, page 17",
        "Prefetching reduces the time of the traversal";
    BLIND_POLLUTES, Shape, "2.4.2, pages 20 and 21 (an argument, without a measurement)",
        "Injecting ghost rows as soon as they come is slower than no injection";
    WAIT_POLICY_HELPS, Shape, "2.4.2, page 21 (an argument, without a measurement)",
        "A policy that injects only while the program waits does not pollute";
    L3_HELPS, Shape, "2.4.2, page 21 (an argument, without a measurement)",
        "A policy that puts long messages into the L3 does not pollute";
    GAIN_GROWS, Shape, "Figure 5.1, pages 44 and 45",
        "The slower the memory, the more an injection policy gains";
    SAME_RATIO_SAME_GAIN, Shape, "5.1, page 46",
        "At the same ratio of processor to memory speed, processors of unlike speed gain alike";
    HEADER_BEATS_PAYLOAD, Shape, "5.2, page 51",
        "For AMG the header policy gains more than the payload policy";
    PAYLOAD_READS_LESS, Shape, "Figure 5.2, pages 48 and 49",
        "For AMG the payload policy reads the memory less often than base";
    FFT_PAYLOAD, Between(6.0, 8.0, "%"), "Figure 5.5, pages 51 and 52",
        "The payload policy makes the FFT faster";
    FFT_HEADER, About(0.0, "%"), "Figure 5.5, pages 51 and 52",
        "The header policy makes the FFT faster";
    FFT_READS, Shape, "Figure 5.5, page 52",
        "The FFT's gain goes with fewer memory reads: payload has fewer, header hardly";
    AMG_WAITS, MoreThan(20.0, "%"), "Figure 5.6(c), page 52",
        "AMG's share of communication that is in MPI_Waitall";
    FFT_COMMUNICATION, About(10.0, "%"), "Figure 5.6(b), page 54",
        "The FFT's share of time in communication";
    FFT_ALLTOALL, MoreThan(80.0, "%"), "Figure 5.6(d), page 54",
        "The FFT's share of communication that is in MPI_Alltoall";
    AMG_ISEND, MoreThan(50.0, "%"), "Figure 5.6(e), page 54",
        "Most of the data that AMG sends goes by MPI_Isend";
    COLLECTIVES_GAIN, UpTo(20.0, "%"), "Figure 5.7, pages 55 and 56",
        "Allgather, allreduce and bcast gain by the payload policy";
    COLLECTIVES_GROW, Shape, "Figure 5.7, page 55",
        "Their gain grows with the size of the message";
    SCATTER_GAIN, About(0.0, "%"), "Figure 5.7, page 55",
        "Scatter gains by the payload policy";
    THROTTLE_DECLINES, Shape, "Figures 3.4 and 3.5, pages 34 and 35",
        "The sort slows down steadily as the bandwidth of the network falls";
    LOOSE_SHIFTS, Shape, "Figures 3.4 and 3.5, page 34",
        "Loose and accurate modes show the same trend, the one shifted against the other";
    DIVERGENCE, Shape, "3.2, pages 35 and 36 (the curve is in reference [19])",
        "The time of a program starts to diverge when the quantum exceeds a threshold";
    ADAPTIVE, Shape, "7.2, page 71 (a question that it leaves open)",
        "A bad policy can be detected and changed while the program runs";
}
