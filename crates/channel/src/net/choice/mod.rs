//! Chooses the provider that carries the job, as a pure function of what libfabric offers and what
//! the user requests.
//!
//! Fabrics with remote memory access in hardware come first, sockets after them. Providers that
//! work only within a machine, and those for debugging other providers, are never chosen. Every
//! offer that is not chosen gets a reason in text, for `mica info` and for the error if no offer
//! fits.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Capabilities;

/// What the user or the job requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderRequest {
    /// A provider, by its full name (`tcp;ofi_rxm`) or the first part (`tcp`); `None`: the best.
    pub provider: Option<String>,
    /// A domain (`eth0`, `mlx5_0`) or address; `None`: the best.
    pub interface: Option<String>,
    /// All ranks are on this machine, so a loopback interface reaches all of them.
    pub all_on_one_machine: bool,
}

impl fmt::Display for ProviderRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider {
            Some(name) => write!(f, "provider {name} (MICA_NET_PROVIDER)")?,
            None => f.write_str("any provider")?,
        }
        match &self.interface {
            Some(name) => write!(f, ", interface {name} (MICA_NET_INTERFACE)")?,
            None => f.write_str(", any interface")?,
        }
        if !self.all_on_one_machine {
            f.write_str(" that leads off this machine")?;
        }
        Ok(())
    }
}

/// The address of an offer on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// IPv4.
    V4(Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr),
    /// An address in a fabric's native format, by the number of libfabric's address format.
    Native(u32),
    /// A string, which providers within a machine use.
    Text,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::V4(a) => a.fmt(f),
            Address::V6(a) => a.fmt(f),
            Address::Native(format) => write!(f, "native (format {format})"),
            Address::Text => f.write_str("text"),
        }
    }
}

/// One combination of provider and interface that libfabric offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderOffer {
    /// Provider, with its layers: `tcp;ofi_rxm`.
    pub provider: String,
    /// The interface.
    pub domain: String,
    /// The fabric (network) that it belongs to.
    pub fabric: String,
    /// The interface is a plain network interface or loopback, as the kernel's sockets use it.
    pub plain: bool,
    /// Its address.
    pub address: Address,
    /// Messages, remote memory access, atomic operations.
    pub capabilities: Capabilities,
    /// Bits per second, if the provider reports it.
    pub speed: Option<u64>,
}

impl ProviderOffer {
    /// The first part of the provider's name: the driver of the hardware.
    fn core(&self) -> &str {
        self.provider.split(';').next().unwrap_or("")
    }

    /// True if the provider uses the kernel's TCP sockets and listens at a port of its address.
    /// (Other providers also have addresses in Internet formats, but only as names.)
    pub fn is_sockets(&self) -> bool {
        matches!(self.core(), "tcp" | "net" | "sockets")
    }

    fn is_loopback(&self) -> bool {
        match self.address {
            Address::V4(a) => a.is_loopback(),
            Address::V6(a) => a.is_loopback(),
            Address::Native(_) | Address::Text => false,
        }
    }

    fn is_named(&self, interface: &str) -> bool {
        self.domain == interface || self.address.to_string() == interface
    }
}

/// The decision about an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExposureVerdict {
    /// It is chosen.
    Chosen,
    /// It is usable, but another one is better; the reason.
    Second(String),
    /// It is not usable; the reason.
    Unfit(String),
}

impl fmt::Display for ExposureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExposureVerdict::Chosen => f.write_str("chosen"),
            ExposureVerdict::Second(why) | ExposureVerdict::Unfit(why) => f.write_str(why),
        }
    }
}

/// Providers in order of preference. `net` exists only in libfabric 1.16 and 1.17; it became `tcp`
/// in 1.18 and is faster than `tcp;ofi_rxm`.
const PREFERENCE: &[&str] = &[
    "cxi",
    "efa",
    "opx",
    "psm3",
    "verbs;ofi_rxm",
    "verbs",
    "psm2",
    "tcp",
    "net",
    "tcp;ofi_rxm",
    "net;ofi_rxm",
    "sockets",
];

/// The position of a provider in `PREFERENCE`; a provider that is not listed comes last.
fn preference(provider: &str) -> usize {
    let place = PREFERENCE.iter().position(|&p| p == provider);
    place.unwrap_or(PREFERENCE.len())
}

