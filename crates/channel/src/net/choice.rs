//! Which of the fabrics that the library offers carries the job: one function of what is there and what is wished for.
//!
//! Fabrics with remote memory access in hardware come first, sockets after them; what only works within a machine, and what is
//! there to debug others, never. Every offer that is not taken gets its reason in words, for `mica info` and for the error where
//! none is.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Capabilities;

/// What the user, or the job, asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// A provider by its name, whole (`tcp;ofi_rxm`) or its first part (`tcp`); `None`: the best.
    pub provider: Option<String>,
    /// A domain (`eth0`, `mlx5_0`) or address; `None`: the best.
    pub interface: Option<String>,
    /// All ranks are on this machine: a loopback interface reaches them all.
    pub all_on_one_machine: bool,
}

impl fmt::Display for Wish {
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

/// The address that an offer has on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// IPv4.
    V4(Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr),
    /// A fabric's own, by the number of libfabric's format.
    Native(u32),
    /// A text, as providers within a machine have.
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

/// One way out of this machine that the library offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Provider, with its layers: `tcp;ofi_rxm`.
    pub provider: String,
    /// The interface.
    pub domain: String,
    /// The network that it leads to.
    pub fabric: String,
    /// Its address.
    pub address: Address,
    /// Messages, remote memory, atomic operations.
    pub capabilities: Capabilities,
    /// Bits per second, where the provider knows.
    pub speed: Option<u64>,
}

impl Offer {
    /// The provider's first part: what drives the hardware.
    fn core(&self) -> &str {
        self.provider.split(';').next().unwrap_or("")
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

/// What became of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This is the one.
    Chosen,
    /// It would do, but another is better; why.
    Second(String),
    /// It does not do; why.
    Unfit(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Chosen => f.write_str("chosen"),
            Verdict::Second(why) | Verdict::Unfit(why) => f.write_str(why),
        }
    }
}

/// Providers by preference. Those with a layer are followed by it.
const PREFERENCE: &[&str] = &[
    "cxi",
    "efa",
    "opx",
    "psm3",
    "verbs;ofi_rxm",
    "verbs",
    "psm2",
    "tcp",
    "tcp;ofi_rxm",
    "net",
    "net;ofi_rxm",
    "sockets",
];

/// The place of a provider that is none of those: behind them.
fn preference(provider: &str) -> usize {
    let place = PREFERENCE.iter().position(|&p| p == provider);
    place.unwrap_or(PREFERENCE.len())
}

/// The verdict on each of `offers`, in their order. At most one is chosen; of equals the first.
pub fn choose(offers: &[Offer], wish: &Wish) -> Vec<Verdict> {
    let unfit: Vec<Option<String>> = offers.iter().map(|offer| unfit(offer, wish)).collect();
    let best = (0..offers.len())
        .filter(|&i| unfit[i].is_none())
        .min_by_key(|&i| rank(&offers[i], wish));
    let verdict = |(i, unfit): (usize, Option<String>)| match (unfit, best) {
        (Some(why), _) => Verdict::Unfit(why),
        (None, Some(best)) if best != i => {
            Verdict::Second(difference(&offers[i], &offers[best], wish))
        }
        (None, _) => Verdict::Chosen,
    };
    unfit.into_iter().enumerate().map(verdict).collect()
}

/// Why `offer` does not do at all.
fn unfit(offer: &Offer, wish: &Wish) -> Option<String> {
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
        return Some(format!("MICA_NET_PROVIDER={name}"));
    }
    if let Some(interface) = &wish.interface {
        let named = offer.is_named(interface);
        return (!named).then(|| format!("MICA_NET_INTERFACE={interface}"));
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

/// What is compared, in this order; the least is the best. Named so that [`difference`] can say which it was.
type Rank = (usize, bool, bool, bool, std::cmp::Reverse<u64>, bool);

fn rank(offer: &Offer, wish: &Wish) -> Rank {
    let sockets = matches!(offer.address, Address::V4(_) | Address::V6(_));
    (
        preference(&offer.provider),
        sockets && wish.all_on_one_machine && !offer.is_loopback(),
        !offer.capabilities.contains(Capabilities::READ),
        !offer.capabilities.contains(Capabilities::ATOMIC_ADD),
        std::cmp::Reverse(offer.speed.unwrap_or(0)),
        matches!(offer.address, Address::V6(_)),
    )
}

/// Why `offer` comes after `best`.
fn difference(offer: &Offer, best: &Offer, wish: &Wish) -> String {
    let (ours, theirs) = (rank(offer, wish), rank(best, wish));
    if ours.0 != theirs.0 {
        return format!("{} is preferred", best.provider);
    }
    if ours.1 != theirs.1 {
        return "loopback is nearer, and all ranks are on this machine".to_owned();
    }
    if ours.2 != theirs.2 {
        return "no remote memory access".to_owned();
    }
    if ours.3 != theirs.3 {
        return "no atomic operations".to_owned();
    }
    if ours.4 != theirs.4 {
        return format!("{} is faster", best.domain);
    }
    if ours.5 != theirs.5 {
        return "IPv4 is preferred".to_owned();
    }
    format!(
        "as good as {} {}, which is listed first",
        best.domain, best.address
    )
}
