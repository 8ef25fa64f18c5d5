//! A machine of its own for foreign launchers: namespaces with only a loopback interface, in which
//! they may listen and connect as they like, and a one-machine Slurm on request.
//!
//! All its processes end with its first process. That one waits for the end of its standard input,
//! so it ends with the test, however the test ends.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Job;

/// How long daemons may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The namespaces, by the names that unshare and nsenter share.
const NAMESPACES: [&str; 5] = ["--net", "--uts", "--ipc", "--mount", "--pid"];

/// What the first process runs. It has its own /dev/shm, because other libraries leave files there
/// when they are killed. It has an address besides 127.0.0.0/8: without one the C library resolves
/// no names (AI_ADDRCONFIG). The address is from the documentation range, on the loopback
/// interface.
const FIRST: &str = "hostname localhost && mount -t tmpfs none /dev/shm && ip link set lo up && \
    ip address add 192.0.2.1/32 dev lo && echo up && cat >/dev/null";

/// The daemons of Slurm; `$D` is their folder.
const DAEMONS: &str = "munged --force --foreground --num-threads=2 --key-file=$D/munge.key \
    --socket=$D/munge.socket --pid-file=$D/munged.pid --log-file=$D/munged.log \
    --seed-file=$D/munge.seed >$D/munged.out 2>&1 & \
    while [ ! -S $D/munge.socket ]; do sleep 0.05; done; \
    slurmctld -D -i >$D/slurmctld.out 2>&1 & \
    slurmd -D >$D/slurmd.out 2>&1 &";

/// A machine that is removed when this is dropped.
#[derive(Debug)]
pub struct Machine {
    first: Child,
    inside: i32,
    folder: PathBuf,
    slurm: bool,
}

impl Machine {
    /// A machine without daemons.
    ///
    /// # Panics
    /// If namespaces cannot be made (root is needed).
    pub fn start() -> Machine {
        Machine::with(false)
    }

    /// A machine on which Slurm runs: one node, eight nominal processors. A program that fails ends
    /// its job.
    ///
    /// # Panics
    /// As [`Machine::start`], and if Slurm does not come up (Debian: slurm-wlm, munge), with its
    /// logs.
    pub fn with_slurm() -> Machine {
        Machine::with(true)
    }

    fn with(slurm: bool) -> Machine {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-machine-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("state")).expect("a temporary folder");
        for inner in ["spool", "tmp"] {
            fs::create_dir_all(folder.join(inner)).expect("a temporary folder");
        }
        let mut script = format!("D={}; ", folder.display());
        if slurm {
            write_slurm_files(&folder);
            // In parentheses: the daemons must not share standard input, because its end is the end
            // of the machine.
            script += &FIRST.replace("cat >", &format!("{{ ({DAEMONS}) </dev/null; cat >"));
            script += "; }";
        } else {
            script += FIRST;
        }
        let mut first = Command::new("unshare")
            .args(NAMESPACES)
            .args(["--fork", "--kill-child", "--mount-proc", "sh", "-c", &script])
            .env("SLURM_CONF", folder.join("slurm.conf"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("unshare (of util-linux): {e}"));
        let mut up = [0; 3];
        let said = first.stdout.as_mut().expect("piped").read_exact(&mut up);
        assert!(
            said.is_ok() && up == *b"up\n",
            "a machine of namespaces cannot be made: that takes root, unshare and ip (util-linux, \
            iproute2)"
        );
        let children = format!("/proc/{0}/task/{0}/children", first.id());
        let children = fs::read_to_string(children).expect("unshare has a child");
        let machine =
            Machine { inside: children.trim().parse().expect("one child"), first, folder, slurm };
        if slurm {
            machine.wait_for_slurm();
        }
        machine
    }

    /// A job that runs a program in the machine.
    pub fn job(&self, program: impl AsRef<OsStr>) -> Job {
        let inside = self.inside.to_string();
        let job = Job::new("nsenter").args(["--target", &inside]);
        let job = job.args(NAMESPACES).args([program.as_ref()]);
        let conf = self.folder.join("slurm.conf");
        match self.slurm {
            true => job.env("SLURM_CONF", &conf.display().to_string()),
            false => job,
        }
    }

    fn wait_for_slurm(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let state = self.job("sinfo").args(["-h", "-o", "%T"]).run();
            if state.stdout.trim() == "idle" {
                return;
            }
            if Instant::now() > until {
                let logs = ["munged.out", "slurmctld.log", "slurmd.log", "slurmd.out"];
                let logs = logs.map(|log| {
                    let text = fs::read_to_string(self.folder.join(log)).unwrap_or_default();
                    format!("{log}:\n{text}")
                });
                let logs = logs.join("\n");
                panic!("Slurm (slurm-wlm, munge) is not up:\n{}\n{logs}", state.report());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Killing unshare ends its child; the end of the first process of a PID namespace ends all
        // others.
        let _ = self.first.kill();
        let _ = self.first.wait();
        let until = Instant::now() + Duration::from_secs(5);
        while Path::new(&format!("/proc/{}", self.inside)).exists() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write_slurm_files(folder: &Path) {
    let conf = "ClusterName=mica
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=@/munge.socket
CredType=cred/munge
StateSaveLocation=@/state
SlurmdSpoolDir=@/spool
SlurmctldPidFile=@/slurmctld.pid
SlurmdPidFile=@/slurmd.pid
SlurmctldLogFile=@/slurmctld.log
SlurmdLogFile=@/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
KillOnBadExit=1
ReturnToService=2
MailProg=/bin/true
TmpFS=@/tmp
NodeName=localhost NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=test Nodes=localhost Default=YES MaxTime=INFINITE State=UP
";
    let conf = conf.replace('@', &folder.display().to_string());
    fs::write(folder.join("slurm.conf"), conf).expect("a temporary folder");
    let mut key = [0; 128];
    let random = fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut key));
    random.expect("random bytes");
    let path = folder.join("munge.key");
    fs::write(&path, key).expect("a temporary folder");
    let only_ours = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, only_ours).expect("own file");
}
