use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;

use thermocline_types::{Error, Result};

use super::*;
use crate::disk::{Disk, RealDisk};

/// Bytes that tell their place.
fn pages(count: usize) -> Vec<u8> {
    (0..count * 1024).flat_map(|word| (word as u32).to_le_bytes()).collect()
}

fn opened(path: &Path) -> Arc<RealFile> {
    Arc::new(RealFile::new(OpenOptions::new().read(true).open(path).unwrap(), path.to_owned()))
}

/// A ring; `None`, with a line, where the kernel has none, as in some containers.
fn ring() -> Option<Arc<Ring>> {
    Ring::start().inspect_err(|error| eprintln!("not tested: {error}")).ok()
}

#[test]
fn reads_give_what_pread_gives() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = pages(64);
    fs::write(directory.path().join("file"), &bytes).unwrap();
    for disk in [RealDisk::open(directory.path()).unwrap(), RealDisk::open(directory.path()).unwrap().without_ring()] {
        let file = disk.open_direct("file").unwrap();
        let (sender, receiver) = mpsc::channel();
        // The last are at the end of the file, and behind it.
        let places = (0..1000).map(|number| (number * 37 % 63, 1 + number % 2)).chain([(63, 2), (64, 1), (70, 1)]);
        let places: Vec<(usize, usize)> = places.collect();
        for (number, (page, count)) in places.iter().copied().enumerate() {
            let sender = sender.clone();
            let done = move |read: Result<&[u8]>| sender.send((number, read.unwrap().to_vec())).unwrap();
            file.start_read(page as u64 * 4096, count * 4096, Box::new(done));
        }
        for _ in 0..places.len() {
            let (number, read) = receiver.recv().unwrap();
            let (page, count) = places[number];
            let end = ((page + count) * 4096).min(bytes.len());
            assert_eq!(read, bytes.get(page * 4096..end).unwrap_or_default(), "read {number}");
        }
    }
}

#[test]
fn an_error_is_one_of_its_read() {
    let Some(ring) = ring() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, pages(1)).unwrap();
    let written = OpenOptions::new().write(true).open(&path).unwrap();
    let not_read = Arc::new(RealFile::new(written, path.clone()));
    let (sender, receiver) = mpsc::channel();
    for file in [not_read, opened(&path)] {
        let sender = sender.clone();
        let done = move |read: Result<&[u8]>| sender.send(read.map(<[u8]>::len)).unwrap();
        ring.push(Read { file, offset: 0, length: 4096, done: Box::new(done) });
    }
    let mut read = [receiver.recv().unwrap(), receiver.recv().unwrap()];
    read.sort_by_key(Result::is_ok);
    assert!(matches!(&read[0], Err(Error::Io(message)) if message.contains("cannot read") && message.contains("file")));
    assert_eq!(read[1], Ok(4096));
    assert!(ring.works());
}

/// Also where the thread looks for others only when the one in progress is over, or after a while.
#[test]
fn a_read_is_held_up_by_no_other_for_long() {
    let Some(ring) = ring() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, pages(1)).unwrap();
    let (unwritten, mut writer) = io::pipe().unwrap();
    let unwritten = Arc::new(RealFile::new(File::from(OwnedFd::from(unwritten)), path.clone()));
    let (sender, receiver) = mpsc::channel();
    let push = |file, length, number: u32| {
        let sender = sender.clone();
        let done = move |read: Result<&[u8]>| sender.send((number, read.unwrap().len())).unwrap();
        ring.push(Read { file, offset: 0, length, done: Box::new(done) });
    };
    push(unwritten, 64, 0);
    for number in 1..=60 {
        // At once, and after the thread has stopped looking.
        if number % 20 == 0 {
            thread::sleep(20 * LINGER);
        }
        push(opened(&path), 4096, number);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok((number, 4096)));
    }
    writer.write_all(&[7; 64]).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok((0, 64)));
    assert!(ring.works());
}

#[test]
fn a_ring_ends_after_its_reads_and_outlives_panics() {
    let Some(ring) = ring() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, pages(16)).unwrap();
    let (sender, receiver) = mpsc::channel();
    ring.push(Read { file: opened(&path), offset: 0, length: 4096, done: Box::new(|_| panic!("on purpose")) });
    for number in 0..1000 {
        let sender = sender.clone();
        let done = move |read: Result<&[u8]>| sender.send(read.unwrap()[0]).unwrap();
        ring.push(Read { file: opened(&path), offset: number % 16 * 4096, length: 4096, done: Box::new(done) });
    }
    drop((ring, sender));
    // Ends when the thread has dropped what followed each read.
    assert_eq!(receiver.iter().count(), 1000);
}

#[test]
fn reads_of_a_ring_that_broke_are_done_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, pages(16)).unwrap();
    let Ok(uring) = Uring::new(8) else { return };
    let (woken, wake) = io::pipe().unwrap();
    let queue = Arc::new(Queue::new(wake));
    let ring = Ring { queue: Arc::clone(&queue) };
    let mut driver =
        Driver { uring, queue, woken: Arc::new(woken), is_armed: false, has_lingered: false, kept: Vec::new() };
    let (sender, receiver) = mpsc::channel();
    let read = |page: u64| {
        let sender = sender.clone();
        let done = move |read: Result<&[u8]>| sender.send(read.unwrap()[..4].to_vec()).unwrap();
        Read { file: opened(&path), offset: page * 4096, length: 4096, done: Box::new(done) }
    };
    // The pipe and a read in the ring, one before it.
    driver.arm();
    driver.begin(read(1));
    ring.push(read(2));
    let thread = thread::spawn(move || driver.go_on_without());
    let first = [receiver.recv().unwrap(), receiver.recv().unwrap()];
    assert_eq!(first, [1024_u32, 2048].map(|word| word.to_le_bytes().to_vec()));
    assert!(!ring.works());
    ring.push(read(3));
    assert_eq!(receiver.recv().unwrap(), 3072_u32.to_le_bytes());
    drop(ring);
    thread.join().unwrap();
}
