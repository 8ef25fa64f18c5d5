! How the three styles name things. A program is compiled once for each style that the test list
! gives it: STYLE_MPIF_H (include 'mpif.h'), STYLE_MPI (use mpi) or STYLE_F08 (use mpi_f08) is
! defined. Traditional cpp and flang read this: no ## and no #.
#ifdef STYLE_F08
#define MPI_COMM_T type(MPI_Comm)
#define MPI_GROUP_T type(MPI_Group)
#define MPI_REQUEST_T type(MPI_Request)
#define MPI_DATATYPE_T type(MPI_Datatype)
#define MPI_OP_T type(MPI_Op)
#define MPI_WIN_T type(MPI_Win)
#define MPI_FILE_T type(MPI_File)
#define MPI_INFO_T type(MPI_Info)
#define MPI_ERRHANDLER_T type(MPI_Errhandler)
#define MPI_MESSAGE_T type(MPI_Message)
#define MPI_SESSION_T type(MPI_Session)
! A status, an array of n of them, and their parts.
#define DECLARE_STATUS(s) type(MPI_Status) :: s
#define DECLARE_STATUSES(s, n) type(MPI_Status) :: s(n)
#define NTH(s, i) s(i)
#define SOURCE_OF(s) s%MPI_SOURCE
#define TAG_OF(s) s%MPI_TAG
#define ERROR_OF(s) s%MPI_ERROR
#define NTH_SOURCE(s, i) s(i)%MPI_SOURCE
#define NTH_TAG(s, i) s(i)%MPI_TAG
#define NTH_ERROR(s, i) s(i)%MPI_ERROR
! The integer of a handle.
#define INTEGER_OF(h) h%MPI_VAL
#else
#define MPI_COMM_T integer
#define MPI_GROUP_T integer
#define MPI_REQUEST_T integer
#define MPI_DATATYPE_T integer
#define MPI_OP_T integer
#define MPI_WIN_T integer
#define MPI_FILE_T integer
#define MPI_INFO_T integer
#define MPI_ERRHANDLER_T integer
#define MPI_MESSAGE_T integer
#define MPI_SESSION_T integer
#define DECLARE_STATUS(s) integer :: s(MPI_STATUS_SIZE)
#define DECLARE_STATUSES(s, n) integer :: s(MPI_STATUS_SIZE, n)
#define NTH(s, i) s(:, i)
#define SOURCE_OF(s) s(MPI_SOURCE)
#define TAG_OF(s) s(MPI_TAG)
#define ERROR_OF(s) s(MPI_ERROR)
#define NTH_SOURCE(s, i) s(MPI_SOURCE, i)
#define NTH_TAG(s, i) s(MPI_TAG, i)
#define NTH_ERROR(s, i) s(MPI_ERROR, i)
#define INTEGER_OF(h) h
#endif
! Buffers that a call may use after it has returned. The attribute needs explicit interfaces.
#ifdef STYLE_MPIF_H
#define ASYNC
#else
#define ASYNC , asynchronous
#endif
#define CHECK(condition, what) if (.not. (condition)) call test_fail(what, __FILE__, __LINE__)
#define EXPECT(got, want, what) call test_expect(int(got, int64), int(want, int64), what, __FILE__, __LINE__)
