//! Placement: one free and one allocation, at 5,000 and at 500,000 living blocks, against
//! a bitmap first fit and against allocators that place as they like. What is measured,
//! and figures: README.md beside this file. Fails if a floor is missed.
#![forbid(unsafe_op_in_unsafe_fn)]
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod bitmap;
mod placers;
mod workload;

use std::process::ExitCode;
use std::time::Instant;

use bitmap::Bitmap;
use neuron_driver::pool::space::Space;
use offset_allocator::Allocator;
use placers::{Placer, Request, Run, Vma};
use workload::{Churn, Mix};

const FEW: u64 = 5_000;
const MANY: u64 = 500_000;
const ROUNDS: usize = 61;
/// Ours at [`FEW`] against the bitmap: at least this many times faster.
const FLOOR: f64 = 30.0;
/// Ours at [`MANY`]: at most this many times slower than at [`FEW`].
const FLAT: f64 = 4.0;

/// One contender in one workload.
struct Cell {
    workload: &'static str,
    live: u64,
    name: &'static str,
    /// Does that many exchanges.
    run: Box<dyn FnMut(u64)>,
    exchanges: u64,
    /// Nanoseconds for an exchange, by round.
    times: Vec<f64>,
}

impl Cell {
    fn new(
        (workload, live): (&'static str, u64),
        name: &'static str,
        exchanges: u64,
        run: impl FnMut(u64) + 'static,
    ) -> Self {
        Self { workload, live, name, run: Box::new(run), exchanges, times: Vec::new() }
    }

    fn churn<P: Placer + 'static>(
        at: (&'static str, u64),
        name: &'static str,
        exchanges: u64,
        mut churn: Churn<P>,
    ) -> Self {
        Self::new(at, name, exchanges, move |count| {
            std::hint::black_box(churn.run(count));
        })
    }

    /// Others ran meanwhile: a quarter more, untimed, brings the caches back.
    fn round(&mut self) {
        (self.run)(self.exchanges / 4);
        let start = Instant::now();
        (self.run)(self.exchanges);
        self.times.push(start.elapsed().as_secs_f64() * 1e9 / self.exchanges as f64);
    }

    fn median(&self) -> f64 {
        median(self.times.clone())
    }

    /// How many times slower than `other`: the median over rounds.
    fn against(&self, other: &Self) -> f64 {
        median(self.times.iter().zip(&other.times).map(|(mine, other)| mine / other).collect())
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// A population that has been churned until its holes are as many as they stay.
fn settled<P: Placer>(placer: P, live: u64, mix: Mix) -> Churn<P> {
    let mut churn = Churn::new(placer, live, mix);
    churn.run(8 * live);
    churn
}

/// All contenders for `live` blocks of `mix`. Where ours places is checked against the
/// bitmap on the way.
fn churns(workload: &'static str, mix: Mix, live: u64) -> Vec<Cell> {
    // One HBM channel of 16 GiB for few blocks, a hundred of them for many.
    let granules = (4 << 20) * live / FEW;
    let at = (workload, live);
    let (fast, slow, checks) = if live == FEW { (2_000, 200, 20_000) } else { (20_000, 4, 64) };

    let mut space = settled(Space::new(0, granules), live, mix);
    let mut bitmap = Bitmap::new(granules as usize);
    space.live().for_each(|run| bitmap.fill::<true>(run.at as usize, run.len as usize));
    let mut bitmap = space.handed_to(bitmap);
    for _ in 0..checks {
        let (ours, reference) = (space.run(1), bitmap.run(1));
        assert_eq!(space.block(ours), bitmap.block(reference), "{workload}, {live} live");
    }
    println!("{workload:<8} {live:>7} live: {:>6} holes", space.placer.holes().len());

    let mut cells =
        vec![Cell::churn(at, "space", fast, space), Cell::churn(at, "bitmap first fit", slow, bitmap)];
    if mix == Mix::Plain {
        let allocator = Allocator::with_max_allocs(granules as u32, 4 * live as u32);
        cells.push(Cell::churn(at, "offset-allocator", fast, settled(allocator, live, mix)));
    }
    // VMA tries every hole of a size class for an aligned request: with many it would
    // take minutes to settle.
    if mix == Mix::Plain || live == FEW {
        cells.push(Cell::churn(at, "VMA (TLSF)", fast, settled(Vma::new(granules), live, mix)));
    }
    cells
}

/// As many holes as a churn leaves, all long enough for the request and none with room
/// at its alignment (64 KiB) but the last.
fn hostile(holes: u64) -> Vec<Cell> {
    const MASK: u32 = 15;
    const LEN: u32 = MASK + 2;
    const PERIOD: u64 = 4 * (MASK as u64 + 1);
    let request = Request { len: LEN, mask: MASK };
    let mut space = Space::new(0, holes * PERIOD);
    let mut bitmap = Bitmap::new((holes * PERIOD) as usize);
    assert!(space.take(0, holes * PERIOD));
    bitmap.fill::<true>(0, (holes * PERIOD) as usize);
    for hole in 0..holes - 1 {
        assert!(space.give(hole * PERIOD + 1, 2 * u64::from(MASK) + 1));
        bitmap.fill::<false>((hole * PERIOD + 1) as usize, 2 * MASK as usize + 1);
    }
    let last = Run { at: ((holes - 1) * PERIOD) as u32, len: LEN };
    space.free(last);
    bitmap.free(last);
    let at = ("hostile", holes);
    let (fast, slow) = if holes < FEW { (2_000, 200) } else { (20_000, 4) };
    vec![
        Cell::new(at, "space", fast, move |count| exchange(&mut space, request, last, count)),
        Cell::new(at, "bitmap first fit", slow, move |count| exchange(&mut bitmap, request, last, count)),
    ]
}

fn exchange(placer: &mut impl Placer<Block = Run>, request: Request, expected: Run, count: u64) {
    for _ in 0..count {
        let block = placer.place(request);
        assert_eq!(block, expected);
        placer.free(block);
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let mut groups = vec![
        (churns("plain", Mix::Plain, FEW), churns("plain", Mix::Plain, MANY)),
        (churns("aligned", Mix::Aligned, FEW), churns("aligned", Mix::Aligned, MANY)),
        (hostile(FEW / 2), hostile(MANY / 2)),
    ];
    for _ in 0..ROUNDS {
        for cell in groups.iter_mut().flat_map(|(few, many)| few.iter_mut().chain(many)) {
            cell.round();
        }
    }

    println!("\nOne free and one allocation, median of {ROUNDS} rounds, and the time over ours.\n");
    println!("| workload | live    | contender        | ns per pair | x ours | fastest | slowest |");
    println!("|----------|---------|------------------|-------------|--------|---------|---------|");
    for cells in groups.iter().flat_map(|(few, many)| [few, many]) {
        for cell in cells {
            let (low, high) = cell
                .times
                .iter()
                .fold((f64::MAX, 0.0_f64), |(low, high), &time| (low.min(time), high.max(time)));
            println!(
                "| {:<8} | {:>7} | {:<16} | {:>11.1} | {:>6.1} | {low:>7.0} | {high:>7.0} |",
                cell.workload,
                cell.live,
                cell.name,
                cell.median(),
                cell.against(&cells[0]),
            );
        }
    }

    println!();
    let mut held = true;
    for (few, many) in &groups {
        let (over, growth) = (few[1].against(&few[0]), many[0].against(&few[0]));
        let workload = few[0].workload;
        for (what, figure, met) in [
            (format!("bitmap over ours at {} (floor {FLOOR})", few[0].live), over, over >= FLOOR),
            (
                format!("ours at {} over {} (ceiling {FLAT})", many[0].live, few[0].live),
                growth,
                growth <= FLAT,
            ),
        ] {
            println!("{workload:<8} {what}: {figure:.1} {}", if met { "met" } else { "MISSED" });
            held &= met;
        }
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
