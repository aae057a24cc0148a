use super::*;
use crate::disk::{read_file, write_file_whole};

fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed, Faults::default())
}

fn written(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> Box<dyn AppendFile> {
    let mut file = disk.create(name).unwrap();
    file.append(bytes).unwrap();
    file
}

fn content(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    read_file(disk, name, 1 << 20).unwrap()
}

#[test]
fn what_was_synced_stays_and_the_rest_is_lost_or_torn_by_sector() {
    let mut counts = FaultCounts::default();
    for seed in 0..200 {
        let disk = disk(seed);
        let mut file = written(&disk, "f", &[1; 700]);
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        file.append(&[2; 3000]).unwrap();
        disk.restart(Crash::Power);

        let left = content(&disk, "f");
        assert!((700..=3700).contains(&left.len()), "seed {seed}");
        assert_eq!(left[..700], [1; 700], "seed {seed}");
        for sector in sectors(700..left.len()) {
            let sector = &left[sector];
            assert!(sector.iter().all(|byte| *byte == sector[0] && matches!(byte, 0 | 2)), "seed {seed}");
        }
        assert!(file.append(&[3]).is_err(), "a handle of an ended process is dead");
        counts.add(&disk.counts());
    }
    assert!(counts.lost_writes > 0 && counts.torn_writes > counts.torn_writes_with_holes);
    assert!(counts.torn_writes_with_holes > 0);
}

#[test]
fn a_killed_process_loses_nothing_that_it_wrote() {
    let disk = disk(1);
    written(&disk, "f", b"unsynced");
    disk.restart(Crash::Process);
    assert_eq!(content(&disk, "f"), b"unsynced");
}

#[test]
fn names_are_lost_from_the_last_one_back() {
    let mut lost = [0; 3];
    for seed in 0..100 {
        let disk = disk(seed);
        written(&disk, "a", b"a").sync().unwrap();
        disk.sync_directory().unwrap();
        disk.rename("a", "b").unwrap();
        written(&disk, "c", b"c").sync().unwrap();
        disk.restart(Crash::Power);
        let names = disk.list().unwrap();
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["a"] => lost[2] += 1,
            ["b"] => lost[1] += 1,
            ["b", "c"] => lost[0] += 1,
            _ => panic!("seed {seed}: {names:?}"),
        }
    }
    assert!(lost.iter().all(|times| *times > 10), "{lost:?}");
}

#[test]
fn after_a_failed_sync_bytes_are_readable_and_a_second_sync_saves_nothing() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = disk(seed);
        let mut file = disk.create("f").unwrap();
        disk.sync_directory().unwrap();
        file.append(&[1; 512]).unwrap();
        disk.set_faults(Faults { sync: 1, ..Faults::default() });
        assert!(matches!(file.sync(), Err(Error::Io(message)) if message.contains("simulated failure")));
        disk.set_faults(Faults::default());
        file.sync().unwrap();
        disk.restart(Crash::Process);
        assert_eq!(content(&disk, "f"), [1; 512]);
        disk.restart(Crash::Power);
        lost += u64::from(content(&disk, "f") != [1; 512]);
        assert_eq!(disk.counts().sync_failures, 1);
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn a_full_disk_takes_a_part() {
    let disk = disk(3);
    let mut file = disk.create("f").unwrap();
    disk.set_faults(Faults { full: 1, ..Faults::default() });
    assert_eq!(file.append(&[1; 100]).unwrap_err().sqlstate(), "53100");
    assert!(content(&disk, "f").len() < 100);
    disk.set_faults(Faults { read: 1, ..Faults::default() });
    assert!(read_file(&disk, "f", 100).is_err());
    assert_eq!((disk.counts().disk_full, disk.counts().read_failures), (1, 1));
}

#[test]
fn one_bit_flips() {
    let disk = disk(4);
    assert_eq!(disk.flip_bit(), None);
    written(&disk, "f", &[0; 64]).sync().unwrap();
    let (name, offset) = disk.flip_bit().unwrap();
    let bytes = content(&disk, &name);
    assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_ne!(bytes[usize::try_from(offset).unwrap()], 0);
}

/// Ends the process at every operation of a small program, once for each of several seeds.
#[test]
fn a_file_written_whole_is_there_or_not() {
    let mut counts = FaultCounts::default();
    for (operation, seed) in (0..6).flat_map(|operation| (0..20).map(move |seed| (operation, seed))) {
        let disk = disk(seed);
        write_file_whole(&disk, "f", b"old").unwrap();
        disk.crash_after(Some(operation));
        let result = write_file_whole(&disk, "f", &[7; 2000]);
        assert_eq!((result.is_err(), disk.crashed()), (operation < 5, operation < 5));
        disk.restart(if seed % 2 == 0 { Crash::Power } else { Crash::Process });
        let left = content(&disk, "f");
        assert!(left == [7; 2000] || (left == b"old" && operation < 5), "operation {operation}, seed {seed}");
        write_file_whole(&disk, "f", b"again").unwrap();
        counts.add(&disk.counts());
    }
    let crashes = [
        counts.crashes_in_create,
        counts.crashes_in_append,
        counts.crashes_in_sync,
        counts.crashes_in_rename,
        counts.crashes_in_sync_directory,
    ];
    assert_eq!(crashes, [20; 5]);
    assert!(counts.to_string().contains("crashes_in_rename 20\n"));
}

#[test]
fn one_holder_at_a_time() {
    let disk = disk(5);
    let lock = disk.lock().unwrap();
    assert!(matches!(disk.lock(), Err(Error::CannotOpen(_))));
    disk.restart(Crash::Process);
    let next = disk.lock().unwrap();
    drop(lock);
    assert!(disk.lock().is_err(), "the lock of the ended process is none of the next one's");
    drop(next);
    disk.lock().unwrap();
}
