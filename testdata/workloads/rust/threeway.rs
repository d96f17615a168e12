//! threeway burns 60/30/10 % of its CPU at the ends of chains of generic functions and trait objects. See
//! ../common/hot.h for how the shares are made exact and for the options. With --cfg inlined the compiler may inline all.

use std::arch::asm;
use std::io::Write;
use std::time::{Duration, Instant};

/// Makes a value opaque to the compiler: a call before it is no tail call.
#[inline(always)]
fn keep(mut v: u64) -> u64 {
    unsafe { asm!("/* {0} */", inout(reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

trait Kind {
    /// Tells the kinds' code apart, or equal functions would be merged.
    const ID: u64;
}
struct Sixty;
struct Thirty;
struct Ten;
impl Kind for Sixty {
    const ID: u64 = 60;
}
impl Kind for Thirty {
    const ID: u64 = 30;
}
impl Kind for Ten {
    const ID: u64 = 10;
}

/// The same loop as HOT_LOOP in hot.h: the multiplier's latency is all that counts.
#[cfg_attr(not(inlined), inline(never))]
fn burn<K: Kind>(n: u64) -> u64 {
    let mut x = n;
    let mut i = n;
    while i != 0 {
        x = keep(x.wrapping_mul(6364136223846793005).wrapping_add(K::ID));
        i -= 1;
    }
    x
}

struct Level<K: Kind, const N: usize>(std::marker::PhantomData<K>);

trait Run {
    fn run(&self, n: u64) -> u64;
}

/// Implements a level that calls the next one through a trait object.
macro_rules! level {
    ($($n:literal => $m:literal),*) => {$(
        impl<K: Kind> Run for Level<K, $n> {
            #[cfg_attr(not(inlined), inline(never))]
            fn run(&self, n: u64) -> u64 {
                let next: &dyn Run = &Level::<K, $m>(std::marker::PhantomData);
                keep(next.run(n) ^ (K::ID + $n))
            }
        }
    )*};
}
impl<K: Kind> Run for Level<K, 0> {
    #[cfg_attr(not(inlined), inline(never))]
    fn run(&self, n: u64) -> u64 {
        keep(burn::<K>(n))
    }
}
level!(1 => 0, 2 => 1, 3 => 2, 4 => 3, 5 => 4, 6 => 5, 7 => 6, 8 => 7, 9 => 8, 10 => 9, 11 => 10);

/// Runs a closure in a frame of its own.
#[cfg_attr(not(inlined), inline(never))]
fn through<F: FnOnce() -> u64>(f: F) -> u64 {
    keep(f())
}

#[cfg_attr(not(inlined), inline(never))]
fn sixty(n: u64) -> u64 {
    keep(Level::<Sixty, 11>(std::marker::PhantomData).run(n))
}

#[cfg_attr(not(inlined), inline(never))]
fn thirty(n: u64) -> u64 {
    keep(through(|| Level::<Thirty, 4>(std::marker::PhantomData).run(n)))
}

#[cfg_attr(not(inlined), inline(never))]
fn ten(n: u64) -> u64 {
    // A panic through three frames now and then, so that samples land in the unwinder too.
    if n & 1 == 1 {
        let _ = std::panic::catch_unwind(|| through(|| std::panic::resume_unwind(Box::new(1))));
    }
    keep(burn::<Ten>(n & !1))
}

struct Options {
    seconds: f64,
    cpu: f64,
    slice: u64,
}

fn options() -> Options {
    let mut o = Options { seconds: 0.0, cpu: 0.0, slice: 12000 };
    let args: Vec<String> = std::env::args().collect();
    for pair in args[1..].chunks_exact(2) {
        match pair[0].as_str() {
            "-seconds" => o.seconds = pair[1].parse().expect("-seconds takes a number"),
            "-cpu" => o.cpu = pair[1].parse().expect("-cpu takes a number"),
            "-slice" => o.slice = pair[1].parse().expect("-slice takes a number"),
            _ => {}
        }
    }
    o
}

#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}
extern "C" {
    fn clock_gettime(clock: i32, t: *mut Timespec) -> i32;
}

fn cpu_time() -> Duration {
    let mut t = Timespec { sec: 0, nsec: 0 };
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    Duration::new(t.sec as u64, t.nsec as u32)
}

fn shuffle(order: &mut [u8; 10], random: &mut u64) {
    for i in (1..10).rev() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(i, (*random % (i as u64 + 1)) as usize);
    }
}

/// How many rounds there are to a panic. Where functions are told by their source, stacks in the unwinder count as wrong below
/// ten(): there they are to be rare.
const ROUNDS_PER_PANIC: u64 = if cfg!(inlined) { 256 } else { 16 };

fn main() {
    let o = options();
    let start = Instant::now();
    let mut random = 88172645463325252u64 ^ (std::process::id() as u64) << 20;
    let mut order = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2];
    println!("READY");
    let mut rounds = 0u64;
    loop {
        if rounds % 8 == 0
            && (o.seconds > 0.0 && start.elapsed().as_secs_f64() >= o.seconds
                || o.cpu > 0.0 && cpu_time().as_secs_f64() >= o.cpu)
        {
            break;
        }
        shuffle(&mut order, &mut random);
        for which in order {
            match which {
                0 => sixty(o.slice),
                1 => thirty(o.slice),
                _ => ten(o.slice & !1 | u64::from(rounds % ROUNDS_PER_PANIC == 0)),
            };
        }
        rounds += 1;
    }
    println!("{{\"cpu_ns\":{},\"rounds\":{}}}", cpu_time().as_nanos(), rounds);
    std::io::stdout().flush().expect("writing to stdout");
}
