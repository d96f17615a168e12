! threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its argument
! says. The sixty's chain is recursive, the thirty's goes through a type-bound procedure and an internal one that is an
! argument, the ten's through an operator.
program threeway
   use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit
   use burning, only: rounds, burner, thirty
   implicit none
   class(burner), allocatable :: b
   character(len=32) :: word
   real(real64) :: finish, now
   integer(int64) :: total

   call get_command_argument(2, word)
   read (word, *) finish
   allocate (thirty :: b)
   write (output_unit, '(a)') 'READY'
   flush (output_unit)
   total = 0
   do
      call cpu_time(now)
      if (now >= finish) exit
      total = total + rounds(b, 12000_int64)
   end do
   write (output_unit, '(a,i0,a,i0,a)') '{"cpu_ns":', int(now*1e9_real64, int64), ',"sum":', iand(total, 1_int64), '}'
end program threeway
