//! What the environment says of a job that variables describe, and where its ranks meet.
//!
//! | variable | meaning |
//! |---|---|
//! | `RANK`, `WORLD_SIZE` | rank and size |
//! | `MASTER_ADDR` | the host of rank 0, as the others reach it |
//! | `MASTER_PORT` | distinguishes jobs of that host; torchrun or the program listen there |
//! | `LOCAL_WORLD_SIZE` | ranks of this node, if set: of one node if it is the size |
//! | `TORCHELASTIC_RUN_ID` | torchrun's name for the job, if set |
//! | `MICA_JOIN_ADDRESS` | `HOST:PORT` for rank 0, in place of what follows from these |
//! | `MICA_COOKIE` | a secret of the job |
//!
//! torchrun's count of restarts is not used: each of its agents counts its own.

use mica_node::handover::own_uid;
use mica_node::sip_hash::sip_hash;
use mica_node::tunables::JOIN_ADDRESS;

use crate::BootstrapError;
use crate::environment;
use crate::manager::unhex;

pub(crate) const RANK: &str = "RANK";
pub(crate) const SIZE: &str = "WORLD_SIZE";
const HOST: &str = "MASTER_ADDR";
const PORT: &str = "MASTER_PORT";
const LOCAL_SIZE: &str = "LOCAL_WORLD_SIZE";
const RUN_ID: &str = "TORCHELASTIC_RUN_ID";

/// Environment variable: a secret that the ranks of a job which variables describe must have in
/// common.
pub const COOKIE_VARIABLE: &str = "MICA_COOKIE";

/// Ports, or names of Unix sockets, that rank 0 tries. A stranger or another job may have some.
const PLACES: u8 = 8;

/// The ports of all jobs: below those that Linux gives to sockets that ask for none (32768 and up),
/// and those of Kubernetes' services (30000 and up).
const PORTS: std::ops::Range<u16> = 20_000..30_000;

type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where rank 0 waits for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RootPlaces {
    /// Abstract names of Unix sockets.
    Names(Vec<String>),
    /// The host's name or address, and ports there.
    Ports { host: String, ports: Vec<u16> },
}

/// What the environment says.
#[derive(Debug, Clone)]
pub(super) struct EnvSettings {
    pub rank: u32,
    pub size: u32,
    /// The job's name. Two jobs that can meet have different ones.
    pub job: String,
    pub places: RootPlaces,
    pub cookie: [u8; 16],
}

/// The variables that describe a job of several ranks to the process that calls this; none if some
/// are missing.
pub fn describing_variables() -> Vec<&'static str> {
    let get = &environment::text;
    let all = [RANK, SIZE, HOST, PORT, JOIN_ADDRESS.env];
    let set = all.into_iter().filter(|variable| is_described(get) && get(variable).is_some());
    set.collect()
}

/// Whether the environment describes a job of several ranks. Programs export RANK or WORLD_SIZE for
/// other purposes, so all variables must be there.
pub(crate) fn is_described(get: Get<'_>) -> bool {
    let is_set = |variable: &str| get(variable).is_some_and(|value| !value.is_empty());
    let has_address = given_address(get).is_some() || is_set(HOST) && is_set(PORT);
    is_set(RANK) && is_set(SIZE) && has_address && get(SIZE).is_some_and(|size| size != "1")
}

/// The address that replaces what follows from the other variables, if one is given.
fn given_address(get: Get<'_>) -> Option<String> {
    get(JOIN_ADDRESS.env).filter(|value| !value.is_empty() && value != "auto")
}

impl EnvSettings {
    /// Reads the variables.
    ///
    /// # Errors
    /// When one that is needed is not set, or its value makes no sense.
    pub(super) fn read(get: Get<'_>) -> Result<EnvSettings, BootstrapError> {
        let rank: u32 = number(get, RANK)?;
        let size = number(get, SIZE)?;
        if rank >= size {
            return Err(bad(RANK, rank.to_string(), "is not below WORLD_SIZE"));
        }
        let given = given_address(get).map(|value| parse_address(&value)).transpose()?;
        let (host, port) = match &given {
            Some(address) => address.clone(),
            None => (text(get, HOST)?, number(get, PORT)?),
        };
        let job = format!("{port} {}", get(RUN_ID).unwrap_or_default());
        let hash = |number: u8, base: &str| {
            let mut key = [0; 16];
            key[0] = number;
            sip_hash(&key, base.as_bytes())
        };
        let local_size = get(LOCAL_SIZE).and_then(|local| local.parse().ok());
        let places = if given.is_some() {
            RootPlaces::Ports { host, ports: vec![port] }
        } else if local_size == Some(size) || is_loopback(&host) {
            let base = format!("mica-job-{}-{:016x}", own_uid(), hash(0, &job));
            RootPlaces::Names((0..PLACES).map(|number| format!("{base}.{number}")).collect())
        } else {
            let count = u64::from(PORTS.end - PORTS.start);
            let port = |number| PORTS.start + (hash(number, &job) % count) as u16;
            RootPlaces::Ports { host, ports: (0..PLACES).map(port).collect() }
        };
        Ok(EnvSettings { rank, size, job, places, cookie: cookie(get)? })
    }
}

