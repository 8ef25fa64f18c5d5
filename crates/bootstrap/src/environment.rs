//! The variables by which a launcher describes the job.

use crate::BootstrapError;

/// The variable with the number of the socket to the launcher, under PMI-1 and PMI-2.
pub(crate) const PMI_FD: &str = "PMI_FD";

/// A variable's value as text.
pub(crate) fn text(variable: &str) -> Option<String> {
    let value = std::env::var_os(variable)?;
    Some(value.to_string_lossy().into_owned())
}

/// A variable's value as a number; `None` if it is not set.
pub(crate) fn number<T: std::str::FromStr>(
    variable: &'static str,
) -> Result<Option<T>, BootstrapError> {
    let Some(value) = text(variable) else {
        return Ok(None);
    };
    let number = value.parse().ok();
    number.map(Some).ok_or(BootstrapError::BadEnvironment {
        variable,
        value,
        reason: "expected a number, as the launcher sets it",
    })
}

/// A variable's value as a number, which the launcher must have set.
pub(crate) fn required<T: std::str::FromStr>(variable: &'static str) -> Result<T, BootstrapError> {
    number(variable)?.ok_or_else(|| BootstrapError::BadEnvironment {
        variable,
        value: String::new(),
        reason: "is not set, but the launcher's other variables, or MICA_PMI, say that it should \
            be",
    })
}
