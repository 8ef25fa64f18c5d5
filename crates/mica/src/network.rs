//! The network and launcher sections of `mica info`: what the net channel reports, and which
//! launcher interfaces the library supports.

use std::fmt::Write as _;

use mica_channel::Capabilities;
use mica_channel::net::choice::{ExposureVerdict, ProviderOffer};
use mica_channel::net::{Net, NetOptions};
use mica_node::tunables::{self, BadValue};
use mica_policy::network::ruled_out;
use mica_policy::{
    NetworkLimits, NetworkPath, OneSidedPath, OutgoingMessage, RmaUse, TargetRegistration,
    network_path, one_sided_path,
};
use serde::Serialize;

use crate::channels::ChannelInfo;
use crate::terminal::{align_right_but, table};

/// The displayed name of the capability to read and write a peer's memory.
const RMA: &str = "rma";

/// How a put or get of these bytes goes to a window of another node, and why.
fn one_sided(message: &OutgoingMessage, limits: &NetworkLimits, access: &str) -> &'static str {
    let rma = match access {
        "messages" => return "messages, as MICA_WINDOW_ACCESS says",
        "rma" => RmaUse::Always,
        _ => RmaUse::Auto,
    };
    let registration = match limits.can_read {
        true => TargetRegistration::Known,
        false => return "messages: the provider has no RMA",
    };
    match one_sided_path(message, registration, rma) {
        OneSidedPath::Rma => "rma: the network writes or reads the window's registered memory",
        OneSidedPath::Messages => "messages: pieces that are this short are packed together",
    }
}

/// The network as a job over several nodes would find it from this machine.
#[derive(Debug, Default, Serialize)]
pub struct FoundNetwork {
    /// The network library; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<LibfabricInfo>,
    /// Why there is no library, or why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The providers that the library offers, in its order.
    pub providers: Vec<Provider>,
}

/// The version and the file of libfabric.
#[derive(Debug, Serialize)]
pub struct LibfabricInfo {
    pub version: String,
    pub file: String,
}

/// A network provider of this machine.
#[derive(Debug, Serialize)]
pub struct Provider {
    pub provider: String,
    pub interface: String,
    pub address: String,
    /// `messages`, `rma`, `atomics`.
    pub capabilities: Vec<&'static str>,
    /// Bits per second, if the provider knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<u64>,
    pub chosen: bool,
    /// True for the best of its kind among offers that are usable but not chosen.
    #[serde(skip)]
    pub is_alternative: bool,
    /// `chosen`, or why it was not.
    pub verdict: String,
}

impl FoundNetwork {
    /// Queries libfabric, which opens nothing for that.
    pub fn query() -> FoundNetwork {
        let none = |error| FoundNetwork { error: Some(error), ..FoundNetwork::default() };
        let options = match NetOptions::in_force(false) {
            Ok(options) => options,
            Err(error) => return none(error.to_string()),
        };
        match Net::offers(&options) {
            Err(error) => none(error.to_string()),
            Ok(offers) => {
                let (version, file) = offers.library;
                let chosen = offers.offers.iter().filter(|(_, v)| *v == ExposureVerdict::Chosen);
                let mut known: Vec<&str> = chosen.map(|(o, _)| o.provider.as_str()).collect();
                let mut providers = Vec::new();
                for (offer, verdict) in &offers.offers {
                    let mut provider = provider(offer, verdict);
                    // One row for each kind of hardware or protocol; the others are further
                    // addresses of the same.
                    let would_do = matches!(verdict, ExposureVerdict::Second(_));
                    if would_do && !known.contains(&offer.provider.as_str()) {
                        known.push(&offer.provider);
                        provider.is_alternative = true;
                    }
                    providers.push(provider);
                }
                FoundNetwork {
                    library: Some(LibfabricInfo { version, file }),
                    error: None,
                    providers,
                }
                .checked(&options)
            }
        }
    }

