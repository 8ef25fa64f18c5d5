! Point to point in a ring. SENDS makes a call that sends: once with the section, once with the
! copy, into contiguous memory. RECEIVES makes a call that receives what is sent from contiguous
! memory.
#define TO n, t%handle, to, 5, MPI_COMM_WORLD
#define FROM n, t%handle, from, 5, MPI_COMM_WORLD
#define WAIT call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
#define SENDS(f) call reset; call post(pr); call f(s, TO, ierror); call end_other; \
  call post(expected); call f(ps, TO, ierror); call end_other
#define ISENDS(f) call reset; call post(pr); call f(s, TO, request, ierror); WAIT; call end_other; \
  call post(expected); call f(ps, TO, request, ierror); WAIT; call end_other
#define SEND_INITS(f) call reset; call f(s, TO, request, ierror); call starts(pr); \
  call f(ps, TO, request, ierror); call starts(expected)
#define RECEIVES(f) call reset; call give(n); call f(r, FROM, status, ierror); call got(n); \
  call give(n); call f(expected, FROM, status, ierror); call got(n)
#define IRECEIVES(f) call reset; call give(n); call f(r, FROM, request, ierror); call got_by_wait(n); \
  call give(n); call f(expected, FROM, request, ierror); call got_by_wait(n)

    subroutine exercise_family
      n = draw(common, most / 2, most)
      call sends_blocking
      call receives_blocking
      if (MPI_SUBARRAYS_SUPPORTED) then
        call sends_nonblocking
        call receives_nonblocking
        call partitioned
      end if
    end subroutine

    subroutine sends_blocking
      integer ASYNC, save :: room_for_bsend(100000)
      SENDS(MPI_Send)
      call compare_sent('MPI_Send')
      SENDS(MPI_Ssend)
      call compare_sent('MPI_Ssend')
      SENDS(MPI_Rsend)
      call compare_sent('MPI_Rsend')
      call MPI_Buffer_attach(room_for_bsend, 400000, ierror)
      SENDS(MPI_Bsend)
      call compare_sent('MPI_Bsend')
      call detach
    end subroutine

    subroutine detach
      integer :: bytes
#ifdef STYLE_F08
      type(c_ptr) :: where_it_was
      call MPI_Buffer_detach(where_it_was, bytes)
#else
      integer(MPI_ADDRESS_KIND) :: where_it_was
      call MPI_Buffer_detach(where_it_was, bytes, ierror)
