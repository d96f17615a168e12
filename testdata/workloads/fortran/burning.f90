! What burns.
module burning
   use, intrinsic :: iso_fortran_env, only: int64
   implicit none
   private
   public :: rounds, burner, thirty

   integer(int64), parameter :: multiplier = 2862933555777941757_int64

   type, abstract :: burner
   contains
      procedure(burns), deferred :: burn
   end type burner

   type, extends(burner) :: thirty
      integer(int64) :: extra = 1
   contains
      procedure :: burn => burn_thirty
   end type thirty

   abstract interface
      function burns(self, n) result(r)
         import :: burner, int64
         class(burner), intent(in) :: self
         integer(int64), intent(in) :: n
         integer(int64) :: r
      end function burns
      function work(n) result(r)
         import :: int64
         integer(int64), intent(in) :: n
         integer(int64) :: r
      end function work
   end interface

   interface operator(.ten.)
      module procedure ten
   end interface

contains

   function hot_sixty(n) result(x)
      integer(int64), intent(in) :: n
      integer(int64) :: x, i
      x = n
      do i = 1, n
         x = x*multiplier + 60
      end do
   end function hot_sixty

   function hot_thirty(n) result(x)
      integer(int64), intent(in) :: n
      integer(int64) :: x, i
      x = n
      do i = 1, n
         x = x*multiplier + 30
      end do
   end function hot_thirty

   function hot_ten(n) result(x)
      integer(int64), intent(in) :: n
      integer(int64) :: x, i
      x = n
      do i = 1, n
         x = x*multiplier + 10
      end do
   end function hot_ten

   recursive function sixty(n, depth) result(r)
      integer(int64), intent(in) :: n
      integer, intent(in) :: depth
      integer(int64) :: r
      if (depth > 1) then
         r = ieor(sixty(n, depth - 1), 1_int64)
      else
         r = hot_sixty(n) + 1
      end if
   end function sixty

   ! Calls an internal procedure of its caller, by a trampoline on the stack.
   function through(f, n) result(r)
      procedure(work) :: f
      integer(int64), intent(in) :: n
      integer(int64) :: r
      r = f(n) + 1
   end function through

   function burn_thirty(self, n) result(r)
      class(thirty), intent(in) :: self
      integer(int64), intent(in) :: n
      integer(int64) :: r
      r = through(inner, n) + 1
   contains
      function inner(m) result(s)
         integer(int64), intent(in) :: m
         integer(int64) :: s
         s = hot_thirty(m) + self%extra
      end function inner
   end function burn_thirty

   function ten(n) result(r)
      integer(int64), intent(in) :: n
      integer(int64) :: r
      r = hot_ten(n) + 1
   end function ten

   function rounds(b, slice) result(total)
      class(burner), intent(in) :: b
      integer(int64), intent(in) :: slice
      integer(int64) :: total
      integer, parameter :: order(10) = [0, 1, 0, 0, 1, 0, 2, 0, 1, 0]
      integer :: i
      total = 0
      do i = 1, size(order)
         select case (order(i))
         case (0)
            total = total + sixty(slice, 3)
         case (1)
            total = total + b%burn(slice)
         case default
            total = total + (.ten.slice)
         end select
      end do
   end function rounds

end module burning
