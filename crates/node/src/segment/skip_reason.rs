//! Why a buffer's pages stay where they are and are not migrated to the job segment. The mapped
//! back end of the direct channel finds the reason; here it has the number by which the block of a
//! rank carries it to reports ([`Limit::WindowInPlace`](super::Limit::WindowInPlace)).

/// Why a buffer's pages stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[repr(u8)]
pub enum SkipReason {
    /// Not private anonymous memory that can be read and written.
    #[error("not private memory of no file")]
    Kind,
    /// Pages of hugetlbfs.
    #[error("pages of another size")]
    PageSize,
    /// The stack, or the thread's own control data.
    #[error("on the stack or in a thread's own memory")]
    Thread,
    /// Something has locked or registered memory with the kernel.
    #[error("the process has locked or pinned memory")]
    Pinned,
    /// A heap of a thread's arena: glibc purges these and expects zeros.
    #[error("in a thread's malloc arena")]
    Arena,
    /// More than `MICA_MAPPED_MAX` in all.
    #[error("more than MICA_MAPPED_MAX bytes")]
    TooMuch,
    /// All slots are taken.
    #[error("no slot is free")]
    NoSlot,
    /// It overlaps other migrated buffers, which cannot be moved now.
    #[error("overlaps buffers that were moved before")]
    Overlap,
    /// It fills no page, and another thread may write to the rest of those that it touches.
    #[error("shorter than a page, in a process with several threads")]
    Short,
    /// A peer may be writing to these pages.
    #[error("a transfer to the same pages is in progress")]
    Busy,
    /// The pages lie on several NUMA nodes, placed by the first touch of several threads.
    #[error("spread over several NUMA nodes")]
    Spread,
    /// No memory for the copy.
    #[error("no memory to move it")]
    NoMemory,
    /// The kernel refused a step.
    #[error("the kernel refused to move it")]
    Kernel,
    /// Neither malloc's nor static data: the program may treat it as it treats its own mappings.
    #[error("mapped by the program itself (MICA_MAPPED=all moves such memory, too)")]
    Foreign,
    /// The program has given the kernel advice on it (not in children, not in core dumps), or has
    /// released it by advice before.
    #[error("the program has advised the kernel on it (madvise)")]
    Advised,
    /// The program's calls of `madvise` and `mremap` would go unseen.
    #[error("calls of madvise and mremap cannot be watched")]
    Unwatched,
    /// No thread could be started that gives freed memory back.
    #[error("no thread could be started that gives freed memory back (a limit on threads?)")]
    NoHelper,
    /// A device is open or mapped: its driver may have pinned memory, which the kernel does not
    /// count, and the device may write to it.
    #[error("a device that may have registered memory unseen is in use")]
    Device,
    /// A handler of user faults watches memory (userfaultfd).
    #[error("memory is watched by userfaultfd")]
    UserFaults,
    /// Some memory may have a protection key, which a move would lose.
    #[error("the process uses memory protection keys")]
    Keys,
    /// It becomes a window, and another thread, or the kernel in an asynchronous read, may store to
    /// it meanwhile.
    #[error("a window in a process with several threads, or with asynchronous I/O")]
    OpenToStores,
}

impl SkipReason {
    /// All of them, in order: the number of each is its place.
    const ALL: [SkipReason; 21] = [
        SkipReason::Kind,
        SkipReason::PageSize,
        SkipReason::Thread,
        SkipReason::Pinned,
        SkipReason::Arena,
        SkipReason::TooMuch,
        SkipReason::NoSlot,
        SkipReason::Overlap,
        SkipReason::Short,
        SkipReason::Busy,
        SkipReason::Spread,
        SkipReason::NoMemory,
        SkipReason::Kernel,
        SkipReason::Foreign,
        SkipReason::Advised,
        SkipReason::Unwatched,
        SkipReason::NoHelper,
        SkipReason::Device,
        SkipReason::UserFaults,
        SkipReason::Keys,
        SkipReason::OpenToStores,
    ];

    pub(super) fn number(self) -> u32 {
        self as u32
    }

    pub(super) fn of_number(number: u32) -> Option<SkipReason> {
        SkipReason::ALL.get(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (why, number) in SkipReason::ALL.into_iter().zip(0..) {
            assert_eq!((why.number(), SkipReason::of_number(number)), (number, Some(why)));
        }
        assert_eq!(SkipReason::of_number(SkipReason::ALL.len() as u32), None);
    }
}
