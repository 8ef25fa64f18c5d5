//! Two hosts made of network namespaces: each has its own address, a cable (a veth pair) joins
//! them, and nothing else is reachable. For tests of jobs over several nodes; making them needs
//! root.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Two namespaces with a cable between them. They are removed when this is dropped.
pub struct Namespaces {
    /// Their names, which are the names of the hosts.
    pub names: [String; 2],
    cable: [String; 2],
}

impl Namespaces {
    /// The remote shell that reaches such a host.
    pub const SHELL: &'static str = "ip netns exec";

    /// Makes the namespaces. Prints the reason and returns `None` where that is not permitted.
    pub fn new() -> Option<Namespaces> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Interface names have at most 15 bytes.
        let unique = format!("{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let names = ["a", "b"].map(|end| format!("mica{unique}{end}"));
        let cable = ["a", "b"].map(|end| format!("mv{unique}{end}"));
        if let Err(reason) = ip(&["netns", "add", &names[0]]) {
            println!("skipped: cannot make network namespaces: {reason}");
            return None;
        }
        // From here on, dropping `made` removes what was made, even on an error.
        let made = Namespaces { names, cable };
        made.connect().expect("a namespace can be set up once it is there");
        Some(made)
    }

    fn connect(&self) -> Result<(), String> {
        let [a, b] = &self.names;
        let [end_a, end_b] = &self.cable;
        ip(&["netns", "add", b])?;
        ip(&["-n", a, "link", "add", end_a, "type", "veth", "peer", "name", end_b, "netns", b])?;
        for (name, end, address) in [(a, end_a, "10.77.0.1/24"), (b, end_b, "10.77.0.2/24")] {
            ip(&["-n", name, "address", "add", address, "dev", end])?;
            ip(&["-n", name, "link", "set", end, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        // The kernel takes up to a second to report a link as up; libfabric does not offer it
        // before.
        for (name, end) in self.names.iter().zip(&self.cable) {
            let is_up = || {
                let shown = ip(&["-n", name, "-o", "link", "show", "dev", end]);
                shown.map(|shown| shown.contains("state UP"))
            };
            let until = Instant::now() + Duration::from_secs(20);
            while !is_up()? {
                if Instant::now() > until {
                    return Err(format!("{end} in {name} does not come up"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// The hosts in the format of `-hosts`.
    pub fn hosts(&self) -> String {
        self.names.join(",")
    }

    /// The command prefix that runs a program on the first host.
    pub fn on_first(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.names[0]]
    }

    /// Cuts the cable at the second host.
    pub fn cut(&self) {
        self.set_cable("down");
    }

    /// Mends the cable that was cut.
    #[allow(dead_code, reason = "not all tests that include this file do")]
    pub fn mend(&self) {
        self.set_cable("up");
    }

    fn set_cable(&self, state: &str) {
        ip(&["-n", &self.names[1], "link", "set", &self.cable[1], state]).expect("a cable");
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // The second one may not have been made. The cable is removed with its ends.
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// Returns what `ip` prints, or why it fails.
fn ip(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", arguments.join(" "), said.trim()))
}
