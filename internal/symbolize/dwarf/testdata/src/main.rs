use std::collections::HashMap;

mod shapes {
    pub trait Shape {
        fn area(&self) -> f64;
    }
    pub struct Circle(pub f64);
    pub struct Square(pub f64);
    impl Shape for Circle {
        fn area(&self) -> f64 {
            3.14 * self.0 * self.0
        }
    }
    impl Shape for Square {
        #[inline(never)]
        fn area(&self) -> f64 {
            self.0 * self.0
        }
    }
}

use shapes::{Circle, Shape, Square};

#[inline(never)]
fn count<T: std::hash::Hash + Eq>(all: Vec<T>) -> usize {
    let mut m = HashMap::new();
    for x in all {
        *m.entry(x).or_insert(0) += 1;
    }
    m.len()
}

#[inline(always)]
fn total(all: &[Box<dyn Shape>]) -> f64 {
    all.iter().map(|s| s.area()).filter(|a| *a > 1.0).sum()
}

fn main() {
    let n = count(std::env::args().collect::<Vec<_>>());
    let all: Vec<Box<dyn Shape>> = vec![Box::new(Circle(n as f64)), Box::new(Square(2.0))];
    println!("{} {}", n, total(&all));
}
