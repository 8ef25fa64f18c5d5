//! The region of interest: which part of the program is simulated in detail, the rest being run
//! with its instructions counted only.
//!
//! A region starts and ends by `MPI_Pcontrol(1)` and `MPI_Pcontrol(0)`; by the entry of functions
//! of the program that the user names; or with given calls of a function.

use mica_sim::port::DetailedRegion;

/// Where the program is with regard to the region.
#[derive(Debug)]
pub struct RegionState {
    region: DetailedRegion,
    /// Calls of the region's function so far.
    calls: u64,
    inside: bool,
}

impl RegionState {
    /// At the program's start.
    pub fn new(region: DetailedRegion) -> RegionState {
        RegionState { inside: region == DetailedRegion::Everything, region, calls: 0 }
    }

    /// Whether the program is in the region.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// The functions whose entries [`enter`](Self::enter) must be told of.
    pub fn functions(&self) -> Vec<&str> {
        match &self.region {
            DetailedRegion::Everything | DetailedRegion::Pcontrol => Vec::new(),
            DetailedRegion::Functions { begin, end } => vec![begin, end],
            DetailedRegion::Calls { function, .. } => vec![function],
        }
    }

    /// The program called `MPI_Pcontrol(level)`.
    pub fn control(&mut self, level: u64) {
        if self.region == DetailedRegion::Pcontrol {
            self.inside = level != 0;
        }
    }

    /// The program enters a function, the one of this number among
    /// [`functions`](Self::functions).
    pub fn enter(&mut self, function: usize) {
        match self.region {
            DetailedRegion::Functions { .. } => self.inside = function == 0,
            DetailedRegion::Calls { first, last, .. } => {
                self.calls += 1;
                self.inside = (first..=last).contains(&self.calls);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_pcontrol() {
        let mut state = RegionState::new(DetailedRegion::Pcontrol);
        assert!(!state.is_inside());
        state.control(1);
        assert!(state.is_inside());
        state.control(0);
        assert!(!state.is_inside());
    }

    #[test]
    fn contains_the_calls_that_were_asked_for() {
        let mut state =
            RegionState::new(DetailedRegion::Calls { function: "solve".into(), first: 2, last: 3 });
        let inside: Vec<bool> = (0..4)
            .map(|_| {
                state.enter(0);
                state.is_inside()
            })
            .collect();
        assert_eq!(inside, [false, true, true, false]);
    }
}
