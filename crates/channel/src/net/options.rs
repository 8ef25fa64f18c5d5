//! What the tunables ask of the network.

use super::choice::Wish;
use mica_node::tunables::{self, BadValue};

/// What the net channel is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which of the fabrics that the library offers.
    pub wish: Wish,
    /// The library's file (`MICA_NET_LIBRARY`); `None`: libfabric.so.1 as the dynamic linker finds it.
    pub library: Option<String>,
    /// Largest payload of a packet in bytes (`MICA_NET_EAGER_MAX`); the smallest among the job's ranks holds.
    pub payload_max: usize,
}

/// Bounds of `payload_max`: a control message's list must fit, and buffers are allocated by the dozen.
const PAYLOAD_LEAST: usize = 256;
const PAYLOAD_MOST: usize = 1 << 22;

impl Options {
    /// What the environment says. `all_on_one_machine`: no rank is elsewhere, so that a loopback interface will do.
    ///
    /// # Errors
    /// When a tunable's value does not fit.
    pub fn in_force(all_on_one_machine: bool) -> Result<Options, BadValue> {
        let named = |tunable: &tunables::Tunable| {
            tunable.check()?;
            Ok(Some(tunable.text()).filter(|text| text != "auto"))
        };
        let payload_max = tunables::NET_EAGER_MAX.number()?;
        if !(PAYLOAD_LEAST as u64..=PAYLOAD_MOST as u64).contains(&payload_max) {
            return Err(BadValue {
                env: tunables::NET_EAGER_MAX.env,
                value: tunables::NET_EAGER_MAX.text(),
                expected: "a number of bytes from 256 to 4M".to_owned(),
            });
        }
        Ok(Options {
            wish: Wish {
                provider: named(&tunables::NET_PROVIDER)?,
                interface: named(&tunables::NET_INTERFACE)?,
                all_on_one_machine,
            },
            library: named(&tunables::NET_LIBRARY)?,
            payload_max: payload_max as usize,
        })
    }
}
