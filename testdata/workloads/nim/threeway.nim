## threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its argument
## says. The thirty's chain goes through a method and a closure, the ten's through an operator and an exception handler.
import std/[os, strutils, times]

proc hotSixty(n: uint64): uint64 {.noinline.} =
  result = n
  for i in 1'u64 .. n:
    result = result * 6364136223846793005'u64 + 60

proc hotThirty(n: uint64): uint64 {.noinline.} =
  result = n
  for i in 1'u64 .. n:
    result = result * 6364136223846793005'u64 + 30

proc hotTen(n: uint64): uint64 {.noinline.} =
  result = n
  for i in 1'u64 .. n:
    result = result * 6364136223846793005'u64 + 10

proc sixtyTwo(n: uint64): uint64 {.noinline.} = hotSixty(n) + 1
proc sixtyOne(n: uint64): uint64 {.noinline.} = sixtyTwo(n) + 1

type
  Burner = ref object of RootObj
  Thirty = ref object of Burner
    extra: uint64

method burn(b: Burner, n: uint64): uint64 {.base.} = n

method burn(b: Thirty, n: uint64): uint64 =
  let kept = b.extra
  let f = proc (m: uint64): uint64 = hotThirty(m) + kept
  f(n) + 1

proc `+%%`(a, n: uint64): uint64 {.noinline.} = hotTen(n) + a

proc ten(n: uint64): uint64 {.noinline.} =
  try:
    result = 1'u64 +%% n
    if result == 0:
      raise newException(ValueError, "zero")
  except ValueError:
    result = 2

proc rounds(thirty: Burner, slice: uint64): uint64 {.noinline.} =
  for which in [0, 1, 0, 0, 1, 0, 2, 0, 1, 0]:
    if which == 0: result += sixtyOne(slice)
    elif which == 1: result += thirty.burn(slice)
    else: result += ten(slice)

proc main() =
  let seconds = parseFloat(paramStr(2))
  echo "READY"
  flushFile(stdout)
  let thirty = Burner(Thirty(extra: 1))
  var total: uint64
  while cpuTime() < seconds:
    total += rounds(thirty, 12000)
  echo "{\"sum\":", total and 1, "}"

main()
