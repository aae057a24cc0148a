//! What a database's device does well, measured once.

use std::fmt::Write as _;

use crc32c::crc32c;
use thermocline_types::{Error, Result};

use super::{Disk, read_file, write_file_whole};

/// Name of the file. Without it, or if it is damaged, the device is measured again.
const FILE: &str = "device";
/// Format version that this program writes and reads.
const FORMAT_VERSION: u32 = 1;
/// It has four short lines.
const BYTES_MAX: u64 = 1 << 10;

/// Sizes of reads and writes that are measured.
pub const SIZES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Sizes to write in, of which the smaller is preferred: memory for two blocks is taken while they are written.
const WRITTEN_SIZES: [usize; 2] = [64 << 10, 256 << 10];

/// Times of a device.
///
/// ```text
/// thermocline device, format 1
/// read 81000 84000 120000 300000 ns
/// write 9000 3000 1500 1400 us
/// checksum 0badcafe
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Nanoseconds of a read of each of [`SIZES`] at a random place.
    pub(super) read_ns: [u64; 4],
    /// Microseconds to write a MiB front to back, in pieces of each of [`SIZES`].
    pub(super) write_us: [u64; 4],
}

impl Device {
    /// Nanoseconds of a read of 4 KiB at a random place, with no other in flight.
    pub const fn read_ns(&self) -> u64 {
        let [page, ..] = self.read_ns;
        page
    }

    /// Bytes to write at once: the least of 64 and 256 KiB with which a byte takes at most half as long again as with the
    /// other.
    pub const fn written_bytes(&self) -> usize {
        let ([.., smaller, larger], [small, large]) = (self.write_us, WRITTEN_SIZES);
        if smaller.saturating_mul(2) <= larger.saturating_mul(3) { small } else { large }
    }

    /// Bytes to read at once where a few of them are needed: the most, up to 256 KiB, that take at most half as long
    /// again as a page of 4 KiB; 16 KiB at least.
    pub fn read_bytes(&self) -> usize {
        let page = self.read_ns();
        let fits = |time: u64| time.saturating_mul(2) <= page.saturating_mul(3);
        let [_, least, ..] = SIZES;
        let sizes = SIZES.into_iter().zip(self.read_ns).filter(|(_, time)| fits(*time)).map(|(size, _)| size);
        sizes.max().unwrap_or(least).max(least)
    }

    /// What an earlier process has measured of the disk's device; `None` if none has, or its file is damaged.
    pub fn known(disk: &dyn Disk) -> Option<Self> {
        Self::read(disk).ok().flatten()
    }

    /// Keeps it for the processes to come. If it cannot be written, as on a full disk, the next one measures again.
    pub fn keep(&self, disk: &dyn Disk) {
        let _unwritten = self.write(disk);
    }

    /// `None` if there is no file.
    fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        if !disk.list()?.iter().any(|name| name == FILE) {
            return Ok(None);
        }
        let bytes = read_file(disk, FILE, BYTES_MAX)?;
        let device = str::from_utf8(&bytes).ok().and_then(Self::of_text);
        device.map(Some).ok_or_else(|| Error::corrupt(format_args!("{FILE} is damaged")))
    }

    fn write(&self, disk: &dyn Disk) -> Result<()> {
        write_file_whole(disk, FILE, self.text().as_bytes())
    }

    fn text(&self) -> String {
        let mut text = format!("thermocline device, format {FORMAT_VERSION}\n");
        for (name, times, unit) in [("read", self.read_ns, "ns"), ("write", self.write_us, "us")] {
            let [a, b, c, d] = times;
            let _infallible = writeln!(text, "{name} {a} {b} {c} {d} {unit}");
        }
        let checksum = crc32c(text.as_bytes());
        let _infallible = writeln!(text, "checksum {checksum:08x}");
        text
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let mut times = |name: &str, unit: &str| -> Option<[u64; 4]> {
            let line = lines.next()?.strip_prefix(name)?.strip_suffix(unit)?;
            let times: Option<Vec<u64>> = line.split_whitespace().map(|time| time.parse().ok()).collect();
            times?.try_into().ok()
        };
        let device = Self { read_ns: times("read ", " ns")?, write_us: times("write ", " us")? };
        // Also covers version and checksum.
        (device.text() == text).then_some(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Faults, RealDisk, SimulatedDisk};

    const SOME: Device = Device { read_ns: [80_000, 90_000, 110_000, 300_000], write_us: [9000, 3000, 1500, 1400] };

    #[test]
    fn a_file_has_it() {
        let disk = SimulatedDisk::new(7, Faults::default());
        assert_eq!((Device::read(&disk), disk.measure()), (Ok(None), Ok(None)), "a simulated disk has no device");
        SOME.write(&disk).unwrap();
        assert_eq!(Device::known(&disk), Some(SOME));
        for (from, to) in [("80000", "80001"), ("format 1", "format 2"), ("\nwrite", " \nwrite"), ("us\n", "us\n\n")] {
            disk.remove(FILE).unwrap();
            disk.create(FILE).unwrap().append(SOME.text().replace(from, to).as_bytes()).unwrap();
            assert!(matches!(Device::read(&disk), Err(Error::Corrupt(_))), "{from}");
        }
    }

    #[test]
    fn sizes_are_what_the_device_does_well() {
        assert_eq!((SOME.written_bytes(), SOME.read_bytes()), (64 << 10, 64 << 10));
        let slow =
            Device { read_ns: [5_000_000, 5_000_000, 5_200_000, 6_800_000], write_us: [90_000, 30_000, 15_000, 7000] };
        assert_eq!((slow.written_bytes(), slow.read_bytes()), (256 << 10, 256 << 10));
        let fast = Device { read_ns: [1000, 2500, 9000, 40_000], ..SOME };
        assert_eq!(fast.read_bytes(), 16 << 10);
    }

    #[test]
    fn measuring_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        // `None` where files are only read through the page cache.
        let measured = disk.measure().unwrap();
        assert_eq!(disk.list().unwrap(), [""; 0]);
        if let Some(device) = measured {
            assert!(device.write_us.iter().all(|time| *time < 60_000_000), "{device:?}");
            device.keep(&disk);
            assert_eq!(Device::known(&disk), Some(device));
        }
    }
}