    /// Adds an error if nothing was chosen.
    fn checked(mut self, options: &NetOptions) -> FoundNetwork {
        if self.chosen().is_none() {
            self.error = Some(format!("nothing fits {}", options.wish));
        }
        self
    }

    /// The provider that a job over several nodes would use.
    pub fn chosen(&self) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.chosen)
    }

    /// The limits that decide the path of a message to another node, on this machine.
    ///
    /// # Errors
    /// When a tunable's value does not fit.
    pub fn limits(&self) -> Result<NetworkLimits, BadValue> {
        let provider = self.chosen().map_or("", |chosen| &chosen.provider);
        let payload_max = NetOptions::in_force(false)?.payload_max_by(provider);
        let set = tunables::EAGER_MAX.threshold()?;
        Ok(NetworkLimits {
            eager_max: set.map_or(payload_max, |set| set.min(payload_max)),
            can_read: self.chosen().is_some_and(|chosen| chosen.capabilities.contains(&RMA)),
        })
    }

    /// Explains how a message goes to another node, as text.
    pub fn explain(&self, message: &OutgoingMessage, limits: &NetworkLimits) -> String {
        let mut text = String::new();
        let chosen = match self.chosen() {
            Some(chosen) => format!(
                "{} on {} {}: {}",
                chosen.provider,
                chosen.interface,
                chosen.address,
                chosen.capabilities.join(", ")
            ),
            None => format!("none here: {}", self.error.as_deref().unwrap_or_default()),
        };
        let path = network_path(message, limits);
        let _ = writeln!(text, "Network    {chosen}");
        let _ = writeln!(text, "Path       {}\n", path.name());
        for other in NetworkPath::ALL {
            let mark = if other == path { '*' } else { ' ' };
            let what = match other {
                NetworkPath::Eager => "in one packet, at once",
                NetworkPath::Read => "after a request, the receiver reads the sender's memory",
                NetworkPath::Chunks => "after a request and its answer, in packets",
            };
            let verdict = match ruled_out(other, message, limits) {
                Some(why) => why,
                None if other == path => "chosen",
                None => "possible; the ones before it save copies or waiting",
            };
            let _ = writeln!(text, " {mark}{:<8} {what:<56} {verdict}", other.name());
        }
        let _ = writeln!(text, "\nEager up to {} bytes", limits.eager_max);
        let access = tunables::WINDOW_ACCESS.choice().unwrap_or("auto");
        let _ = writeln!(text, "Put, get   {}", one_sided(message, limits, access));
        text
    }

    /// The channel as one line.
    pub fn channel(&self) -> ChannelInfo {
        let remedy = || match &self.library {
            None => format!(
                "install libfabric 1.x or 2.x (libfabric1), or name its file by {}; jobs on one \
                node need none",
                tunables::NET_LIBRARY.env
            ),
            Some(_) => format!(
                "see the table of providers; {} and {} choose among them",
                tunables::NET_PROVIDER.env,
                tunables::NET_INTERFACE.env
            ),
        };
        let refusal = self.error.clone().map(|reason| (reason, remedy()));
        let design = self.chosen().map(|chosen| {
            format!("{} on {} {}", chosen.provider, chosen.interface, chosen.address)
        });
        let purpose = "messages to other nodes, over libfabric";
        ChannelInfo { design, ..ChannelInfo::new("net", purpose, refusal) }
    }

    /// The section as text: the chosen provider and the alternatives, or with `all` every offer. If
    /// nothing is usable, the user needs to see all.
    pub fn render(&self, all: bool) -> String {
        let all = all || self.chosen().is_none();
        let Some(library) = &self.library else {
            return format!("  no libfabric: {}\n", self.error.as_deref().unwrap_or_default());
        };
        let mut text = format!("  libfabric {}  {}\n", library.version, library.file);
        let used = match self.chosen() {
            Some(chosen) => format!("{} on {}", chosen.provider, chosen.interface),
            None => format!("nothing: {}", self.error.as_deref().unwrap_or_default()),
        };
        let _ = writeln!(text, "  a job over several nodes uses {used}\n");
        let mut table = table(" provider | interface | address | can | Gbit/s | ");
        let shown = |p: &&Provider| all || p.chosen || p.is_alternative;
        for provider in self.providers.iter().filter(shown) {
            let mark = if provider.chosen { "*" } else { " " };
            let speed = provider.speed.map(|bits| format!("{:.0}", bits as f64 / 1e9));
            table.add_row([
                format!("{mark}{}", provider.provider),
                provider.interface.clone(),
                provider.address.clone(),
                provider.capabilities.join(", "),
                speed.unwrap_or_else(|| "-".to_owned()),
                provider.verdict.clone(),
            ]);
        }
        align_right_but(&mut table, &[0, 1, 2, 3, 5]);
        text = text + &table.trim_fmt() + "\n";
        let hidden = self.providers.iter().filter(|p| !shown(p)).count();
        if hidden > 0 {
            let _ = writeln!(text, "  {hidden} more, which are not used: mica info --all");
        }
        text
    }
}

