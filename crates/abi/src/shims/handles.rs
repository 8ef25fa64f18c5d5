//! `MPI_X_toint` and `MPI_X_fromint` (MPI 5.0, chapter 19): a handle and its integer have the same
//! bits.
//!
//! A value that is no handle passes through; the call that uses it reports the error.

use std::ffi::c_int;

use crate::types::*;

/// MPI_Comm_toint.
pub fn mpi_comm_toint(handle: MPI_Comm) -> c_int {
    handle.raw() as c_int
}

/// MPI_Comm_fromint.
pub fn mpi_comm_fromint(value: c_int) -> MPI_Comm {
    MPI_Comm::from_raw(value as u32)
}

/// MPI_Errhandler_toint.
pub fn mpi_errhandler_toint(handle: MPI_Errhandler) -> c_int {
    handle.raw() as c_int
}

/// MPI_Errhandler_fromint.
pub fn mpi_errhandler_fromint(value: c_int) -> MPI_Errhandler {
    MPI_Errhandler::from_raw(value as u32)
}

/// MPI_File_toint.
pub fn mpi_file_toint(handle: MPI_File) -> c_int {
    handle.raw() as c_int
}

/// MPI_File_fromint.
pub fn mpi_file_fromint(value: c_int) -> MPI_File {
    MPI_File::from_raw(value as u32)
}

/// MPI_Group_toint.
pub fn mpi_group_toint(handle: MPI_Group) -> c_int {
    handle.raw() as c_int
}

/// MPI_Group_fromint.
pub fn mpi_group_fromint(value: c_int) -> MPI_Group {
    MPI_Group::from_raw(value as u32)
}

/// MPI_Info_toint.
pub fn mpi_info_toint(handle: MPI_Info) -> c_int {
    handle.raw() as c_int
}

/// MPI_Info_fromint.
pub fn mpi_info_fromint(value: c_int) -> MPI_Info {
    MPI_Info::from_raw(value as u32)
}

/// MPI_Message_toint.
pub fn mpi_message_toint(handle: MPI_Message) -> c_int {
    handle.raw() as c_int
}

/// MPI_Message_fromint.
pub fn mpi_message_fromint(value: c_int) -> MPI_Message {
    MPI_Message::from_raw(value as u32)
}

/// MPI_Op_toint.
pub fn mpi_op_toint(handle: MPI_Op) -> c_int {
    handle.raw() as c_int
}

/// MPI_Op_fromint.
pub fn mpi_op_fromint(value: c_int) -> MPI_Op {
    MPI_Op::from_raw(value as u32)
}

/// MPI_Request_toint.
pub fn mpi_request_toint(handle: MPI_Request) -> c_int {
    handle.raw() as c_int
}

/// MPI_Request_fromint.
pub fn mpi_request_fromint(value: c_int) -> MPI_Request {
    MPI_Request::from_raw(value as u32)
}

/// MPI_Session_toint.
pub fn mpi_session_toint(handle: MPI_Session) -> c_int {
    handle.raw() as c_int
}

/// MPI_Session_fromint.
pub fn mpi_session_fromint(value: c_int) -> MPI_Session {
    MPI_Session::from_raw(value as u32)
}

/// MPI_Type_toint.
pub fn mpi_type_toint(handle: MPI_Datatype) -> c_int {
    handle.raw() as c_int
}

/// MPI_Type_fromint.
pub fn mpi_type_fromint(value: c_int) -> MPI_Datatype {
    MPI_Datatype::from_raw(value as u32)
}

/// MPI_Win_toint.
pub fn mpi_win_toint(handle: MPI_Win) -> c_int {
    handle.raw() as c_int
}

/// MPI_Win_fromint.
pub fn mpi_win_fromint(value: c_int) -> MPI_Win {
    MPI_Win::from_raw(value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_mpi::constants::COMM_WORLD;

    #[test]
    fn integers_keep_the_bits() {
        assert_eq!(
            mpi_comm_toint(MPI_Comm::from_raw(COMM_WORLD)),
            COMM_WORLD as c_int
        );
        let high = MPI_Comm::from_raw(0x8000_0001);
        assert_eq!(mpi_comm_fromint(mpi_comm_toint(high)), high);
    }
}
