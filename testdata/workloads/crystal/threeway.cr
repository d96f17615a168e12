# threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its argument
# says. The sixty's chain goes through generic structs, the thirty's through a virtual method and a captured block, the ten's
# through an exception handler, in a fiber of its own.
lib LibTime
  fun clock : LibC::Long
end

@[NoInline]
def hot_sixty(n : UInt64) : UInt64
  x = i = n
  while i > 0
    x = x &* 6364136223846793005_u64 &+ 60
    i &-= 1
  end
  x
end

@[NoInline]
def hot_thirty(n : UInt64) : UInt64
  x = i = n
  while i > 0
    x = x &* 6364136223846793005_u64 &+ 30
    i &-= 1
  end
  x
end

@[NoInline]
def hot_ten(n : UInt64) : UInt64
  x = i = n
  while i > 0
    x = x &* 6364136223846793005_u64 &+ 10
    i &-= 1
  end
  x
end

struct Level(T)
  def initialize(@value : T)
  end

  @[NoInline]
  def run(n : UInt64) : UInt64
    (@value.is_a?(Float64) ? Level.new(@value.to_i).run(n) : hot_sixty(n)) &+ @value.to_u64
  end
end

abstract class Burner
  abstract def burn(n : UInt64) : UInt64
end

class Thirty < Burner
  @extra = 1_u64

  @[NoInline]
  def burn(n : UInt64) : UInt64
    through(n) { |m| hot_thirty(m) &+ @extra } &+ 1
  end
end

class Nothing < Burner
  def burn(n : UInt64) : UInt64
    through(n) { |m| m &+ n }
  end
end

@[NoInline]
def through(n : UInt64, &work : UInt64 -> UInt64) : UInt64
  work.call(n) &+ 1
end

@[NoInline]
def ten(n : UInt64) : UInt64
  r = hot_ten(n)
  raise "zero" if r == 0
  r &+ 1
rescue
  2_u64
end

# The order of a round's slices, another one in each.
class Order
  @slices : StaticArray(Int32, 10) = StaticArray[0, 0, 0, 0, 0, 0, 1, 1, 1, 2]
  @random = 88172645463325252_u64

  def shuffle
    9.downto(1) do |i|
      @random ^= @random << 13
      @random ^= @random >> 7
      @random ^= @random << 17
      @slices.swap(i, (@random % (i + 1)).to_i)
    end
    @slices
  end
end

@[NoInline]
def rounds(order : Order, thirty : Burner, work : Channel(UInt64), done : Channel(UInt64), slice : UInt64) : UInt64
  sum = 0_u64
  order.shuffle.each do |which|
    if which == 0
      sum &+= Level.new(1.5).run(slice)
    elsif which == 1
      sum &+= thirty.burn(slice)
    else
      work.send(slice)
      sum &+= done.receive
    end
  end
  sum
end

finish = ARGV[1].to_f * 1e6
work, done = Channel(UInt64).new, Channel(UInt64).new
spawn do
  while n = work.receive?
    done.send(ten(n))
  end
end
thirty = ARGV.size > 2 ? Nothing.new : Thirty.new
puts "READY"
STDOUT.flush
order = Order.new
total = 0_u64
while LibTime.clock < finish
  total &+= rounds(order, thirty, work, done, 12_000_u64)
end
puts %({"cpu_ns":#{LibTime.clock * 1000},"sum":#{total & 1}})
