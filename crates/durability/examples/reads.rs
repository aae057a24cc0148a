//! Compares reads of rows by threads, each of which waits for its own, with reads through io_uring.
//!
//! `cargo run --release -p thermocline-durability --example reads -- DIRECTORY`
//!
//! Reads random pages of a file of 1 GiB in the directory, made if it is missing, with `O_DIRECT`: rows of 1 KiB need
//! one each, most of the time. Prints reads per second and processor time per read.

use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use thermocline_durability::disk::{Disk, ReadFile, RealDisk};
use thermocline_machine::random::Random;

const FILE: &str = "reads";
const FILE_BYTES: u64 = 1 << 30;
const PAGE: usize = 4096;
const TIME: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("the directory is missing")?;
    let disk = RealDisk::open(directory)?;
    if !disk.list()?.iter().any(|name| name == FILE) {
        let mut file = disk.create_direct(FILE)?;
        for piece in 0..FILE_BYTES >> 20 {
            file.append(&vec![piece as u8; 1 << 20])?;
        }
        file.sync()?;
    }
    println!("io_uring: {}", disk.is_asynchronous());
    let file: Arc<dyn ReadFile> = Arc::from(disk.open_direct(FILE)?);
    println!("{:>9} {:>9} {:>12} {:>12}", "in flight", "by", "reads/s", "µs CPU/read");
    for in_flight in [1, 16, 64, 256] {
        for (name, measure) in [("threads", by_threads as fn(_, _) -> _), ("io_uring", by_ring)] {
            let before = cpu_us()?;
            let begun = Instant::now();
            let reads = measure(&file, in_flight);
            let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_us()? - before);
            println!("{in_flight:>9} {name:>9} {:>12.0} {:>12.2}", reads as f64 / seconds, cpu as f64 / reads as f64);
        }
    }
    Ok(())
}

fn page(random: &mut Random) -> u64 {
    random.below(FILE_BYTES / PAGE as u64) * PAGE as u64
}

/// As fetches do it: requests come through a queue, and at most 16 threads read.
fn by_threads(file: &Arc<dyn ReadFile>, in_flight: u64) -> u64 {
    let (reads, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 0..in_flight.min(16) {
            let (reads, is_over) = (&reads, &is_over);
            scope.spawn(move || {
                let (mut random, mut buffer) = (Random::new(number), vec![0; PAGE]);
                while !is_over.load(Ordering::Relaxed) {
                    if file.read_at(page(&mut random), &mut buffer).is_ok() {
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        thread::sleep(TIME);
        is_over.store(true, Ordering::Relaxed);
    });
    reads.into_inner()
}

/// What follows a read begins the next one.
fn by_ring(file: &Arc<dyn ReadFile>, in_flight: u64) -> u64 {
    let (over, receiver) = mpsc::channel();
    let state = Arc::new(Reads { count: AtomicU64::new(0), is_over: AtomicBool::new(false), _over: over });
    for number in 0..in_flight {
        next(Arc::clone(file), Random::new(number), Arc::clone(&state));
    }
    thread::sleep(TIME);
    state.is_over.store(true, Ordering::Relaxed);
    let count = state.count.load(Ordering::Relaxed);
    drop(state);
    receiver.iter().for_each(|()| ());
    count
}

struct Reads {
    count: AtomicU64,
    is_over: AtomicBool,
    /// Dropped with the last read.
    _over: mpsc::Sender<()>,
}

fn next(file: Arc<dyn ReadFile>, mut random: Random, state: Arc<Reads>) {
    let (offset, reader) = (page(&mut random), Arc::clone(&file));
    let done = move |read: thermocline_types::Result<&[u8]>| {
        if read.is_ok() {
            state.count.fetch_add(1, Ordering::Relaxed);
        }
        if !state.is_over.load(Ordering::Relaxed) {
            next(file, random, state);
        }
    };
    reader.start_read(offset, PAGE, Box::new(done));
}

/// Processor time of this process, user and system, in ticks of 10 ms.
fn cpu_us() -> Result<u64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().ok_or("no fields")?.split_whitespace().collect();
    let ticks = fields.get(11).ok_or("no user time")?.parse::<u64>()?
        + fields.get(12).ok_or("no system time")?.parse::<u64>()?;
    Ok(ticks * 10_000)
}