/// Whether a host is the machine itself, as it is written: what a name leads to may differ from
/// machine to machine.
fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Splits `HOST:PORT`; an IPv6 address stands in brackets.
fn parse_address(value: &str) -> Result<(String, u16), BootstrapError> {
    let parts = value.rsplit_once(':').and_then(|(host, port)| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        let is_host = !host.is_empty() && (inner.is_some() || !host.contains(':'));
        Some((host.to_owned(), port.parse().ok().filter(|_| is_host)?))
    });
    parts.ok_or_else(|| bad(JOIN_ADDRESS.env, value.to_owned(), "expected HOST:PORT"))
}

fn cookie(get: Get<'_>) -> Result<[u8; 16], BootstrapError> {
    let Some(text) = get(COOKIE_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok([0; 16]);
    };
    let bytes = unhex(&text).and_then(|bytes| bytes.try_into().ok());
    // The value is a secret, and is not shown.
    let shown = format!("({} characters)", text.chars().count());
    let reason = "expected 32 hexadecimal digits, such as `openssl rand -hex 16` prints";
    bytes.ok_or_else(|| bad(COOKIE_VARIABLE, shown, reason))
}

fn text(get: Get<'_>, variable: &'static str) -> Result<String, BootstrapError> {
    let value = get(variable).filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        bad(
            variable,
            String::new(),
            "is not set; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT \
            describe a job together",
        )
    })
}

fn number<T: std::str::FromStr>(get: Get<'_>, variable: &'static str) -> Result<T, BootstrapError> {
    let value = text(get, variable)?;
    value.parse().map_err(|_| bad(variable, value, "expected a number, as torchrun sets it"))
}

fn bad(variable: &'static str, value: String, reason: &'static str) -> BootstrapError {
    BootstrapError::BadEnvironment { variable, value, reason }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What torchrun sets for a rank of a job over two hosts, and changes to it.
    pub(crate) fn settings(
        rank: u32,
        size: u32,
        changes: &[(&str, &str)],
    ) -> Result<EnvSettings, BootstrapError> {
        let (rank, size) = (rank.to_string(), size.to_string());
        let torchrun = [
            (RANK, rank.as_str()),
            (SIZE, &size),
            (HOST, "192.0.2.7"),
            (PORT, "29500"),
            (LOCAL_SIZE, "1"),
            (RUN_ID, "none"),
        ];
        EnvSettings::read(&|name: &str| {
            let found = changes.iter().chain(&torchrun).find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn places(changes: &[(&str, &str)]) -> RootPlaces {
        settings(1, 4, changes).expect("sound").places
    }

    #[test]
    fn ranks_of_one_node_meet_without_a_port() {
        for changes in [(LOCAL_SIZE, "4"), (HOST, "localhost"), (HOST, "127.0.1.1"), (HOST, "::1")]
        {
            let RootPlaces::Names(names) = places(&[changes]) else {
                panic!("{changes:?}");
            };
            assert_eq!(names.len(), usize::from(PLACES));
            assert!(names[0].ends_with(".0") && names[0] != names[1]);
        }
        assert!(matches!(places(&[]), RootPlaces::Ports { .. }));
    }

    #[test]
    fn ports_follow_from_the_job_and_are_not_the_masters() {
        let ports = |changes: &[(&str, &str)]| match places(changes) {
            RootPlaces::Ports { ports, .. } => ports,
            names => panic!("{names:?}"),
        };
        let all = ports(&[]);
        assert_eq!(all, ports(&[(HOST, "another.example")]));
        assert!(all.iter().all(|port| PORTS.contains(port)));
        assert_ne!(all, ports(&[(PORT, "29501")]));
        assert_ne!(all, ports(&[(RUN_ID, "other")]));
        let given = places(&[(JOIN_ADDRESS.env, "[2001:db8::1]:5000")]);
        assert_eq!(given, RootPlaces::Ports { host: "2001:db8::1".to_owned(), ports: vec![5000] });
    }

    #[test]
    fn rejects_values_by_variable() {
        for (variable, value) in [
            (RANK, "4"),
            (RANK, "x"),
            (SIZE, ""),
            (PORT, "70000"),
            (JOIN_ADDRESS.env, "host"),
            (JOIN_ADDRESS.env, "::1:5"),
            (JOIN_ADDRESS.env, ":5"),
            (COOKIE_VARIABLE, "secret"),
        ] {
            let error = settings(1, 4, &[(variable, value)]).expect_err(variable).to_string();
            assert!(error.contains(variable), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let cookie = settings(1, 4, &[(COOKIE_VARIABLE, "000102030405060708090a0b0c0d0eff")]);
        assert_eq!(cookie.expect("sound").cookie[15], 0xff);
    }

    #[test]
    fn all_variables_together_describe_a_job() {
        let all = [(RANK, "0"), (SIZE, "2"), (HOST, "h"), (PORT, "1")];
        let described = |set: &[(&str, &str)]| {
            is_described(&|name: &str| {
                let found = set.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(described(&all));
        for missing in 0..all.len() {
            let mut some = all.to_vec();
            some.remove(missing);
            assert!(!described(&some), "{some:?}");
        }
        assert!(described(&[all[0], all[1], (JOIN_ADDRESS.env, "h:1")]));
        assert!(!described(&[all[0], all[1], (JOIN_ADDRESS.env, "auto")]));
        assert!(!described(&[all[0], (SIZE, "1"), all[2], all[3]]));
    }
}
