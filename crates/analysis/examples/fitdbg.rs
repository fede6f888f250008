//! Reads points of a file.
use fathom_analysis::tiers::{Options, Point, read};
fn main() {
    let text = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    let points: Vec<Point> = text
        .lines()
        .map(|l| {
            let v: Vec<f64> = l.split_whitespace().map(|x| x.parse().unwrap()).collect();
            Point { x: v[0], y: v[1], sigma: v[2].max(0.0002), shared: 0.0 }
        })
        .collect();
    let r = read(
        &points,
        &Options { share: std::env::args().nth(2).map_or(0.0, |s| s.parse().unwrap()), ..Options::default() },
    )
    .unwrap();
    for t in &r.tiers {
        println!(
            "{:.3} {:.3}..{:.3} {:?}",
            t.latency.value,
            t.latency.low,
            t.latency.high,
            t.capacity.map(|c| (c.onset, c.below, c.above, c.shape, c.explained, c.wide_rise))
        );
        println!("   on {} begin {}", t.on_plateau, t.begin);
    }
    println!("{:?}", r.notes);
}
