//! The steps of an operation whose waits return to the engine.

use std::future::poll_fn;
use std::task::Poll;

use mica_memory::RegionRef;

use super::OperationSlot;
use crate::intranode::protocol::account::Access;
use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_objects::error::Result;

impl SharedSlot for OperationSlot<'_> {
    const ONE_PIECE: bool = false;

    #[inline]
    fn group(&self) -> &NodeGroup {
        self.group
    }

    fn announce(&self) {} // `finish` does

    #[inline]
    fn publish(&self, phase: u32) {
        self.store_stamp(phase);
        self.group.wake_others();
    }

    #[inline]
    fn publish_for(&self, phase: u32, member: usize) {
        self.store_stamp(phase);
        self.group.area.wake(member);
    }

    fn publish_for_some(&self, phase: u32, members: impl Iterator<Item = usize>) {
        self.store_stamp(phase);
        self.group.area.wake_all(members);
    }

    #[inline]
    async fn reached(&self, member: usize, phase: u32) -> Result<()> {
        if !self.reaches(member, phase) {
            poll_fn(|_| match self.reaches(member, phase) {
                true => Poll::Ready(Ok(())),
                false => self.after_failed_poll(member, phase),
            })
            .await?;
        }
        if self.records_steps() {
            self.record(format_args!("wait {member} {phase}"));
        }
        self.accept_header(member)
    }

    #[inline]
    async fn all_reached(&self, phase: u32) -> Result<()> {
        let (me, size) = (self.me(), self.size());
        let mut member = 0;
        poll_fn(|_| {
            while member < size {
                if member != me && !self.reaches(member, phase) {
                    return self.after_failed_poll(member, phase);
                }
                member += 1;
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        if self.records_steps() {
            self.record(format_args!("wait all {phase}"));
        }
        self.accept_headers()
    }

    fn heard_all(&self) -> Result<()> {
        Ok(()) // `reached` has processed what each has announced
    }

    #[inline]
    fn bytes(&self, member: usize) -> usize {
        self.header_of(member).bytes()
    }

    #[inline]
    fn expect_bytes(&self, member: usize, bytes: usize) -> Result<()> {
        if self.bytes(member) == bytes { Ok(()) } else { Err(self.disagreement(member, bytes)) }
    }

    fn prepare(&self, _: usize) -> Result<()> {
        Ok(()) // done before the operation's first phase
    }

    #[inline]
    fn half(&self, member: usize, k: usize) -> RegionRef<'_> {
        let shift = if k & 1 == 0 { 0 } else { self.half_bytes() };
        self.group.area.cell(self.at, member).at(shift)
    }

    #[inline]
    fn line(&self, member: usize) -> RegionRef<'_> {
        self.group.area.inline_region(self.at, member)
    }

    #[inline]
    fn loaded(&self, member: usize, bytes: usize) {
        self.copied(member, Access::Load, bytes);
    }

    #[inline]
    fn stored(&self, member: usize, bytes: usize) {
        self.copied(member, Access::Store, bytes);
    }
}
