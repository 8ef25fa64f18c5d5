//! `mpiexec` over a real ssh: an sshd of the test's own on loopback, with keys of its own, reached
//! as two hosts.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SSHD: &str = "/usr/sbin/sshd";

/// An sshd that lets the test's key in.
struct Daemon {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Daemon {
    /// Starts it; `None`, with the reason printed, where there is none or only root may.
    fn start() -> Option<Daemon> {
        if !Path::new(SSHD).exists() {
            println!("skipped: there is no {SSHD}");
            return None;
        }
        let uid = Command::new("id").arg("-u").output().unwrap().stdout;
        if uid != b"0\n" {
            println!("skipped: an sshd that accepts the user of these tests needs root");
            return None;
        }
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sshd-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for key in ["host", "user"] {
            let path = folder.join(key);
            let _ = fs::remove_file(&path);
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path)
                .status();
            assert!(made.unwrap().success());
        }
        // Its place for privilege separation, which Debian's service makes.
        fs::create_dir_all("/run/sshd").unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let option = |name: &str, value: String| format!("{name}={value}");
        let process = Command::new(SSHD)
            .args(["-D", "-f", "/dev/null", "-p", &port.to_string(), "-h"])
            .arg(folder.join("host"))
            .args(["-o", "ListenAddress=127.0.0.1", "-o", "ListenAddress=127.0.0.2"])
            .args(["-o", "StrictModes=no", "-o", "PidFile=none", "-o", "PermitRootLogin=yes", "-o"])
            .arg(option("AuthorizedKeysFile", folder.join("user.pub").display().to_string()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Daemon { process, folder, port };
        while TcpStream::connect(("127.0.0.2", port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(daemon)
    }

    fn run(&self, key: &str, arguments: &[&str]) -> Output {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let shell = format!(
            "ssh -x -F none -o BatchMode=yes -o StrictHostKeyChecking=no -p {} -i {} -o \
            UserKnownHostsFile={}",
            self.port,
            path(key),
            path("known")
        );
        Command::new(env!("CARGO_BIN_EXE_mpiexec"))
            .args([
                "-hosts",
                "127.0.0.1,127.0.0.2",
                "-iface",
                "127.0.0.1",
                "--launcher-exec",
                &shell,
            ])
            .args(arguments)
            .env("OWN", "a 'quoted' value")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_job_over_ssh() {
    let Some(daemon) = Daemon::start() else {
        return;
    };
    let script = "echo $MICA_RANK/$MICA_SIZE $OWN ${SSH_CONNECTION:+by ssh}";
    // With a fan-out of 1 the first host starts the agent of the second.
    for fanout in ["32", "1"] {
        let words = ["-ppn", "2", "--fanout", fanout, "sh", "-c", script];
        let output = daemon.run("user", &words);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let report = String::from_utf8(output.stderr).unwrap();
        let wanted = [0, 1, 2, 3].map(|rank| format!("{rank}/4 a 'quoted' value by ssh"));
        assert_eq!(lines, wanted, "{report}");
        assert_eq!(report, "");
    }

    let output =
        daemon.run("user", &["-n", "2", "sh", "-c", "test $MICA_RANK = 1 && exit 3; sleep 1000"]);
    assert_eq!(output.status.code(), Some(3));
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(report.contains(" on 127.0.0.2) exited with code 3"), "{report}");

    // A key that is not let in: ssh's own words.
    let output = daemon.run("host", &["true"]);
    assert_eq!(output.status.code(), Some(1));
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(report.contains("cannot start an agent on host 127.0.0."), "{report}");
    assert!(report.contains("Permission denied"), "{report}");
}
