//! Times of the device below a directory.

use std::time::{Duration, Instant};

use thermocline_types::Result;

use super::RealDisk;
use super::direct::is_direct;
use crate::disk::device::SIZES;
use crate::disk::{Device, Disk, TEMPORARY};

/// Bytes that are written in pieces of each size.
const WRITTEN_BYTES: usize = 1 << 20;
/// Reads of each size, and the fewest.
const READS: usize = 16;
const READS_MIN: usize = 3;
/// Time for the reads, and for the writes, of each size, if the device is slow.
const TIME: Duration = Duration::from_millis(20);

/// Measures in a fifth of a second at most, unless a single read or write takes long, with 10 MiB of reads and writes;
/// `None` where the page cache would answer. Of writes the least time counts, as others use the device and the
/// processors as well; of reads the median, because some may be of what the device has in a cache of its own. If the
/// process ends in between, the next one removes the file.
pub(super) fn measure(disk: &RealDisk) -> Result<Option<Device>> {
    let name = format!("measured{TEMPORARY}");
    if disk.list()?.contains(&name) {
        disk.remove(&name)?;
    }
    let measured = measure_in(disk, &name);
    disk.remove(&name).and(measured)
}

fn measure_in(disk: &RealDisk, name: &str) -> Result<Option<Device>> {
    let (mut write_us, mut read_ns) = ([0; 4], [0; 4]);
    let mut file = disk.create_direct(name)?;
    let mut bytes = 0;
    for (time, size) in write_us.iter_mut().zip(SIZES) {
        // Not zeros, which some devices do not write.
        let piece: Vec<u8> = (0..size).map(|byte| (byte * 7 + byte / 251) as u8).collect();
        let (begun, mut written, mut least) = (Instant::now(), 0, Duration::MAX);
        while written < WRITTEN_BYTES && (written == 0 || begun.elapsed() < TIME) {
            let write = Instant::now();
            file.append(&piece)?;
            least = least.min(write.elapsed());
            written += size;
        }
        bytes += written as u64;
        let of_mib = least.as_micros() as u64 * (WRITTEN_BYTES / size) as u64;
        *time = of_mib.max(1);
    }
    drop(file);
    if !is_direct(&disk.file(name)?) {
        return Ok(None);
    }
    let file = disk.open_direct(name)?;
    let mut place = 1_u64;
    for (time, size) in read_ns.iter_mut().zip(SIZES) {
        let (begun, mut times, mut buffer) = (Instant::now(), Vec::with_capacity(READS), vec![0; size]);
        let places = (bytes / size as u64).max(1);
        while times.len() < READS && (times.len() < READS_MIN || begun.elapsed() < TIME) {
            // A linear congruential generator is random enough here.
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let read = Instant::now();
            file.read_at((place >> 33) % places * size as u64, &mut buffer)?;
            times.push(read.elapsed());
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        *time = (median.as_nanos() as u64).max(1);
    }
    Ok(Some(Device { read_ns, write_us }))
}
