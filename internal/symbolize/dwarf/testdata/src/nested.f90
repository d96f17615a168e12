module shop
contains
  integer function outer(n)
    integer, intent(in) :: n
    outer = inner(n) + inner(n + 1)
  contains
    integer function inner(k)
      integer, intent(in) :: k
      print *, k
      inner = k * n
    end function
  end function
end module

program nested
  use shop
  print *, outer(command_argument_count())
end program
