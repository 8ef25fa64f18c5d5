//! `mica doctor`: what hinders MPI on this machine or in this container, and the remedy.
//!
//! [`facts`] queries the system once. [`checks`] is a table of pure functions from these facts to
//! findings, so that tests can run each with the facts of another machine. The exit status is 1 if
//! a finding hinders. [`report`] puts all of it into a document for who mends Mica.

mod checks;
mod facts;
pub mod report;

use std::fmt::Write as _;

use serde::Serialize;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// All is well.
    Fine,
    /// Worth knowing: some uses are slower or not possible.
    Note,
    /// Jobs fail, or are much slower than this machine allows.
    Hinders,
}

/// What one check has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckFinding {
    /// The name of the check.
    pub check: &'static str,
    pub weight: Weight,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// All findings, and `healthy` if none of them hinders.
#[derive(Serialize)]
pub struct DoctorReport {
    pub healthy: bool,
    pub findings: Vec<CheckFinding>,
}

impl DoctorReport {
    /// Checks this machine.
    pub fn gather() -> DoctorReport {
        DoctorReport::of(checks::all(&facts::DoctorFacts::gather()))
    }

    fn of(findings: Vec<CheckFinding>) -> DoctorReport {
        let hinders = |finding: &CheckFinding| finding.weight == Weight::Hinders;
        DoctorReport { healthy: !findings.iter().any(hinders), findings }
    }

    /// The report as text: what hinders, what is worth knowing, and with `all` what is fine.
    pub fn render(&self, all: bool) -> String {
        let mut text = String::new();
        let of = |weight| {
            let findings = self.findings.iter();
            findings.filter(move |finding| finding.weight == weight)
        };
        for (weight, title) in
            [(Weight::Hinders, "Hinders"), (Weight::Note, "Worth knowing"), (Weight::Fine, "Well")]
        {
            if of(weight).next().is_none() || (weight == Weight::Fine && !all) {
                continue;
            }
            let _ = writeln!(text, "{title}");
            for CheckFinding { check, found, remedy, .. } in of(weight) {
                let _ = writeln!(text, "  {check:<14} {found}");
                if let Some(remedy) = remedy {
                    let _ = writeln!(text, "  {:<14} remedy: {remedy}", "");
                }
            }
            text.push('\n');
        }
        let fine = of(Weight::Fine).count();
        let hinders = of(Weight::Hinders).count();
        let _ = match hinders {
            0 => writeln!(text, "Nothing hinders MPI here ({fine} checks are well)."),
            1 => writeln!(text, "1 thing hinders MPI here ({fine} checks are well)."),
            n => writeln!(text, "{n} things hinder MPI here ({fine} checks are well)."),
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(weight: Weight) -> CheckFinding {
        CheckFinding {
            check: "name",
            weight,
            found: format!("found {weight:?}"),
            remedy: (weight != Weight::Fine).then(|| "do this".to_owned()),
        }
    }

    #[test]
    fn the_report_says_what_hinders_first() {
        let all = [Weight::Fine, Weight::Note, Weight::Hinders].map(finding);
        let report = DoctorReport::of(all.to_vec());
        assert!(!report.healthy);
        let text = report.render(false);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(at("found Hinders") < at("found Note"));
        assert!(text.contains("remedy: do this") && !text.contains("found Fine"), "{text}");
        assert!(report.render(true).contains("found Fine"));
        assert!(text.ends_with("1 thing hinders MPI here (1 checks are well).\n"), "{text}");
        assert!(DoctorReport::of(vec![finding(Weight::Note)]).healthy);
    }

    #[test]
    fn reads_this_machine() {
        let report = DoctorReport::gather();
        assert!(report.findings.len() >= checks::COUNT, "each check has something to say");
        for finding in &report.findings {
            let needs_remedy = finding.weight == Weight::Hinders;
            assert!(!needs_remedy || finding.remedy.is_some(), "{finding:?}");
        }
    }
}
