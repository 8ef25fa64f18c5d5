//! Opens a page in a browser without a screen, for the tests of pages: does it work from its file
//! alone, and does the browser complain?

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The browser, if this machine has one.
pub fn browser() -> Option<&'static str> {
    let there = |name: &&str| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(there)
}

/// The page's document after its script ran, and what the browser's console said.
pub fn open(browser: &str, page: &Path) -> (String, String) {
    let page = fs::canonicalize(page).unwrap();
    let directory = page.parent().unwrap();
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--window-size=1280,900", "--virtual-time-budget=2000"])
        // No name can be resolved, and what goes to an address goes to a proxy that is not there.
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9"])
        .arg(format!("--user-data-dir={}", directory.join("browser").display()))
        .args(["--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{browser}: {}", text(&out.stderr));
    let errors = text(&out.stderr);
    let console = errors.lines().filter(|line| line.contains("CONSOLE"));
    (text(&out.stdout), console.collect::<Vec<_>>().join("\n"))
}
