//! Takes out of a report what says whose machine it comes from: home directories, names of users
//! and hosts, and addresses.
//!
//! A name is replaced wherever it stands as a word, in paths too. A user who is called as a common
//! word loses that word from the report, which is better than the reverse.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use mica_node::identity::host_name;
use serde_json::Value;

const HOME: &str = "<home>";
const USER: &str = "<user>";
const HOST: &str = "<host>";
const ADDRESS: &str = "<address>";

/// Names that are the same everywhere and say nothing.
const COMMON: [&str; 2] = ["root", "localhost"];

/// What is replaced.
#[derive(Debug, Default)]
pub struct Redaction {
    /// Words and what takes their place, the longest first: one may be a part of another.
    words: Vec<(String, &'static str)>,
}

impl Redaction {
    /// The names of this process's user, home and host.
    pub fn of_this_process() -> Redaction {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let uid = rustix::process::getuid().as_raw();
        let (user, home) = account(&passwd, uid).unwrap_or_default();
        let mut redaction = Redaction::default();
        for home in [variable("HOME"), home] {
            redaction.add_home(&home);
        }
        for user in [variable("USER"), variable("LOGNAME"), user] {
            redaction.add(&user, USER);
        }
        for host in [host_name(), variable("HOSTNAME")] {
            redaction.add_host(&host);
        }
        redaction
    }

    /// A home directory, also by the path that links in it lead to, and the user that it is
    /// called after.
    fn add_home(&mut self, home: &str) {
        let home = home.trim_end_matches('/');
        let path = Path::new(home);
        if !path.is_absolute() || path.parent().is_none() {
            return;
        }
        let resolved = fs::canonicalize(path).ok();
        self.add(home, HOME);
        self.add(&resolved.unwrap_or_default().to_string_lossy(), HOME);
        self.add(&path.file_name().unwrap_or_default().to_string_lossy(), USER);
    }

    /// A host, also by the first part of its name.
    fn add_host(&mut self, host: &str) {
        self.add(host, HOST);
        self.add(host.split('.').next().unwrap_or_default(), HOST);
    }

    /// Letters that stand alone occur anywhere, and say little.
    fn add(&mut self, word: &str, replacement: &'static str) {
        let is_known = self.words.iter().any(|(known, _)| known == word);
        if word.chars().count() > 1 && word != "/" && !COMMON.contains(&word) && !is_known {
            self.words.push((word.to_owned(), replacement));
            self.words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        }
    }

    /// Replaces in all texts of the document. Names of members are the report's own.
    pub fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply(value)),
            Value::Object(members) => members.values_mut().for_each(|value| self.apply(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let words = self.words.iter();
        let text = words.fold(text.to_owned(), |text, (word, replacement)| {
            replace_word(&text, word, replacement)
        });
        without_addresses(&text)
    }
}

/// Name and home directory of a user, by the lines of `/etc/passwd`.
fn account(passwd: &str, uid: u32) -> Option<(String, String)> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut fields = fields.filter(|fields| fields.len() > 5);
    let found = fields.find(|fields| fields[2].parse() == Ok(uid))?;
    Some((found[0].to_owned(), found[5].to_owned()))
}

/// `text` with each `word` replaced that is not a part of a longer one.
fn replace_word(text: &str, word: &str, replacement: &str) -> String {
    let (mut replaced, mut copied) = (String::new(), 0);
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    for (at, _) in text.match_indices(word) {
        let end = at + word.len();
        let goes_on =
            |inside: Option<char>, outside: Option<char>| is_letter(inside) && is_letter(outside);
        let before = goes_on(word.chars().next(), text[..at].chars().next_back());
        let after = goes_on(word.chars().next_back(), text[end..].chars().next());
        if !before && !after {
            replaced += &text[copied..at];
            replaced += replacement;
            copied = end;
        }
    }
    replaced + &text[copied..]
}

/// `text` without addresses that lead to a machine.
fn without_addresses(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '.' || c == ':';
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        let address = word.trim_end_matches(['.', ':']);
        replaced += before;
        match leads_to_a_machine(address) {
            true => replaced = replaced + ADDRESS + &word[address.len()..],
            false => replaced += word,
        }
        rest = after;
    }
    replaced + rest
}

fn leads_to_a_machine(word: &str) -> bool {
    let with_port = || word.parse().map(|address: SocketAddr| address.ip());
    let address: Option<IpAddr> = word.parse().or_else(|_| with_port()).ok();
    address.is_some_and(|address| !address.is_loopback() && !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redaction() -> Redaction {
        let mut redaction = Redaction::default();
        redaction.add_home("/home/arthur/");
        redaction.add_host("heart.gold.example");
        redaction.add("arthur", USER);
        redaction.add("root", USER);
        redaction
    }

    #[test]
    fn names_are_replaced_where_they_are_words() {
        for (text, expected) in [
            ("/home/arthur/mica/lib", "<home>/mica/lib"),
            ("/home/arthur2, /scratch/arthur/x", "/home/arthur2, /scratch/<user>/x"),
            ("on heart.gold.example: heart_7", "on <host>: <host>_7"),
            (
                "hearts and sweetheart stay, as root does",
                "hearts and sweetheart stay, as root does",
            ),
            ("=/home/arthur:/home/arthur", "=<home>:<home>"),
        ] {
            assert_eq!(redaction().text(text), expected);
        }
    }

    #[test]
    fn addresses_are_replaced_and_versions_are_not() {
        for (text, expected) in [
            ("tcp on eth0 192.0.2.1: fastest", "tcp on eth0 <address>: fastest"),
            ("192.0.2.1:80, [2001:db8::1]:80.", "<address>, [<address>]:80."),
            ("fe80::1%eth0", "<address>%eth0"),
            ("127.0.0.1 and ::1 and 0.0.0.0", "127.0.0.1 and ::1 and 0.0.0.0"),
            ("Linux 6.1.0-10, std::fmt, 12:30:45", "Linux 6.1.0-10, std::fmt, 12:30:45"),
        ] {
            assert_eq!(redaction().text(text), expected);
        }
    }

    #[test]
    fn every_text_of_a_document_is_read() {
        let mut document = serde_json::json!({
            "a": [1, null, { "b": "arthur" }], "c": "/home/arthur", "d": true
        });
        redaction().apply(&mut document);
        let expected = serde_json::json!({
            "a": [1, null, { "b": "<user>" }], "c": "<home>", "d": true
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn an_account_is_found_by_its_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\narthur:x:42:42::/home/arthur:/bin/sh\nbad:x\n";
        let found = ("arthur".to_owned(), "/home/arthur".to_owned());
        assert_eq!(account(passwd, 42), Some(found));
        assert_eq!(account(passwd, 43), None);
    }

    #[test]
    fn a_home_that_is_the_root_directory_replaces_nothing() {
        let mut redaction = Redaction::default();
        for home in ["/", "", "relative"] {
            redaction.add_home(home);
        }
        assert_eq!(redaction.text("/usr/lib relative"), "/usr/lib relative");
    }
}
