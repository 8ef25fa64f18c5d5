//! What a member finds out when another one's header does not fit its own: the errors that name the
//! two calls, roots or numbers of bytes. Never on the path of calls that agree.

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_node::area::OPERATION_SLOTS;

use super::OperationSlot;
use crate::intranode::protocol::header::{OperationHeader, OperationKind, RootBefore};
use crate::label::CallLabel;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

impl OperationSlot<'_> {
    /// Compares a header that differs from this rank's.
    #[cold]
    pub(in crate::intranode) fn compare(
        &self,
        member: usize,
        header: OperationHeader,
    ) -> Result<()> {
        let (theirs, ours) = (header.kind(), self.kind);
        if theirs != ours {
            let root_before = match theirs.is_same_call(ours) && theirs.root() != ours.root() {
                true => RootBefore::WRONG,
                false => RootBefore::ANY,
            };
            self.group.note_wrong(self.number, root_before);
            return Err(self.mismatch(member, header));
        }
        let is_known = [RootBefore::ANY, RootBefore::WRONG].contains(&self.before);
        match is_known || header.before() == RootBefore::ANY || header.before() == self.before {
            true => Ok(()),
            false => Err(self.mismatch_before(member)),
        }
    }

    /// The error of a `member` that named another root in the previous operation.
    #[cold]
    fn mismatch_before(&self, member: usize) -> Error {
        let (area, before) = (&self.group.area, self.number - 1);
        let at = (before % OPERATION_SLOTS as u64) as usize;
        let header = |member| OperationHeader(area.word(at, member));
        let (theirs, ours) = (header(member), header(self.me()));
        let (rank, me) = (self.rank(member), self.rank(self.me()));
        let is_there = theirs.is_of(before) && ours.is_of(before);
        let what = match is_there && theirs.kind().is_same_call(ours.kind()) {
            true if theirs.kind() != ours.kind() => {
                named_roots(rank, theirs.kind(), me, ours.kind())
            }
            _ => format!("rank {rank} of the job and another one have named different roots"),
        };
        let detail = format!("{what}, in the collective before this {}", self.kind.name());
        Error::other(c::ERR_ROOT, detail)
    }

    #[cold]
    fn mismatch(&self, member: usize, header: OperationHeader) -> Error {
        let (theirs, ours, rank) = (header.kind(), self.kind, self.rank(member));
        if !theirs.is_same_call(ours) {
            let (theirs, ours) = (self.call_name_of(member, theirs), self.call_name());
            let detail = format!(
                "rank {rank} of the job has called {theirs} where this rank has called {ours} on \
                the same communicator"
            );
            return Error::other(c::ERR_OTHER, detail);
        }
        let call = self.call_name();
        if theirs.root() != ours.root() {
            let me = self.rank(self.me());
            let detail = named_roots(rank, theirs, me, ours);
            return Error::other(c::ERR_ROOT, detail);
        }
        let (theirs, ours) = (header.bytes(), self.own_bytes());
        let detail = format!(
            "{call}: rank {rank} of the job takes part with {theirs} bytes, this rank with \
            {ours}, for which they take different paths"
        );
        Error::other(c::ERR_TRUNCATE, detail)
    }

    /// The name of the function that was called here.
    fn call_name(&self) -> String {
        let name = self.label.name();
        name.unwrap_or_else(|| self.kind.name().to_owned())
    }

    /// The name of the function that `member` has called; `kind` is the kind of its call.
    fn call_name_of(&self, member: usize, kind: OperationKind) -> String {
        let stored = self.group.area.label(self.at, member);
        let label = (stored >> 8 == self.number).then(|| CallLabel::from_number(stored as u8));
        let name = label.and_then(CallLabel::name);
        name.unwrap_or_else(|| kind.name().to_owned())
    }

    /// The error of a `member` that has finished the operation without publishing what this rank
    /// waits for.
    #[cold]
    pub(super) fn has_left(&self, member: usize) -> Error {
        let (call, rank) = (self.call_name(), self.rank(member));
        let (theirs, ours) = (self.bytes(member), self.own_bytes());
        let detail = format!(
            "{call}: rank {rank} of the job has left it, after an error or with less data \
            ({theirs} bytes), while this rank ({ours} bytes) waits for it"
        );
        Error::other(c::ERR_TRUNCATE, detail)
    }

    /// The error of a `member` that takes part with a number of bytes that does not fit.
    #[cold]
    pub fn disagreement(&self, member: usize, bytes: usize) -> Error {
        let (rank, theirs) = (self.rank(member), self.bytes(member));
        let call = self.call_name();
        let detail = format!(
            "{call}: rank {rank} of the job takes part with {theirs} bytes, this rank with {bytes}"
        );
        Error::other(c::ERR_TRUNCATE, detail)
    }
}

/// Which roots two ranks have named in the same call.
#[cold]
fn named_roots(rank: u32, theirs: OperationKind, me: u32, ours: OperationKind) -> String {
    let (call, theirs, ours) = (ours.name(), theirs.root(), ours.root());
    format!(
        "{call}: rank {rank} of the job has named root {theirs}, rank {me} root {ours} (as \
         members on this node are numbered, modulo 128)"
    )
}
