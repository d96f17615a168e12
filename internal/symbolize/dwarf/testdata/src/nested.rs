mod shop {
    #[inline(never)]
    pub fn outer(n: u64) -> u64 {
        #[inline(never)]
        fn inner(k: u64) -> u64 {
            std::hint::black_box(k * 3)
        }
        struct Local;
        impl Local {
            #[inline(never)]
            fn member(&self, k: u64) -> u64 {
                std::hint::black_box(k * 5)
            }
        }
        let closure = |k: u64| std::hint::black_box(k * n);
        inner(n) + Local.member(n) + closure(n)
    }
}

fn main() {
    println!("{}", shop::outer(std::env::args().count() as u64));
}
