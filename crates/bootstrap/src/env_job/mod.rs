//! A job that variables alone describe: `RANK` and `WORLD_SIZE`, as torchrun, Kubernetes'
//! PyTorchJob or a loop in a shell set them.
//!
//! No launcher serves such a job. Its ranks meet at rank 0, to which every other rank keeps a
//! connection: a Unix socket if all ranks are on one node, else TCP. `MASTER_PORT` itself is left
//! to the program, or to torchrun, whose own store listens there: rank 0 takes the first free port
//! of a series that follows from it ([`settings`]).
//!
//! ```text
//! rank 0                                        rank r
//!   greeting, challenge                   ->
//!                                         <-    rank, size, challenge, proof
//!   proof                                 ->
//!                                         <-    at each fence: what it has put
//!   when all have come: what all have put ->
//! ```
//!
//! The proofs ([`proof`]) show that both are of one job and know the same secret, if there is one
//! (`MICA_COOKIE`). Rank 0 speaks first, so that a service of another kind that has a port of the
//! series is not sent anything. A value is read from what the last fences brought, without a
//! message.
//!
//! Every wait has a deadline ([`mica_node::tunables::JOIN_TIMEOUT`]). When rank 0 gives up, it says
//! why to all that have come.

mod member;
mod proof;
mod root;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mica_node::handover::own_uid;
use mica_node::tunables;

use crate::claim::{ClaimError, RankClaim, claim};
use crate::{BootstrapError, ProcessIdentity, ProcessManager, descent, environment, long_value};
use root::OtherRanks;
use settings::EnvSettings;
pub use settings::{COOKIE_VARIABLE, describing_variables};
pub(crate) use settings::{RANK, SIZE, is_described};
use stream::{PeerConnection, StoredValue};

const MANAGER: &str = "rank 0 of the job";

/// The interface to a job that variables describe.
#[derive(Debug)]
pub(crate) struct EnvironmentJob {
    identity: ProcessIdentity,
    link: RankLink,
    timeout: Duration,
    /// What was put since the last fence.
    unpublished: Vec<StoredValue>,
    /// What all ranks had put before it.
    values: HashMap<(u32, String), String>,
    claim: Option<RankClaim>,
}

/// The connections that a rank has.
#[derive(Debug)]
enum RankLink {
    /// Of rank 0.
    Root(OtherRanks),
    /// Of any other.
    Member(PeerConnection),
}

/// Meets the other ranks of the job that the environment describes. `None` for a process that a
/// rank of the job has started: it has the rank's variables, and is a job of its own.
///
/// # Errors
/// When the variables are wrong, when another process is this rank, or when not all ranks come.
pub(crate) fn connect() -> Result<Option<EnvironmentJob>, BootstrapError> {
    let settings = EnvSettings::read(&environment::text)?;
    let rank = settings.rank;
    let claim = match claim(&settings.job, &rank.to_string(), own_uid()) {
        Ok(claim) => claim,
        Err(ClaimError::Taken { pid }) if descent::descends_from(pid) => {
            note_once(&settings);
            return Ok(None);
        }
        Err(ClaimError::Taken { .. }) => {
            return Err(BootstrapError::BadEnvironment {
                variable: RANK,
                value: rank.to_string(),
                reason: "another process is this rank already; has another job the same \
                    MASTER_PORT?",
            });
        }
        Err(ClaimError::Failed(source)) => {
            return Err(BootstrapError::System { call: "bind", source });
        }
    };
    let timeout = Duration::from_secs(tunables::JOIN_TIMEOUT.number()?);
    let job = EnvironmentJob::meet(&settings, timeout)?;
    Ok(Some(EnvironmentJob { claim: Some(claim), ..job }))
}

/// Says that this process is a job of its own, unless another one that the rank has started and
/// that still runs has said so.
fn note_once(settings: &EnvSettings) {
    let speaker = format!("{}-descendant", settings.rank);
    if let Ok(speaker) = claim(&settings.job, &speaker, own_uid()) {
        descent::note(settings.rank);
        // Held until the process ends.
        std::mem::forget(speaker);
    }
}

impl EnvironmentJob {
    /// Waits until all ranks have come to rank 0 (there), or until rank 0 has let this one in.
    fn meet(settings: &EnvSettings, timeout: Duration) -> Result<EnvironmentJob, BootstrapError> {
        let deadline = Instant::now() + timeout;
        let link = match settings.rank {
            0 => RankLink::Root(OtherRanks::gather(settings, deadline, timeout)?),
            _ => RankLink::Member(member::connect(settings, deadline, timeout)?),
        };
        Ok(EnvironmentJob {
            identity: ProcessIdentity {
                rank: settings.rank,
                size: settings.size,
                appnum: None,
                universe_size: None,
                job_id: settings.job.clone(),
            },
            link,
            timeout,
            unpublished: Vec::new(),
            values: HashMap::new(),
            claim: None,
        })
    }
}

impl ProcessManager for EnvironmentJob {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        long_value::check(key, value)?;
        let (key, value) = (key.to_owned(), value.to_owned());
        self.unpublished.push(StoredValue { rank: self.identity.rank, key, value });
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        let own = std::mem::take(&mut self.unpublished);
        let deadline = Instant::now() + self.timeout;
        let all = match &mut self.link {
            RankLink::Root(others) => others.fence(own, deadline),
            RankLink::Member(root) => member::fence(root, own, deadline),
        };
        let all = all?.into_iter().map(|stored| ((stored.rank, stored.key), stored.value));
        self.values.extend(all);
        Ok(())
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, BootstrapError> {
        let value = self.values.get(&(rank, key.to_owned()));
        value.cloned().ok_or_else(|| BootstrapError::Refused {
            manager: MANAGER,
            call: format!("a request for {key} of rank {rank}"),
            answer: "no such value".to_owned(),
        })
    }

    fn abort(&mut self, _code: i32, _message: &str) -> Result<(), BootstrapError> {
        // Who started the ranks sees this one's exit status; ranks that wait for it see its end.
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        // The rank remains this process's, so that what it starts from now on does not take it and
        // wait for the others.
        std::mem::forget(self.claim.take());
        Ok(())
    }
}
