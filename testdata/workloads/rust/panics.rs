//! panics burns 60/30/10 % in three chains of twelve calls. Where a panic unwinds (`-C panic=unwind`), every slice ends with one
//! that goes through the chain, whose frames have something to drop, and is caught at the top. See ../common/hot.h for
//! the options.

use std::arch::asm;
use std::io::Write;

#[inline(always)]
fn keep(mut v: u64) -> u64 {
    unsafe { asm!("/* {0} */", inout(reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

struct Guard(u64);
impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        self.0 = keep(self.0 + 1);
    }
}

/// K tells the three chains apart, N counts the calls down.
struct Chain<const K: u64, const N: usize>;

macro_rules! chain {
    ($($n:literal => $m:literal),*) => {$(
        impl<const K: u64> Chain<K, $n> {
            #[inline(never)]
            fn run(n: u64) -> u64 {
                let guard = Guard(K + $n);
                keep(Chain::<K, $m>::run(n) + guard.0)
            }
        }
    )*};
}
impl<const K: u64> Chain<K, 0> {
    #[inline(never)]
    fn run(n: u64) -> u64 {
        let mut x = n;
        let mut i = n;
        while i != 0 {
            x = keep(x.wrapping_mul(6364136223846793005).wrapping_add(K));
            i -= 1;
        }
        if cfg!(panic = "unwind") && keep(1) == 1 {
            std::panic::resume_unwind(Box::new(x));
        }
        x
    }
}
chain!(1 => 0, 2 => 1, 3 => 2, 4 => 3, 5 => 4, 6 => 5, 7 => 6, 8 => 7, 9 => 8, 10 => 9, 11 => 10);

macro_rules! top {
    ($name:ident, $k:literal) => {
        #[inline(never)]
        fn $name(n: u64) -> u64 {
            keep(std::panic::catch_unwind(|| Chain::<$k, 11>::run(n)).unwrap_or(1))
        }
    };
}
top!(sixty, 60);
top!(thirty, 30);
top!(ten, 10);

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}
extern "C" {
    fn clock_gettime(clock: i32, t: *mut Timespec) -> i32;
}

fn cpu_seconds() -> f64 {
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut t = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.seconds as f64 + t.nanoseconds as f64 / 1e9
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).and_then(|v| v.parse::<f64>().ok());
    let (slice, cpu) = (option("-slice").unwrap_or(60000.0) as u64, option("-cpu").unwrap_or(1.0));
    println!("READY");
    let mut rounds = 0u64;
    while rounds % 8 != 0 || cpu_seconds() < cpu {
        for which in 0..10 {
            // Three and seven have no factor in common with ten: each order is another one.
            match (which * 3 + rounds * 7) % 10 {
                0..=5 => sixty(slice),
                6..=8 => thirty(slice),
                _ => ten(slice),
            };
        }
        rounds += 1;
    }
    println!("{{\"rounds\":{}}}", rounds);
    std::io::stdout().flush().expect("writing to stdout");
}