/// The verdict on each of `offers`, in their order. At most one is chosen; among equals the first.
pub fn choose(offers: &[ProviderOffer], wish: &ProviderRequest) -> Vec<ExposureVerdict> {
    let unfit: Vec<Option<String>> = offers.iter().map(|offer| unfit(offer, wish)).collect();
    let best =
        (0..offers.len()).filter(|&i| unfit[i].is_none()).min_by_key(|&i| rank(&offers[i], wish));
    let verdict = |(i, unfit): (usize, Option<String>)| match (unfit, best) {
        (Some(why), _) => ExposureVerdict::Unfit(why),
        (None, Some(best)) if best != i => {
            ExposureVerdict::Second(difference(&offers[i], &offers[best], wish))
        }
        (None, _) => ExposureVerdict::Chosen,
    };
    unfit.into_iter().enumerate().map(verdict).collect()
}

/// Why `offer` is not usable, if it is not.
fn unfit(offer: &ProviderOffer, wish: &ProviderRequest) -> Option<String> {
    let core = offer.core();
    if matches!(core, "shm" | "sm2") || offer.address == Address::Text {
        return Some("reaches this machine only, where shared memory is faster".to_owned());
    }
    if core == "udp" {
        return Some("udp may lose what it carries and is slow".to_owned());
    }
    if offer.provider.contains("ofi_hook") {
        return Some("a hook to debug another provider".to_owned());
    }
    if !offer.capabilities.contains(Capabilities::MESSAGES) {
        return Some("does not carry messages".to_owned());
    }
    if let Some(name) = &wish.provider
        && *name != offer.provider
        && name != core
    {
        return Some(format!("MICA_NET_PROVIDER={name} asks for another"));
    }
    if let Some(interface) = &wish.interface {
        let named = offer.is_named(interface);
        return (!named).then(|| format!("MICA_NET_INTERFACE={interface} asks for another"));
    }
    match offer.address {
        _ if offer.is_loopback() && !wish.all_on_one_machine => {
            Some("loopback does not leave this machine".to_owned())
        }
        Address::V4(a) if a.is_link_local() => Some(format!("{a} holds on its own link only")),
        Address::V6(a) if a.is_unicast_link_local() => {
            Some(format!("{a} holds on its own link only"))
        }
        _ => None,
    }
}

/// The sort key, compared in this order; the least is the best. [`difference`] reports which field
/// decided.
type Rank = (usize, bool, usize, bool, bool, std::cmp::Reverse<u64>, bool);

fn rank(offer: &ProviderOffer, wish: &ProviderRequest) -> Rank {
    // psm3 also works over the kernel's UDP sockets; it is then no better than TCP.
    let borrowed = offer.plain && !offer.is_sockets();
    let sockets = offer.is_sockets() || borrowed;
    let place = if borrowed { PREFERENCE.len() } else { preference(&offer.provider) };
    (
        // If a job on one machine uses sockets, loopback is preferred regardless of the provider.
        if sockets { PREFERENCE.len() } else { place },
        sockets && wish.all_on_one_machine && !offer.is_loopback(),
        place,
        !offer.capabilities.contains(Capabilities::READ),
        !offer.capabilities.contains(Capabilities::ATOMICS),
        std::cmp::Reverse(offer.speed.unwrap_or(0)),
        matches!(offer.address, Address::V6(_)),
    )
}

/// Why `offer` comes after `best`.
fn difference(offer: &ProviderOffer, best: &ProviderOffer, wish: &ProviderRequest) -> String {
    let (ours, theirs) = (rank(offer, wish), rank(best, wish));
    if ours.0 == theirs.0 && ours.1 != theirs.1 {
        return "loopback is nearer, and all ranks are on this machine".to_owned();
    }
    if ours.2 != theirs.2 {
        return format!("{} is preferred", best.provider);
    }
    if ours.3 != theirs.3 {
        return "no remote memory access".to_owned();
    }
    if ours.4 != theirs.4 {
        return "no atomic operations".to_owned();
    }
    if ours.5 != theirs.5 {
        return format!("{} is faster", best.domain);
    }
    if ours.6 != theirs.6 {
        return "IPv4 is preferred".to_owned();
    }
    format!("as good as {} {}, which is listed first", best.domain, best.address)
}
