//! What the ABIs have different words for: a handle, an integer, an address.

/// A kind of word.
pub trait WordKind {
    /// In MPICH's ABI.
    type Own: Copy;
    /// In the standard ABI.
    type Standard: Copy + PartialEq;

    /// What the library stores in no result of this kind.
    const NONE: Self::Standard;

    /// The word in the standard ABI.
    fn to_standard(own: Self::Own) -> Self::Standard;

    /// The word in MPICH's ABI.
    fn to_mpich(standard: Self::Standard) -> Self::Own;
}