fn provider(offer: &ProviderOffer, verdict: &ExposureVerdict) -> Provider {
    let can = [
        (Capabilities::MESSAGES, "messages"),
        (Capabilities::READ.union(Capabilities::WRITE), RMA),
        (Capabilities::ATOMICS, "atomics"),
    ];
    let has = |&(wanted, name): &(Capabilities, &'static str)| {
        offer.capabilities.contains(wanted).then_some(name)
    };
    Provider {
        provider: offer.provider.clone(),
        interface: offer.domain.clone(),
        address: offer.address.to_string(),
        capabilities: can.iter().filter_map(has).collect(),
        speed: offer.speed,
        chosen: *verdict == ExposureVerdict::Chosen,
        is_alternative: false,
        verdict: verdict.to_string(),
    }
}

/// The launchers that the library works under, and the interface that it uses.
pub fn launchers() -> Vec<ChannelInfo> {
    let spoken = |name, purpose| ChannelInfo::new(name, purpose, None);
    let library = mica_bootstrap::pmix::find_library();
    let variable = tunables::PMIX_LIBRARY.env;
    let remedy = format!(
        "install OpenPMIx (libpmix2), or name its file by {variable}; other launchers need none"
    );
    let refusal = library.as_ref().err().map(|reason| (reason.clone(), remedy));
    let launchers = "mpirun of Open MPI, prterun, and Slurm: srun --mpi=pmix";
    vec![
        spoken("mpiexec", "Mica's own, on one node or by ssh or srun on several"),
        spoken("PMI-1", "mpiexec of MPICH and of Intel MPI (Hydra)"),
        spoken("PMI-2", "Slurm: srun --mpi=pmi2"),
        ChannelInfo {
            design: library
                .ok()
                .map(|library| format!("{} ({})", library.version(), library.path().display())),
            ..ChannelInfo::new("PMIx", launchers, refusal)
        },
        spoken(
            "variables",
            "torchrun, and others that set RANK, WORLD_SIZE, MASTER_ADDR and _PORT",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_channel::net::choice::{Address, ProviderRequest, choose};
    use std::net::Ipv4Addr;

    fn offer(provider: &str, domain: &str, address: [u8; 4]) -> ProviderOffer {
        ProviderOffer {
            plain: true,
            provider: provider.to_owned(),
            domain: domain.to_owned(),
            fabric: "f".to_owned(),
            address: Address::V4(Ipv4Addr::from(address)),
            capabilities: Capabilities::MESSAGES | Capabilities::READ | Capabilities::WRITE,
            speed: Some(25_000_000_000),
        }
    }

    fn network(offers: &[ProviderOffer]) -> FoundNetwork {
        let wish = ProviderRequest::default();
        let verdicts = choose(offers, &wish);
        let both = offers.iter().zip(&verdicts);
        FoundNetwork {
            library: Some(LibfabricInfo {
                version: "1.17".to_owned(),
                file: "libfabric.so.1".to_owned(),
            }),
            error: None,
            providers: both.map(|(o, v)| provider(o, v)).collect(),
        }
        .checked(&NetOptions { wish, library: None, payload_max: Some(1024) })
    }

    #[test]
    fn table_shows_chosen_provider_and_reasons_against_others() {
        let network = network(&[
            offer("tcp;ofi_rxm", "lo", [127, 0, 0, 1]),
            offer("tcp;ofi_rxm", "eth7", [192, 0, 2, 1]),
        ]);
        let channel = network.channel();
        assert!(channel.usable && channel.reason.is_none() && channel.remedy.is_none());
        assert_eq!(channel.design.unwrap(), "tcp;ofi_rxm on eth7 192.0.2.1");
        let text = network.render(true);
        let brief = network.render(false);
        assert!(brief.contains("192.0.2.1") && !brief.contains("127.0.0.1"), "{brief}");
        assert!(brief.contains("1 more, which are not used: mica info --all"), "{brief}");
        for part in ["libfabric 1.17", "uses tcp;ofi_rxm on eth7", "messages, rma", " 25 "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let line = |word: &str| text.lines().find(|line| line.contains(word)).unwrap().trim();
        assert!(line("192.0.2.1").starts_with('*') && line("192.0.2.1").ends_with("chosen"));
        assert!(line("127.0.0.1").contains("loopback does not leave this machine"));
    }

    #[test]
    fn message_to_another_node_has_a_path_and_reasons() {
        let network = network(&[offer("tcp;ofi_rxm", "eth7", [192, 0, 2, 1])]);
        let limits = network.limits().unwrap();
        assert!(limits.can_read);
        let long = OutgoingMessage::contiguous(limits.eager_max + 1);
        let text = network.explain(&long, &limits);
        for part in ["eth7", "Path       read", "*read", "does not fit one packet"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = network.explain(&OutgoingMessage::contiguous(8), &limits);
        assert!(text.contains("*eager") && !text.contains("does not fit"), "{text}");
    }

    #[test]
    fn a_put_to_another_node_has_a_path_and_a_reason() {
        let limits = |can_read| NetworkLimits { eager_max: 1000, can_read };
        let pieces = OutgoingMessage { pieces: 100, ..OutgoingMessage::contiguous(800) };
        let whole = OutgoingMessage::contiguous(8);
        for (message, can_read, access, expected) in [
            (&whole, true, "auto", "rma:"),
            (&pieces, true, "auto", "messages: pieces"),
            (&pieces, true, "rma", "rma:"),
            (&whole, true, "messages", "messages, as MICA_WINDOW_ACCESS"),
            (&whole, false, "rma", "messages: the provider"),
        ] {
            let found = one_sided(message, &limits(can_read), access);
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn unusable_network_has_reason_and_remedy() {
        let only_loopback = network(&[offer("tcp;ofi_rxm", "lo", [127, 0, 0, 1])]);
        let error = Some("no such file".to_owned());
        let none = FoundNetwork { error, ..FoundNetwork::default() };
        for (network, reason, remedy) in [
            (only_loopback, "nothing fits any provider", "MICA_NET_PROVIDER"),
            (none, "no such file", "MICA_NET_LIBRARY"),
        ] {
            let channel = network.channel();
            assert!(!channel.usable && channel.design.is_none());
            assert!(channel.reason.unwrap().contains(reason));
            assert!(channel.remedy.unwrap().contains(remedy));
            assert!(network.render(false).contains(reason));
        }
    }

    #[test]
    fn launchers_are_listed_and_pmix_says_what_is_missing() {
        let all = launchers();
        let names: Vec<&str> = all.iter().map(|launcher| launcher.name).collect();
        assert_eq!(names, ["mpiexec", "PMI-1", "PMI-2", "PMIx", "variables"]);
        let pmix = &all[3];
        assert_eq!(pmix.usable, pmix.design.is_some());
        assert_eq!(pmix.usable, pmix.reason.is_none() && pmix.remedy.is_none());
    }
}
