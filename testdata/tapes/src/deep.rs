// Closures, iterators, boxed functions; the point is in a closure that catch_unwind runs.
use std::arch::asm;
use std::hint::black_box;

#[inline(never)]
fn leaf(n: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("int3")
    };
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("brk #0")
    };
    black_box(n + 1)
}

#[inline(never)]
fn caught(n: u64) -> u64 {
    std::panic::catch_unwind(|| black_box(leaf(n)) + 1).unwrap_or(0)
}

#[inline(never)]
fn boxed(f: Box<dyn Fn(u64) -> u64>, n: u64) -> u64 {
    black_box(f(n)) * 3
}

#[inline(never)]
fn recursion(n: u64) -> u64 {
    let big = black_box([n; 40]);
    let r = if n == 0 { boxed(Box::new(caught), n) } else { recursion(n - 1) };
    black_box(r + big[7])
}

fn main() {
    let v: Vec<u64> = (12..13).map(recursion).collect();
    black_box(v);
}
