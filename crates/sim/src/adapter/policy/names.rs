//! Names of the fixed policies.

use std::fmt;

use thiserror::Error;

use super::fixed::{FixedPolicy, HeaderRule, PayloadRule};

/// Names and what they stand for; of two names for the same, the first is the one that is printed.
pub(super) const NAMES: &[(&str, FixedPolicy)] = &[
    ("base", FixedPolicy::BASE),
    ("header", with(HeaderRule::L2, PayloadRule::Memory)),
    ("hl2", with(HeaderRule::L2, PayloadRule::Memory)),
    ("preposted", payload(PayloadRule::Preposted)),
    ("unexpected", payload(PayloadRule::Unexpected)),
    ("payload", payload(PayloadRule::All)),
    ("message", with(HeaderRule::L2, PayloadRule::All)),
    ("hl2p", with(HeaderRule::L2, PayloadRule::All)),
    ("on-wait", payload(PayloadRule::OnWait)),
    ("in-cache", payload(PayloadRule::InCache)),
    ("size-dependent", payload(PayloadRule::BySize)),
    ("first-part", payload(PayloadRule::FirstPart)),
    ("processor-direction", payload(PayloadRule::ToCore(0))),
    ("application-driven", payload(PayloadRule::Hinted)),
    ("hint", payload(PayloadRule::Hinted)),
];

const fn with(header: HeaderRule, payload: PayloadRule) -> FixedPolicy {
    FixedPolicy { header, payload }
}

const fn payload(payload: PayloadRule) -> FixedPolicy {
    with(HeaderRule::Memory, payload)
}

/// Why there is no such policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// No such name.
    #[error("no injection policy '{name}': not one of {}, adaptive", all_names())]
    NoSuchPolicy {
        /// The name.
        name: String,
    },
    /// Two places for the same payload.
    #[error("injection policy '{name}' says twice where payload goes")]
    Twice {
        /// The name.
        name: String,
    },
    /// No such core.
    #[error("injection policy '{name}': the machine has cores 0 to {}", cores - 1)]
    NoSuchCore {
        /// The name.
        name: String,
        /// Cores of the machine.
        cores: u32,
    },
}

fn all_names() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The fixed policy of a name, or of names joined by `+`, on a machine with this number of cores.
pub(super) fn parse(text: &str, cores: u32) -> Result<FixedPolicy, PolicyError> {
    let name = || text.to_owned();
    let mut joined = FixedPolicy::BASE;
    for part in text.split('+') {
        let policy = one(part).ok_or_else(|| PolicyError::NoSuchPolicy { name: name() })?;
        if policy.header == HeaderRule::L2 {
            joined.header = HeaderRule::L2;
        }
        match (joined.payload, policy.payload) {
            (_, PayloadRule::Memory) => {}
            (PayloadRule::Memory, rule) => joined.payload = rule,
            _ => return Err(PolicyError::Twice { name: name() }),
        }
    }
    match joined.payload {
        PayloadRule::ToCore(core) if core >= cores => {
            Err(PolicyError::NoSuchCore { name: name(), cores })
        }
        _ => Ok(joined),
    }
}

/// The policy of one name.
fn one(name: &str) -> Option<FixedPolicy> {
    if let Some(core) = name.strip_prefix("processor-direction:") {
        return Some(payload(PayloadRule::ToCore(core.parse().ok()?)));
    }
    let (_, policy) = NAMES.iter().find(|(known, _)| *known == name)?;
    Some(*policy)
}

/// The name that [`parse`] takes.
impl fmt::Display for FixedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMES.iter().find(|(_, policy)| policy == self) {
            return f.write_str(name);
        }
        if self.header == HeaderRule::L2 {
            let rest = FixedPolicy { header: HeaderRule::Memory, ..*self };
            return write!(f, "header+{rest}");
        }
        match self.payload {
            PayloadRule::ToCore(core) => write!(f, "processor-direction:{core}"),
            // All other rules have a name in the table.
            _ => f.write_str("base"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for (name, policy) in NAMES {
            assert_eq!(parse(name, 1), Ok(*policy), "{name}");
        }
        let joined = ["header+on-wait", "processor-direction:1", "hl2+in-cache"];
        let misdirected = ["header+processor-direction:1"];
        for name in joined.iter().chain(&misdirected) {
            let policy = parse(name, 2).expect("a policy");
            assert_eq!(parse(&policy.to_string(), 2), Ok(policy), "{name}");
        }
        assert_eq!(parse("header+payload", 1), parse("hl2p", 1));
        assert_eq!(parse("hl2p", 1).map(|p| p.to_string()), Ok("message".into()));
    }

    #[test]
    fn bad_names_are_refused_in_one_line() {
        let refused = |name| parse(name, 2).expect_err("no policy").to_string();
        let known = "base, header, hl2, preposted";
        for name in ["heder", "", "header+", "processor-direction:x"] {
            let line = refused(name);
            assert!(line.starts_with(&format!("no injection policy '{name}'")), "{line}");
            assert!(line.contains(known) && !line.contains('\n'), "{line}");
        }
        assert!(refused("payload+on-wait").ends_with("says twice where payload goes"));
        let core = refused("processor-direction:2");
        assert!(core.ends_with("the machine has cores 0 to 1"), "{core}");
    }
}
