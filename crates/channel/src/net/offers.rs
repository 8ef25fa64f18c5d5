//! Queries what the library offers on this machine, and chooses among the offers.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::bindings as fi;
use super::choice::{self, Address, OfferVerdict, ProviderOffer, ProviderRequest};
use super::library::{FabricInfo, Libfabric};
use crate::Capabilities;
use crate::transport::NetError;

/// Modes of memory registration that the channel supports; a provider names those that it requires.
const MR_MODES: u64 = fi::FI_MR_LOCAL
    | fi::FI_MR_VIRT_ADDR
    | fi::FI_MR_ALLOCATED
    | fi::FI_MR_PROV_KEY
    | fi::FI_MR_ENDPOINT;

/// The library's offers, with the verdict on each.
#[derive(Debug)]
pub(super) struct ProviderSurvey {
    pub offers: Vec<ProviderOffer>,
    pub verdicts: Vec<OfferVerdict>,
    infos: Vec<FabricInfo>,
}

impl ProviderSurvey {
    /// Queries all offers that could carry the job, and chooses one.
    ///
    /// # Errors
    /// If the library fails.
    pub fn make(library: &Libfabric, wish: &ProviderRequest) -> Result<ProviderSurvey, NetError> {
        // Only the requested provider is initialised: some take long to find that their hardware is
        // missing.
        let mut infos = list(library, wish.provider.as_deref())?;
        if infos.is_empty() && wish.provider.is_some() {
            infos = list(library, None)?;
        }
        let offers: Vec<ProviderOffer> = infos.iter().map(offer).collect();
        let verdicts = choice::choose(&offers, wish);
        Ok(ProviderSurvey { offers, verdicts, infos })
    }

    /// The chosen offer.
    ///
    /// # Errors
    /// If nothing fits; the error names the request and the offers.
    pub fn chosen(
        mut self,
        library: &Libfabric,
        wish: &ProviderRequest,
    ) -> Result<(FabricInfo, ProviderOffer), NetError> {
        match self.verdicts.iter().position(|v| *v == OfferVerdict::Chosen) {
            Some(at) => Ok((self.infos.swap_remove(at), self.offers.swap_remove(at))),
            None => Err(NetError::NoProvider {
                asked: wish.to_string(),
                version: library.version(),
                file: library.file().to_owned(),
                found: self.in_words(),
            }),
        }
    }