#endif
      EXPECT(bytes, 400000, 'length of the buffer of MPI_Bsend')
    end subroutine

    subroutine sends_nonblocking
      integer ASYNC, save :: room_for_bsend(100000)
      ISENDS(MPI_Isend)
      call compare_sent('MPI_Isend')
      ISENDS(MPI_Issend)
      call compare_sent('MPI_Issend')
      ISENDS(MPI_Irsend)
      call compare_sent('MPI_Irsend')
      SEND_INITS(MPI_Send_init)
      call compare_sent('MPI_Send_init')
      SEND_INITS(MPI_Ssend_init)
      call compare_sent('MPI_Ssend_init')
      SEND_INITS(MPI_Rsend_init)
      call compare_sent('MPI_Rsend_init')
      call MPI_Buffer_attach(room_for_bsend, 400000, ierror)
      ISENDS(MPI_Ibsend)
      call compare_sent('MPI_Ibsend')
      SEND_INITS(MPI_Bsend_init)
      call compare_sent('MPI_Bsend_init')
      call detach
    end subroutine

    ! Posts the receive at the other end of a send. All ranks have done so when it returns, as a
    ! ready send demands.
    subroutine post(buffer)
      ELEMENT, intent(inout) ASYNC :: buffer(*)
      call MPI_Irecv(buffer, FROM, other, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
    end subroutine

    subroutine end_other
      call MPI_Wait(other, MPI_STATUS_IGNORE, ierror)
    end subroutine

    ! Uses a persistent send twice, with contents that differ.
    subroutine starts(buffer)
      ELEMENT, intent(inout) ASYNC, contiguous :: buffer(:)
      integer :: turn
      do turn = 1, 2
        if (turn == 2) then
          ps = ps(size(ps):1:-1)
          s = reshape(ps, shape(s))
        end if
        call post(buffer)
        call MPI_Start(request, ierror)
        WAIT
        call end_other
      end do
      call MPI_Request_free(request, ierror)
      ps = ps(size(ps):1:-1)
      s = reshape(ps, shape(s))
    end subroutine

    subroutine receives_blocking
      integer :: short
      RECEIVES(MPI_Recv)
      call compare_received('MPI_Recv')
      ! A message that is shorter than what the receive has room for.
      short = n
      n = most
      call reset
      call give(short)
      call MPI_Recv(r, FROM, status, ierror)
      call got(short)
      call give(short)
      call MPI_Recv(expected, FROM, status, ierror)
      call got(short)
      call compare_received('MPI_Recv of less')
      n = short
      call reset
      call give(n)
      call MPI_Mprobe(from, 5, MPI_COMM_WORLD, message, status, ierror)
      call MPI_Mrecv(r, n, t%handle, message, status, ierror)
      call got(n)
      call give(n)
      call MPI_Recv(expected, FROM, status, ierror)
      call got(n)
      call compare_received('MPI_Mrecv')
      call reset
      call MPI_Sendrecv(s, n, t%handle, to, 5, r, FROM, status, ierror)
      call MPI_Sendrecv(s, n, t%handle, to, 5, pr, FROM, status, ierror)
      call MPI_Sendrecv(ps, n, t%handle, to, 5, expected, FROM, status, ierror)
      call compare('MPI_Sendrecv')
      call reset
      call MPI_Sendrecv_replace(r, n, t%handle, to, 5, from, 5, MPI_COMM_WORLD, status, ierror)
      call MPI_Sendrecv_replace(expected, n, t%handle, to, 5, from, 5, MPI_COMM_WORLD, status, &
        ierror)
      call compare_received('MPI_Sendrecv_replace')
    end subroutine

    subroutine give(count)
      integer, intent(in) :: count
      call MPI_Isend(ps, count, t%handle, to, 5, MPI_COMM_WORLD, other, ierror)
    end subroutine

    ! Ends the other send, and checks the status of a receive.
    subroutine got(count)
      integer, intent(in) :: count
      integer :: received
      call end_other
      EXPECT(SOURCE_OF(status), from, 'source')
      call MPI_Get_count(status, t%handle, received, ierror)
      EXPECT(received, count, 'count in the status')
    end subroutine

    subroutine got_by_wait(count)
      integer, intent(in) :: count
      call MPI_Wait(request, status, ierror)
      call got(count)
    end subroutine

    subroutine receives_nonblocking
      IRECEIVES(MPI_Irecv)
      call compare_received('MPI_Irecv')
      call reset
      call give(n)
      call MPI_Mprobe(from, 5, MPI_COMM_WORLD, message, status, ierror)
      call MPI_Imrecv(r, n, t%handle, message, request, ierror)
      call got_by_wait(n)
      call give(n)
      call MPI_Recv(expected, FROM, status, ierror)
      call got(n)
      call compare_received('MPI_Imrecv')
      call reset
      call MPI_Recv_init(r, FROM, request, ierror)
      call fills
      call MPI_Recv_init(expected, FROM, request, ierror)
      call fills
      call compare_received('MPI_Recv_init')
      call reset
      call MPI_Isendrecv(s, n, t%handle, to, 5, r, FROM, request, ierror)
      WAIT
      call MPI_Isendrecv(s, n, t%handle, to, 5, pr, FROM, request, ierror)
      WAIT
      call MPI_Isendrecv(ps, n, t%handle, to, 5, expected, FROM, request, ierror)
      WAIT
      call compare('MPI_Isendrecv')
      call reset
      call MPI_Isendrecv_replace(r, n, t%handle, to, 5, from, 5, MPI_COMM_WORLD, request, ierror)
      WAIT
      call MPI_Isendrecv_replace(expected, n, t%handle, to, 5, from, 5, MPI_COMM_WORLD, request, &
        ierror)
      WAIT
      call compare_received('MPI_Isendrecv_replace')
    end subroutine

    ! Fills a persistent receive twice, with contents that differ.
    subroutine fills
      integer :: turn
      do turn = 1, 2
        ps = ps(size(ps):1:-1)
        call MPI_Start(request, ierror)
        call give(n)
        call got_by_wait(n)
      end do
      call MPI_Request_free(request, ierror)
    end subroutine

    ! Each end with sections once, in one, two or three partitions.
    subroutine partitioned
      integer :: parts
      integer(MPI_COUNT_KIND) :: each
      parts = draw(common, 1, 3)
      each = most / parts
      call reset
      call MPI_Psend_init(s, parts, each, t%handle, to, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &
        request, ierror)
      call MPI_Precv_init(pr, parts, each, t%handle, from, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &
        other, ierror)
      call moves(parts)
      call MPI_Psend_init(ps, parts, each, t%handle, to, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &
        request, ierror)
      call MPI_Precv_init(r, parts, each, t%handle, from, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &
        other, ierror)
      call moves(parts)
      call MPI_Sendrecv(ps, int(each) * parts, t%handle, to, 5, expected, int(each) * parts, &
        t%handle, &
        from, 5, MPI_COMM_WORLD, status, ierror)
      call compare('MPI_Psend_init and MPI_Precv_init')
    end subroutine

    subroutine moves(parts)
      integer, intent(in) :: parts
      integer :: part
      call MPI_Start(other, ierror)
      call MPI_Start(request, ierror)
      do part = parts - 1, 0, -1
        call MPI_Pready(part, request, ierror)
      end do
      WAIT
      call end_other
      call MPI_Request_free(request, ierror)
      call MPI_Request_free(other, ierror)
    end subroutine
