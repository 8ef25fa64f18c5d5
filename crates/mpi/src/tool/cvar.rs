//! Control variables: the tunables (`mica_node::tunables`).
//!
//! A tunable with words is an `MPI_INT` with an enumeration, a number an `MPI_UNSIGNED_LONG_LONG`;
//! what takes a number or `auto`, a path, or a list is a string (`MPI_CHAR`), as in the
//! environment.
//!
//! The library reads tunables when it starts the engine, so a variable can be written until
//! `MPI_Init` or the first session, and tells so afterwards (`MPI_T_ERR_CVAR_SET_NOT_NOW`). Values
//! of the launcher cannot be written by ranks (`MPI_T_ERR_CVAR_SET_NEVER`).

use super::enumeration;
use super::error::{ToolInterfaceError, ToolResult};
use super::table::{ToolObjects, require, with};
use crate::constants as c;
use crate::process;
use mica_node::tunables::{self, Agreement, Tunable, TunableKind};

/// The type of a variable's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `MPI_INT`.
    Int,
    /// `MPI_UNSIGNED_LONG_LONG`.
    Unsigned,
    /// `MPI_CHAR`, with a terminating zero.
    Text,
}

impl ValueType {
    /// The datatype's handle.
    pub const fn datatype(self) -> u32 {
        match self {
            ValueType::Int => c::INT,
            ValueType::Unsigned => c::UNSIGNED_LONG_LONG,
            ValueType::Text => c::CHAR,
        }
    }
}

/// A value of a control variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CvarValue {
    /// An item of its enumeration.
    Int(i32),
    /// A number.
    Unsigned(u64),
    /// Text.
    Text(String),
}

/// What `MPI_T_cvar_get_info` returns.
#[derive(Debug)]
pub struct CvarInfo {
    /// Its name.
    pub name: String,
    /// Who may want to see it.
    pub verbosity: i32,
    /// The type of its values.
    pub value_type: ValueType,
    /// Handle of its enumeration, or `MPI_T_ENUM_NULL`.
    pub enumeration: u32,
    /// One sentence.
    pub description: &'static str,
    /// When it can be changed, and for whom.
    pub scope: i32,
}

/// Bytes of a string variable, with the terminating zero: more than any path that Linux takes.
pub const TEXT_BYTES: usize = 4096;

/// Number of control variables.
pub fn cvars() -> usize {
    tunables::all().len()
}

fn tunable(index: i32) -> ToolResult<(usize, &'static Tunable)> {
    let index = usize::try_from(index).map_err(|_| ToolInterfaceError::InvalidIndex)?;
    let tunable = tunables::all().get(index).ok_or(ToolInterfaceError::InvalidIndex)?;
    Ok((index, tunable))
}

const fn value_type(kind: TunableKind) -> ValueType {
    match kind {
        TunableKind::Choice(_) => ValueType::Int,
        TunableKind::Bytes | TunableKind::Count => ValueType::Unsigned,
        TunableKind::Threshold | TunableKind::Path(_) | TunableKind::List(_) => ValueType::Text,
    }
}

/// Describes a variable.
///
/// # Errors
/// When there is none of this index.
pub fn cvar_info(index: i32) -> ToolResult<CvarInfo> {
    require()?;
    let (_, tunable) = tunable(index)?;
    let name = enumeration::name_of(tunable);
    Ok(CvarInfo {
        verbosity: c::T_VERBOSITY_TUNER_BASIC,
        value_type: value_type(tunable.kind),
        enumeration: enumeration::handle(&name).unwrap_or(c::T_ENUM_NULL),
        description: tunable.description,
        scope: match tunable.agreement {
            Agreement::Own => c::T_SCOPE_LOCAL,
            Agreement::Alike => c::T_SCOPE_ALL_EQ,
            Agreement::Launcher => c::T_SCOPE_READONLY,
        },
        name,
    })
}

impl ToolObjects {
    /// The index of the variable of this name.
    ///
    /// # Errors
    /// When there is none, or the interface is not initialized.
    pub fn cvar_index(name: &str) -> ToolResult<i32> {
        require()?;
        let at = tunables::all().iter().position(|t| enumeration::name_of(t) == name);
        at.map(|at| at as i32).ok_or(ToolInterfaceError::InvalidName)
    }

    /// Allocates a handle; returns it with the number of elements.
    ///
    /// # Errors
    /// When there is no variable of this index, or no handle is left.
    pub fn cvar_handle(index: i32) -> ToolResult<(u32, i32)> {
        with(|tool| {
            let (index, tunable) = tunable(index)?;
            let handle = tool.number()?;
            tool.cvar_handles.insert(handle, index);
            let count = match value_type(tunable.kind) {
                ValueType::Text => TEXT_BYTES,
                _ => 1,
            };
            Ok((handle, count as i32))
        })
    }

    /// Frees a handle.
    ///
    /// # Errors
    /// When there is no such handle.
    pub fn free_cvar_handle(handle: u32) -> ToolResult<()> {
        with(|tool| {
            let freed = tool.cvar_handles.remove(&handle);
            freed.map(drop).ok_or(ToolInterfaceError::InvalidHandle)
        })
    }

    /// The type of the variable that a handle names.
    ///
    /// # Errors
    /// When there is no such handle.
    pub fn cvar_type(handle: u32) -> ToolResult<ValueType> {
        Ok(value_type(of_handle(handle)?.kind))
    }

    /// The value in force. A value of the environment that does not fit, with which `MPI_Init`
    /// fails, reads as the default.
    ///
    /// # Errors
    /// When there is no such handle.
    pub fn read_cvar(handle: u32) -> ToolResult<CvarValue> {
        let tunable = of_handle(handle)?;
        Ok(match tunable.kind {
            TunableKind::Choice(_) => {
                let code = tunable.code().unwrap_or(tunable.code_of_default());
                CvarValue::Int(code as i32)
            }
            TunableKind::Bytes | TunableKind::Count => {
                let default = || u64::from(tunable.code_of_default());
                CvarValue::Unsigned(tunable.number().unwrap_or_else(|_| default()))
            }
            TunableKind::Threshold | TunableKind::Path(_) | TunableKind::List(_) => {
                CvarValue::Text(tunable.text())
            }
        })
    }

    /// Sets the value.
    ///
    /// # Errors
    /// When there is no such handle, the variable cannot be set (any more), or the value does not
    /// fit.
    pub fn write_cvar(handle: u32, value: &CvarValue) -> ToolResult<()> {
        let tunable = of_handle(handle)?;
        if tunable.agreement == Agreement::Launcher {
            return Err(ToolInterfaceError::SetNever);
        }
        if process::started_engine().is_some() {
            return Err(ToolInterfaceError::SetNotNow);
        }
        let text = match (tunable.kind, value) {
            (TunableKind::Choice(words), CvarValue::Int(item)) => {
                let word = usize::try_from(*item).ok().and_then(|at| words.get(at));
                (*word.ok_or(ToolInterfaceError::Invalid)?).to_owned()
            }
            (_, CvarValue::Unsigned(number)) => number.to_string(),
            (_, CvarValue::Text(text)) => text.clone(),
            (_, CvarValue::Int(_)) => return Err(ToolInterfaceError::Invalid),
        };
        tunable.replace(&text).map_err(|_| ToolInterfaceError::Invalid)
    }
}

fn of_handle(handle: u32) -> ToolResult<&'static Tunable> {
    with(|tool| {
        let index = tool.cvar_handles.get(&handle);
        let index = *index.ok_or(ToolInterfaceError::InvalidHandle)?;
        Ok(tunables::all()[index])
    })
}
