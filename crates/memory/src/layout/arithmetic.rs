//! Checked arithmetic of layouts.

use crate::OutOfMemory;

/// A layout that cannot be represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TypeLayoutError {
    /// A quantity of the layout exceeds 63 bits.
    #[error("the {what} of the datatype exceeds 63 bits")]
    Overflow {
        /// Which quantity.
        what: &'static str,
    },
    /// There is no memory for its parts.
    #[error("there is no memory for {bytes} bytes of the datatype's description")]
    OutOfMemory {
        /// The requested size in bytes.
        bytes: usize,
    },
}

impl From<OutOfMemory> for TypeLayoutError {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> TypeLayoutError {
        TypeLayoutError::OutOfMemory { bytes }
    }
}

impl TypeLayoutError {
    pub(crate) const fn overflow(what: &'static str) -> TypeLayoutError {
        TypeLayoutError::Overflow { what }
    }
}

pub(super) type Result<T> = std::result::Result<T, TypeLayoutError>;

/// Lowest and highest displacement of `count` ranges `low..high` which start `stride` apart.
pub(super) fn span(low: i64, high: i64, count: u64, stride: i64) -> Result<(i64, i64)> {
    const ERROR: TypeLayoutError = TypeLayoutError::overflow("extent");
    let steps = i64::try_from(count.saturating_sub(1)).map_err(|_| ERROR)?;
    let reach = steps.checked_mul(stride).ok_or(ERROR)?;
    let low = low.checked_add(reach.min(0)).ok_or(ERROR)?;
    let high = high.checked_add(reach.max(0)).ok_or(ERROR)?;
    high.checked_sub(low).ok_or(ERROR)?;
    Ok((low, high))
}
