//! Claims a rank of a job on this machine that PMIx or variables describe: an abstract socket that
//! the process holds as long as it lives. A program that an MPI program starts inherits all that
//! these go by, and would be the same rank again; it finds the name taken.
//!
//! The name follows from the environment, so processes of other users can take it first. The kernel
//! says whose socket it is (SO_PEERCRED): the name of another user's is passed over for the next of
//! a fixed series, which all processes of this user try in the same order. A stranger could only
//! keep a second process from being found out, by taking a name and giving it back.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Instant;

use mica_node::handover::{HandoverConnection, HandoverListener};

/// Names tried. A stranger who wants to keep a rank from starting must hold all of them.
const NAMES_MAX: u32 = 1000;
/// Times that one name is tried, if its holder ends meanwhile.
const TRIES: u32 = 3;

/// A rank held by this process. The kernel frees the name when the process ends; children do not
/// inherit it.
#[derive(Debug)]
pub(crate) struct RankClaim {
    /// `None`: strangers held all names, so that nothing guards against a second process.
    _listener: Option<HandoverListener>,
}

/// Why a rank cannot be claimed.
#[derive(Debug)]
pub(crate) enum ClaimError {
    /// A process of the same user has it.
    Taken {
        /// That process, as far as it is visible here (0: it is not).
        pid: u32,
    },
    /// The system refuses a socket.
    Failed(io::Error),
}

/// Makes this process, of user `uid`, the only one that is rank `rank` of job `namespace`.
///
/// # Errors
/// When a process of the same user has the rank, or the system refuses a socket.
pub(crate) fn claim(namespace: &str, rank: &str, uid: u32) -> Result<RankClaim, ClaimError> {
    let mut hasher = DefaultHasher::new();
    namespace.hash(&mut hasher);
    let base = format!("mica-rank-{uid}-{:016x}-{rank:.20}", hasher.finish());
    for number in 0..NAMES_MAX {
        if let Some(listener) = try_name(format!("{base}.{number}").as_bytes(), uid)? {
            return Ok(RankClaim { _listener: Some(listener) });
        }
    }
    // The claim protects the user from a mistake. It must not let strangers stop the job.
    Ok(RankClaim { _listener: None })
}

/// Takes this name; `None` if another user has it.
fn try_name(name: &[u8], uid: u32) -> Result<Option<HandoverListener>, ClaimError> {
    for _ in 0..TRIES {
        match HandoverListener::bind(name) {
            Ok(listener) => return Ok(Some(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(ClaimError::Failed(error)),
        }
        match HandoverConnection::connect(name, Instant::now()).and_then(|holder| holder.peer()) {
            Ok(holder) if holder.uid == uid => return Err(ClaimError::Taken { pid: holder.pid }),
            // The holder has ended, or does not listen.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            // Another user's, or a socket of another kind, or one that accepts no connection.
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::handover::{nonce, own_uid};

    /// A job that no other test has.
    fn namespace() -> String {
        crate::manager::hex(&nonce().expect("random bytes"))
    }

    #[test]
    fn a_second_process_of_the_user_is_refused() {
        let (job, own) = (namespace(), std::process::id());
        let first = claim(&job, "3", own_uid()).expect("a free rank");
        match claim(&job, "3", own_uid()) {
            Err(ClaimError::Taken { pid }) => assert_eq!(pid, own),
            other => panic!("{other:?}"),
        }
        claim(&job, "4", own_uid()).expect("another rank");
        drop(first);
        claim(&job, "3", own_uid()).expect("free again");
    }

    #[test]
    fn a_name_claimed_by_a_stranger_is_passed_over() {
        let job = namespace();
        // To a process of another user, this test's sockets are a stranger's.
        let other = own_uid() + 1;
        let ours = claim(&job, "0", other).expect("a free rank");
        let theirs = claim(&job, "0", other).expect("the next name");
        assert!(theirs._listener.is_some());
        drop(ours);
    }
}
