//! The name of the MPI function that a collective was called by, for errors and hang reports: 17
//! functions and the five neighbourhood collectives, each in three forms, encoded as a number that
//! a rank publishes beside its operation header.

use std::fmt;

/// A function of MPI, in its blocking form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Function {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Gatherv`.
    Gatherv,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Scatterv`.
    Scatterv,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Allgatherv`.
    Allgatherv,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Alltoallv`.
    Alltoallv,
    /// `MPI_Alltoallw`.
    Alltoallw,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter`.
    ReduceScatter,
    /// `MPI_Reduce_scatter_block`.
    ReduceScatterBlock,
    /// `MPI_Scan`.
    Scan,
    /// `MPI_Exscan`.
    Exscan,
    /// `MPI_Neighbor_allgather`.
    NeighborAllgather,
    /// `MPI_Neighbor_allgatherv`.
    NeighborAllgatherv,
    /// `MPI_Neighbor_alltoall`.
    NeighborAlltoall,
    /// `MPI_Neighbor_alltoallv`.
    NeighborAlltoallv,
    /// `MPI_Neighbor_alltoallw`.
    NeighborAlltoallw,
}

/// Their names after `MPI_`, in the order of [`Function`].
const NAMES: [&str; 22] = [
    "Barrier",
    "Bcast",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Reduce",
    "Allreduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Exscan",
    "Neighbor_allgather",
    "Neighbor_allgatherv",
    "Neighbor_alltoall",
    "Neighbor_alltoallv",
    "Neighbor_alltoallw",
];

/// The form in which the program called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CallForm {
    /// `MPI_X`.
    Blocking,
    /// `MPI_Ix`.
    Immediate,
    /// `MPI_X_init`.
    Persistent,
}

const FORMS: u8 = 3;

/// Function and form in one number; 0: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallLabel(u8);

impl CallLabel {
    /// The name is not known, or does not matter.
    pub const UNKNOWN: CallLabel = CallLabel(0);

    /// The label of a call.
    pub const fn new(function: Function, form: CallForm) -> CallLabel {
        CallLabel(1 + function as u8 * FORMS + form as u8)
    }

    /// The number that is announced to other ranks.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The label with this number; [`UNKNOWN`](Self::UNKNOWN) if there is none.
    pub const fn from_number(number: u8) -> CallLabel {
        match number <= NAMES.len() as u8 * FORMS {
            true => CallLabel(number),
            false => CallLabel::UNKNOWN,
        }
    }

    /// The function's name: `MPI_Iallreduce`.
    pub fn name(self) -> Option<String> {
        let index = self.0.checked_sub(1)?;
        let name = NAMES.get(usize::from(index / FORMS))?;
        Some(match index % FORMS {
            0 => format!("MPI_{name}"),
            1 => format!("MPI_I{}{}", name[..1].to_ascii_lowercase(), &name[1..]),
            _ => format!("MPI_{name}_init"),
        })
    }
}

impl fmt::Display for CallLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().as_deref().unwrap_or("a collective"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_functions_as_the_standard_does() {
        let name = |function, form| CallLabel::new(function, form).to_string();
        assert_eq!(name(Function::Barrier, CallForm::Blocking), "MPI_Barrier");
        assert_eq!(name(Function::Allreduce, CallForm::Immediate), "MPI_Iallreduce");
        assert_eq!(
            name(Function::ReduceScatterBlock, CallForm::Immediate),
            "MPI_Ireduce_scatter_block"
        );
        assert_eq!(name(Function::Gatherv, CallForm::Persistent), "MPI_Gatherv_init");
        assert_eq!(
            name(Function::NeighborAlltoallv, CallForm::Immediate),
            "MPI_Ineighbor_alltoallv"
        );
        assert_eq!(CallLabel::UNKNOWN.name(), None);
    }

    #[test]
    fn a_label_survives_as_a_number() {
        for number in 0..=u8::MAX {
            let label = CallLabel::from_number(number);
            assert!(label.number() == number || label == CallLabel::UNKNOWN);
            assert_eq!(label.name().is_some(), (1..=66).contains(&number));
        }
    }
}
