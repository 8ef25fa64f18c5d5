//! Chooses the provider that carries the job, as a pure function of what libfabric offers and what
//! the user requests.
//!
//! Fabrics with remote memory access in hardware come first, sockets after them. Providers that
//! work only within a machine, and those for debugging other providers, are never chosen. Every
//! offer that is not chosen gets a reason in text, for `mica info` and for the error if no offer
//! fits.

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

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Capabilities =
        Capabilities::MESSAGES.union(Capabilities::READ).union(Capabilities::ATOMICS);

    fn offer(provider: &str, domain: &str, address: &str) -> ProviderOffer {
        let address = if let Ok(v4) = address.parse() {
            Address::V4(v4)
        } else if let Ok(v6) = address.parse() {
            Address::V6(v6)
        } else if address == "text" {
            Address::Text
        } else {
            Address::Native(address.parse().expect("a format"))
        };
        ProviderOffer {
            provider: provider.to_owned(),
            domain: domain.to_owned(),
            fabric: "fabric".to_owned(),
            plain: domain.starts_with("eth") || domain == "lo",
            address,
            capabilities: ALL,
            speed: None,
        }
    }

    /// What Debian's libfabric 1.17 offers on a machine with one network interface.
    fn debian() -> Vec<ProviderOffer> {
        vec![
            offer("sockets", "eth0", "192.0.2.2"),
            offer("tcp;ofi_rxm", "eth0", "fe80::1"),
            offer("tcp;ofi_rxm", "eth0", "fd00::1"),
            offer("tcp;ofi_rxm", "eth0", "192.0.2.2"),
            offer("tcp;ofi_rxm", "lo", "127.0.0.1"),
            offer("tcp;ofi_rxm", "lo", "::1"),
            offer("net", "eth0", "192.0.2.2"),
            offer("shm", "shm", "text"),
            offer("udp;ofi_rxd", "eth0", "192.0.2.2"),
        ]
    }

    fn wish() -> ProviderRequest {
        ProviderRequest::default()
    }

    /// Provider and domain of the chosen offer, with its address.
    fn chosen(offers: &[ProviderOffer], wish: &ProviderRequest) -> Option<String> {
        let verdicts = choose(offers, wish);
        assert_eq!(verdicts.len(), offers.len());
        let chosen = verdicts.iter().filter(|v| **v == ExposureVerdict::Chosen).count();
        assert!(chosen <= 1);
        let at = verdicts.iter().position(|v| *v == ExposureVerdict::Chosen)?;
        let offer = &offers[at];
        Some(format!("{} {} {}", offer.provider, offer.domain, offer.address))
    }

    fn words(offers: &[ProviderOffer], wish: &ProviderRequest, at: usize) -> String {
        choose(offers, wish)[at].to_string()
    }

    #[test]
    fn sockets_by_the_card_where_there_is_nothing_better() {
        assert_eq!(chosen(&debian(), &wish()).unwrap(), "net eth0 192.0.2.2");
        for (at, why) in [
            (0, "net is preferred"),
            (1, "fe80::1 holds on its own link only"),
            (2, "net is preferred"),
            (4, "loopback does not leave this machine"),
            (7, "reaches this machine only, where shared memory is faster"),
            (8, "udp may lose what it carries and is slow"),
        ] {
            assert_eq!(words(&debian(), &wish(), at), why, "{at}");
        }
    }

    #[test]
    fn real_fabrics_come_before_tcp_and_in_their_order() {
        let order = [
            "cxi",
            "efa",
            "opx",
            "psm3",
            "verbs;ofi_rxm",
            "psm2",
            "tcp",
            "net",
            "tcp;ofi_rxm",
            "sockets",
        ];
        for (better, worse) in order.iter().zip(&order[1..]) {
            let offers = [offer(worse, "a", "10.0.0.1"), offer(better, "b", "10.0.0.1")];
            assert!(chosen(&offers, &wish()).unwrap().starts_with(better), "{better} {worse}");
        }
        // A provider that uses the interface of tcp comes after it.
        let offers = [offer("psm3", "eth0", "13"), offer("sockets", "eth0", "10.0.0.1")];
        assert!(chosen(&offers, &wish()).unwrap().starts_with("sockets"));
        assert!(chosen(&offers[..1], &wish()).unwrap().starts_with("psm3"));
        // An unknown provider is better than none.
        let offers = [offer("warp", "w0", "99"), offer("sockets", "eth0", "10.0.0.1")];
        assert!(chosen(&offers, &wish()).unwrap().starts_with("sockets"));
        assert_eq!(chosen(&offers[..1], &wish()).unwrap(), "warp w0 native (format 99)");
    }

    #[test]
    fn loopback_is_for_jobs_on_one_machine_or_for_who_names_it() {
        let together = ProviderRequest { all_on_one_machine: true, ..wish() };
        assert_eq!(chosen(&debian(), &together).unwrap(), "tcp;ofi_rxm lo 127.0.0.1");
        assert!(words(&debian(), &together, 3).starts_with("loopback is nearer"));
        let named = ProviderRequest { interface: Some("lo".to_owned()), ..wish() };
        assert_eq!(chosen(&debian(), &named).unwrap(), "tcp;ofi_rxm lo 127.0.0.1");
        let only = [offer("tcp", "lo", "127.0.0.1")];
        assert_eq!(chosen(&only, &wish()), None);
        // A fabric that loops back through its own adapter is kept.
        let offers = [offer("tcp", "lo", "127.0.0.1"), offer("efa", "rdmap0", "12")];
        assert!(chosen(&offers, &together).unwrap().starts_with("efa"));
    }

    #[test]
    fn a_provider_is_asked_for_by_its_first_part_or_whole() {
        for (name, found) in [
            ("tcp", Some("tcp;ofi_rxm eth0 192.0.2.2")),
            ("tcp;ofi_rxm", Some("tcp;ofi_rxm eth0 192.0.2.2")),
            ("net;ofi_rxm", None),
            ("net", Some("net eth0 192.0.2.2")),
            ("sockets", Some("sockets eth0 192.0.2.2")),
            ("shm", None),
            ("udp", None),
            ("verbs", None),
            ("tcp;ofi_rxd", None),
        ] {
            let wish = ProviderRequest { provider: Some(name.to_owned()), ..wish() };
            assert_eq!(chosen(&debian(), &wish).as_deref(), found, "{name}");
        }
        let mut asked = debian();
        asked.remove(6);
        assert_eq!(words(&asked, &wish(), 2), "IPv4 is preferred");
        let native = [offer("tcp;ofi_rxm", "eth0", "10.0.0.1"), offer("tcp", "eth0", "10.0.0.1")];
        let wish = ProviderRequest { provider: Some("tcp".to_owned()), ..wish() };
        assert_eq!(chosen(&native, &wish).unwrap(), "tcp eth0 10.0.0.1");
    }

    #[test]
    fn an_interface_is_asked_for_by_name_or_address() {
        for (name, found) in [
            ("fd00::1", Some("tcp;ofi_rxm eth0 fd00::1")),
            ("::1", Some("tcp;ofi_rxm lo ::1")),
            ("192.0.2.2", Some("net eth0 192.0.2.2")),
            ("eth0", Some("net eth0 192.0.2.2")),
            ("eth1", None),
        ] {
            let wish = ProviderRequest { interface: Some(name.to_owned()), ..wish() };
            assert_eq!(chosen(&debian(), &wish).as_deref(), found, "{name}");
        }
    }

    #[test]
    fn of_equals_the_more_capable_then_the_faster_then_the_first() {
        let mut offers = vec![
            offer("tcp", "eth0", "10.0.0.1"),
            offer("tcp", "eth1", "10.0.1.1"),
            offer("tcp", "eth2", "10.0.2.1"),
        ];
        assert_eq!(chosen(&offers, &wish()).unwrap(), "tcp eth0 10.0.0.1");
        assert!(words(&offers, &wish(), 1).contains("as good as eth0 10.0.0.1"));
        offers[1].speed = Some(100_000_000_000);
        assert_eq!(chosen(&offers, &wish()).unwrap(), "tcp eth1 10.0.1.1");
        assert_eq!(words(&offers, &wish(), 0), "eth1 is faster");
        offers[1].capabilities.remove(Capabilities::ATOMICS);
        assert_eq!(chosen(&offers, &wish()).unwrap(), "tcp eth0 10.0.0.1");
        assert_eq!(words(&offers, &wish(), 1), "no atomic operations");
        offers[0].capabilities = Capabilities::MESSAGES;
        offers[2].capabilities = Capabilities::MESSAGES;
        assert_eq!(words(&offers, &wish(), 0), "no remote memory access");
    }

    #[test]
    fn what_carries_no_messages_or_is_a_hook_is_unfit() {
        let mut offers =
            vec![offer("tcp;ofi_hook_perf", "eth0", "10.0.0.1"), offer("efa", "rdmap0", "12")];
        offers[1].capabilities = Capabilities::READ;
        assert_eq!(chosen(&offers, &wish()), None);
        assert_eq!(chosen(&[], &wish()), None);
    }

    #[test]
    fn a_wish_is_put_in_words() {
        assert_eq!(wish().to_string(), "any provider, any interface that leads off this machine");
        let wish = ProviderRequest {
            provider: Some("verbs".to_owned()),
            interface: Some("lo".to_owned()),
            all_on_one_machine: true,
        };
        assert_eq!(
            wish.to_string(),
            "provider verbs (MICA_NET_PROVIDER), interface lo (MICA_NET_INTERFACE)"
        );
    }
}