    fn in_words(&self) -> String {
        if self.offers.is_empty() {
            return "nothing".to_owned();
        }
        // Interfaces of one provider with the same verdict are grouped.
        let mut groups: Vec<(&str, String, Vec<&str>)> = Vec::new();
        for (offer, verdict) in self.offers.iter().zip(&self.verdicts) {
            let (provider, why) = (offer.provider.as_str(), verdict.to_string());
            let domain = offer.domain.as_str();
            match groups.iter_mut().find(|g| g.0 == provider && g.1 == why) {
                Some((_, _, domains)) if domains.contains(&domain) => {}
                Some((_, _, domains)) => domains.push(domain),
                None => groups.push((provider, why, vec![domain])),
            }
        }
        let each = groups.into_iter().map(|(provider, why, domains)| {
            format!("{provider} on {} ({why})", domains.join(" and "))
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// All offers of reliable ordered datagrams, each interface once, with the most capabilities that
/// it has.
fn list(library: &Libfabric, provider: Option<&str>) -> Result<Vec<FabricInfo>, NetError> {
    let mut infos: Vec<FabricInfo> = Vec::new();
    for capabilities in
        [fi::FI_MSG | fi::FI_RMA | fi::FI_ATOMIC, fi::FI_MSG | fi::FI_RMA, fi::FI_MSG]
    {
        for info in library.get_info(&hints(library, capabilities, provider)?)? {
            let known = infos.iter().any(|known| {
                known.provider() == info.provider()
                    && known.domain_name() == info.domain_name()
                    && known.source() == info.source()
            });
            if !known {
                infos.push(info);
            }
        }
    }
    Ok(infos)
}

fn hints(
    library: &Libfabric,
    capabilities: u64,
    provider: Option<&str>,
) -> Result<FabricInfo, NetError> {
    let mut hints = FabricInfo::empty(library)?;
    hints.get_mut().caps = capabilities;
    // Every context that the channel passes has space for the provider.
    hints.get_mut().mode = fi::FI_CONTEXT | fi::FI_CONTEXT2;
    hints.ep().type_ = fi::FI_EP_RDM;
    // Messages of a pair are matched in order. Otherwise receives could fill up with messages that
    // cannot be delivered yet.
    hints.tx().msg_order = fi::FI_ORDER_SAS;
    hints.rx().msg_order = fi::FI_ORDER_SAS;
    let domain = hints.domain_attr();
    domain.mr_mode = MR_MODES as i32;
    // One thread at a time, which polls often: the provider needs no locks and no threads.
    domain.threading = fi::FI_THREAD_DOMAIN;
    domain.control_progress = fi::FI_PROGRESS_MANUAL;
    domain.data_progress = fi::FI_PROGRESS_MANUAL;
    domain.resource_mgmt = fi::FI_RM_ENABLED;
    if let Some(name) = provider {
        hints.set_provider(name);
    }
    Ok(hints)
}

fn offer(info: &FabricInfo) -> ProviderOffer {
    let caps = info.get().caps;
    let mut capabilities = Capabilities::empty();
    if caps & fi::FI_MSG != 0 {
        capabilities |= Capabilities::MESSAGES;
    }
    if caps & fi::FI_RMA != 0 {
        capabilities |= Capabilities::READ | Capabilities::WRITE;
    }
    if caps & fi::FI_ATOMIC != 0 {
        capabilities |= Capabilities::ATOMICS;
    }
    ProviderOffer {
        provider: info.provider(),
        domain: info.domain_name(),
        fabric: info.fabric_name(),
        plain: is_plain(&info.domain_name()),
        address: address(info.get().addr_format, info.source()),
        capabilities,
        speed: info.speed(),
    }
}

/// Whether the kernel has a network interface of this name. (RDMA devices have other names.)
fn is_plain(domain: &str) -> bool {
    !domain.is_empty() && !domain.contains('/') && Path::new("/sys/class/net").join(domain).exists()
}

/// Parses an address of libfabric.
fn address(format: u32, bytes: &[u8]) -> Address {
    let family = || Some(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let is = |wanted: libc::c_int| family() == u16::try_from(wanted).ok();
    if matches!(format, fi::FI_SOCKADDR | fi::FI_SOCKADDR_IN)
        && is(libc::AF_INET)
        && let Some(&[a, b, c, d]) = bytes.get(4..8)
    {
        return Address::V4(Ipv4Addr::new(a, b, c, d));
    }
    if matches!(format, fi::FI_SOCKADDR | fi::FI_SOCKADDR_IN6)
        && is(libc::AF_INET6)
        && let Some(bytes) = bytes.get(8..24)
    {
        let bytes: [u8; 16] = bytes.try_into().expect("16 bytes");
        return Address::V6(Ipv6Addr::from(bytes));
    }
    if format == fi::FI_ADDR_STR {
        return Address::Text;
    }
    Address::Native(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_are_read() {
        let mut v4 = [0u8; 16];
        v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        v4[4..8].copy_from_slice(&[127, 0, 0, 1]);
        let loopback = Address::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(address(fi::FI_SOCKADDR_IN, &v4), loopback);
        assert_eq!(address(fi::FI_SOCKADDR, &v4), loopback);
        let mut v6 = [0u8; 28];
        v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        v6[23] = 1;
        assert_eq!(address(fi::FI_SOCKADDR_IN6, &v6), Address::V6(Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn other_addresses_are_named_by_their_format() {
        assert_eq!(address(fi::FI_ADDR_EFA, &[0; 32]), Address::Native(12));
        assert_eq!(address(fi::FI_ADDR_STR, b"fi_shm://1"), Address::Text);
        for short in [&[][..], &[2], &[2, 0, 0, 0, 127]] {
            assert_eq!(address(fi::FI_SOCKADDR_IN, short), Address::Native(fi::FI_SOCKADDR_IN));
        }
    }
}
