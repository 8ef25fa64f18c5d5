//! What the functions of the tools interface end with (MPI 5.0, 15.3.10).

use crate::constants as c;

/// What a function of the tools interface can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ToolInterfaceError {
    /// `MPI_T_init_thread` has not been called, or `MPI_T_finalize` as often.
    #[error("the tools interface is not initialized")]
    NotInitialized,
    /// There is no memory for an object.
    #[error("out of memory")]
    Memory,
    /// A parameter is not valid.
    #[error("invalid use of the interface or bad parameter")]
    Invalid,
    /// There is no variable, category, event, source or item of this index.
    #[error("the index is not valid")]
    InvalidIndex,
    /// No variable, category or event has this name.
    #[error("the name is not known")]
    InvalidName,
    /// There is no such handle, or not in this session.
    #[error("the handle is not valid")]
    InvalidHandle,
    /// There is no such session.
    #[error("the session is not valid")]
    InvalidSession,
    /// No number is left for another handle.
    #[error("no more handles are available")]
    OutOfHandles,
    /// The variable cannot be set any more in this process.
    #[error("the variable cannot be set at this moment")]
    SetNotNow,
    /// The variable can never be set.
    #[error("the variable cannot be set")]
    SetNever,
    /// The variable can be neither written nor reset.
    #[error("the variable cannot be written or reset")]
    NoWrite,
    /// The variable can be neither started nor stopped.
    #[error("the variable cannot be started or stopped")]
    NoStartStop,
}

impl ToolInterfaceError {
    /// The code that the function returns.
    pub const fn code(self) -> i32 {
        match self {
            ToolInterfaceError::NotInitialized => c::T_ERR_NOT_INITIALIZED,
            ToolInterfaceError::Memory => c::T_ERR_MEMORY,
            ToolInterfaceError::Invalid => c::T_ERR_INVALID,
            ToolInterfaceError::InvalidIndex => c::T_ERR_INVALID_INDEX,
            ToolInterfaceError::InvalidName => c::T_ERR_INVALID_NAME,
            ToolInterfaceError::InvalidHandle => c::T_ERR_INVALID_HANDLE,
            ToolInterfaceError::InvalidSession => c::T_ERR_INVALID_SESSION,
            ToolInterfaceError::OutOfHandles => c::T_ERR_OUT_OF_HANDLES,
            ToolInterfaceError::SetNotNow => c::T_ERR_CVAR_SET_NOT_NOW,
            ToolInterfaceError::SetNever => c::T_ERR_CVAR_SET_NEVER,
            ToolInterfaceError::NoWrite => c::T_ERR_PVAR_NO_WRITE,
            ToolInterfaceError::NoStartStop => c::T_ERR_PVAR_NO_STARTSTOP,
        }
    }
}

/// The result of a function of the tools interface.
pub type ToolResult<T> = std::result::Result<T, ToolInterfaceError>;
