//! Implements [`Transport`] for [`Net`]: each method calls the one of the same name.

use std::time::Duration;

use super::Net;
use crate::shm::Packet;
use crate::transport::{LostPeer, ReadableRegion, Transport, TransportCompletion, WaitMode};
use crate::{Capabilities, ChannelError, RemoteMemory, RemoteRegion};
use mica_memory::View;
use mica_node::counters::Counters;

impl Transport for Net {
    fn reaches(&self, peer: u32) -> bool {
        Net::reaches(self, peer)
    }

    fn payload_max(&self) -> usize {
        Net::payload_max(self)
    }

    fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError> {
        Net::send(self, peer, packet, view, position)
    }

    fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        Net::has_room(self, peer, payload)
    }

    fn poll(&mut self) {
        Net::poll(self);
    }

    fn peek_found(&self) -> Option<(u32, Packet)> {
        Net::peek_found(self)
    }

    fn waiting(&self) -> usize {
        Net::waiting(self)
    }

    fn for_each_waiting(&self, source: u32, f: &mut dyn FnMut(&Packet)) {
        self.waiting_from(source).for_each(|packet| f(&packet));
    }

    fn read_payload(&self, source: u32, packet: &Packet, view: &View, position: usize) -> usize {
        Net::read_payload(self, source, packet, view, position)
    }

    fn consume(&mut self, source: u32, packet: &Packet) {
        Net::consume(self, source, packet);
    }

    fn is_drained(&mut self) -> bool {
        Net::is_drained(self)
    }

    fn expose(&mut self, address: usize, len: usize) -> Result<ReadableRegion, ChannelError> {
        Ok(Net::expose(self, address, len)?)
    }

    fn conceal(&mut self, exposed: ReadableRegion) {
        Net::conceal(self, exposed);
    }

    fn start_read(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        Net::start_read(self, peer, from.address, from.key, view, len, token)
    }

    fn remote_memory(&mut self) -> Option<&mut dyn RemoteMemory> {
        let needed = Capabilities::READ | Capabilities::WRITE;
        match self.capabilities.contains(needed) {
            true => Some(self),
            false => None,
        }
    }

    fn next_completion(&mut self) -> Option<TransportCompletion> {
        Net::next_completion(self)
    }

    fn counters(&self) -> Counters {
        *Net::counters(self)
    }

    fn take_loss(&mut self) -> Option<LostPeer> {
        Net::take_loss(self)
    }

    fn prepare_to_wait(&mut self) -> WaitMode {
        Net::prepare_to_wait(self)
    }

    fn wait_at_most(&self) -> Option<Duration> {
        Net::wait_at_most(self)
    }

    fn probe(&mut self, peer: u32) -> Result<(), ChannelError> {
        Net::probe(self, peer)
    }
}
