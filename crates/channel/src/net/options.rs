//! The options of the network channel, from the tunables.

use super::choice::ProviderRequest;
use super::wire;
use mica_node::tunables::{self, BadValue};

/// The options with which the channel is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetOptions {
    /// Which provider and interface to choose.
    pub wish: ProviderRequest,
    /// The library's file (`MICA_NET_LIBRARY`); `None`: libfabric.so.1 as the dynamic linker finds
    /// it.
    pub library: Option<String>,
    /// Largest payload of a packet in bytes (`MICA_NET_EAGER_MAX`); `None`: what the provider sends
    /// in one piece. The smallest value among the job's ranks applies.
    pub payload_max: Option<usize>,
}

/// Bounds of `payload_max`, in bytes: the list in a control message must fit, and buffers are
/// allocated by the dozen.
const PAYLOAD_LEAST: usize = 256;
const PAYLOAD_MOST: usize = 1 << 22;

/// What the layer ofi_rxm sends in one piece, in bytes: the size of its buffers. It splits longer
/// messages, which is slower than RMA reads.
const RXM_PIECE: usize = 16 << 10;

/// Largest payload, in bytes, if the provider has no such limit: above it, an RMA read costs less
/// than two copies (docs/design/net.md).
const PIECE: usize = 64 << 10;

impl NetOptions {
    /// Largest payload of a packet over `provider`, before other limits apply.
    pub fn payload_max_by(&self, provider: &str) -> usize {
        self.payload_max.unwrap_or(if provider.contains(";ofi_rxm") {
            RXM_PIECE - wire::HEAD - crate::shm::INLINE
        } else {
            PIECE
        })
    }

    /// The options from the environment. `all_on_one_machine`: all ranks are on this machine, so a
    /// loopback interface is sufficient.
    ///
    /// # Errors
    /// If a tunable's value is invalid.
    pub fn in_force(all_on_one_machine: bool) -> Result<NetOptions, BadValue> {
        let named = |tunable: &tunables::Tunable| {
            tunable.check()?;
            Ok(Some(tunable.text()).filter(|text| text != "auto"))
        };
        let payload_max = tunables::NET_EAGER_MAX.threshold()?;
        if payload_max.is_some_and(|max| !(PAYLOAD_LEAST..=PAYLOAD_MOST).contains(&max)) {
            return Err(BadValue {
                env: tunables::NET_EAGER_MAX.env,
                value: tunables::NET_EAGER_MAX.text(),
                expected: "a number of bytes from 256 to 4M, or auto".to_owned(),
            });
        }
        Ok(NetOptions {
            wish: ProviderRequest {
                provider: named(&tunables::NET_PROVIDER)?,
                interface: named(&tunables::NET_INTERFACE)?,
                all_on_one_machine,
            },
            library: named(&tunables::NET_LIBRARY)?,
            payload_max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_for_where_the_environment_says_nothing() {
        if tunables::all().iter().any(|t| t.env.starts_with("MICA_NET") && t.is_set()) {
            println!("skipped: the environment sets MICA_NET variables");
            return;
        }
        for all_on_one_machine in [false, true] {
            let wish = ProviderRequest { all_on_one_machine, ..ProviderRequest::default() };
            let options = NetOptions::in_force(all_on_one_machine).unwrap();
            assert_eq!((options.wish, options.library, options.payload_max), (wish, None, None));
        }
    }
}
