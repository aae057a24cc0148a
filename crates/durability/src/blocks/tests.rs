use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_machine::ids::{DatabaseId, PartitionId};
use thermocline_machine::random::Random;
use thermocline_machine::{Machine, Step};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{
    BlockNumber, BlockPlace, BlockStatistics, Blocks, Budget, Growth, Table, TupleId, Undo,
};
use thermocline_types::{Error, Result, ValueRef};

use super::*;
use crate::disk::{Disk, Faults, SimulatedDisk};
use crate::snapshot::tests::table as test_table;

fn store(disk: &SimulatedDisk, segment_bytes: u64) -> BlockStore {
    store_with(disk, segment_bytes, BlockWrites::at_once())
}

fn store_with(disk: &SimulatedDisk, segment_bytes: u64, writes: Arc<BlockWrites>) -> BlockStore {
    let (settings, budget) =
        (BlockStoreSettings { segment_bytes, ..Default::default() }, Arc::new(Budget::unlimited()));
    let files = BlockFiles::open(Arc::new(disk.clone()), None).unwrap();
    BlockStore::new(files, DatabaseId(7), PartitionId(3), settings, (writes, &budget))
}

/// A table whose rows go to blocks and come back at random, beside a map of what it holds.
struct Run {
    table: Table,
    store: BlockStore,
    writer: BlockWriter,
    model: BTreeMap<TupleId, (i64, String)>,
    undo: Undo,
    random: Random,
    budget: Arc<Budget>,
    refused: usize,
}

impl Run {
    fn new(disk: &SimulatedDisk, seed: u64) -> Self {
        let budget = Arc::new(Budget::unlimited());
        let mut table = Table::new(test_table(5), Arc::clone(&budget), seed).unwrap();
        let victims = if seed % 4 < 2 { Victims::Sampled } else { Victims::Chain };
        table.set_victims(victims);
        let (model, undo, random) = (BTreeMap::new(), Undo::new(1 << 20), Random::new(seed));
        // In every third run all blocks are written at once.
        let writes = if seed.is_multiple_of(3) { BlockWrites::at_once() } else { BlockWrites::with_limit(200_000) };
        let (writer, store) = (BlockWriter::new(&writes), store_with(disk, 100_000, writes));
        Self { table, store, writer, model, undo, random, budget, refused: 0 }
    }

    /// Evicts cold rows of about `bytes` bytes.
    fn evict(&mut self, bytes: usize) -> Result<usize> {
        let cold = self.table.coldest(bytes, 10_000).cold;
        let mut block = self.store.begin(self.table.definition().id)?;
        let number = block.number();
        let mut places = Vec::new();
        for id in &cold {
            places.push(block.push(*id, self.table.row(*id)?.image()));
        }
        self.store.put(block)?;
        for (id, offset) in cold.iter().zip(places) {
            self.table.evict(*id, BlockPlace { block: number, offset })?;
        }
        Ok(cold.len())
    }

    /// Makes a row live, and says whether it had to be read.
    fn bring_back(&mut self, id: TupleId) -> Result<bool> {
        let Some(place) = self.table.block_place(id) else { return Ok(false) };
        let table = &mut self.table;
        let mut buffer = Vec::new();
        self.store.read_row((place.block, place.offset), id, &mut buffer, |image| {
            table.bring_back(id, image, Growth::Asked)
        })?;
        self.store.release(place.block)?;
        Ok(true)
    }

    fn step(&mut self) -> Result<()> {
        let ids: Vec<TupleId> = self.model.keys().copied().collect();
        let longest = if self.random.one_in(50) { 20_000 } else { 400 };
        let text = "x".repeat(self.random.index(longest));
        if self.random.one_in(6) {
            let _step = self.writer.step();
        }
        match (self.random.below(8), self.random.pick(&ids).copied()) {
            (0, Some(id)) => {
                self.bring_back(id)?;
                self.table.delete(id, &mut self.undo)?;
                self.model.remove(&id);
            }
            (1, Some(id)) => {
                self.bring_back(id)?;
                self.table.update(id, &[(1, ValueRef::Text(&text))], &mut self.undo)?;
                self.model.entry(id).and_modify(|row| row.1 = text);
            }
            (2 | 3, Some(id)) => {
                let is_evicted = self.table.block_place(id).is_some();
                let row = self.table.row(id).err();
                assert_eq!(row, is_evicted.then_some(Error::Evicted));
                self.bring_back(id)?;
            }
            (4, _) => {
                let bytes = self.random.index(100_000);
                self.evict(bytes)?;
            }
            _ => {
                let key = self.random.below(1 << 40) as i64;
                let id = self.table.insert(&[ValueRef::Int(key), ValueRef::Text(&text)], &mut self.undo)?;
                self.model.insert(id, (key, text));
            }
        }
        Ok(())
    }

    fn check(&self) {
        let evicted = self.model.keys().filter(|id| self.table.block_place(**id).is_some()).count();
        assert_eq!((evicted, self.store.statistics().rows), (self.table.evicted_rows(), evicted as u64));
        assert_eq!(self.table.rows(), self.model.len());
        assert_eq!(self.budget.used(), self.table.memory().total() as u64);
    }
}

/// Random changes, evictions and returns, with disks that fail: no row is lost, in both places or in none.
#[test]
fn rows_are_live_or_in_a_block_and_never_lost() {
    let mut refused = 0;
    for seed in 0..60 {
        println!("seed {seed}");
        let disk = SimulatedDisk::new(seed, Faults::default());
        let mut run = Run::new(&disk, seed);
        if seed % 2 == 1 {
            disk.set_faults(Faults { full: 20, read: 20, ..Faults::default() });
        }
        for _ in 0..600 {
            if let Err(error) = run.step() {
                assert!(matches!(error, Error::Io(_) | Error::DiskFull(_)), "{error}");
                run.refused += 1;
            }
            run.undo.clear();
            run.check();
        }
        refused += run.refused;
        disk.set_faults(Faults::default());
        // Where the disk takes blocks again, none stays in memory.
        if run.evict(1).unwrap() > 0 {
            while matches!(run.writer.step(), Step::Go) {}
            Blocks::forget_written(&mut run.store);
            assert_eq!(run.store.waiting(), 0);
        }
        for id in run.model.keys().copied().collect::<Vec<_>>() {
            run.bring_back(id).unwrap();
            let row = run.table.row(id).unwrap();
            assert!(run.table.block_place(id).is_none());
            let (key, text) = &run.model[&id];
            assert_eq!((row.value(0), row.value(1)), (ValueRef::Int(*key), ValueRef::Text(text)));
        }
        run.table.check().unwrap();
        let BlockStatistics { blocks, rows, block_bytes, written_total, reads_total, .. } = run.store.statistics();
        assert_eq!((blocks, rows, block_bytes), (0, 0, 0));
        assert!(written_total > 0 && reads_total > 0);
        assert!(disk.list().unwrap().len() <= 1, "only the open segment stays: {:?}", disk.list());
        drop(run.store);
        assert_eq!(disk.list().unwrap(), Vec::<String>::new());
        drop(run.table);
        assert_eq!(run.budget.used(), 0);
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_whole_block_has_the_rows_that_were_put_there() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut store = store(&disk, 1 << 20);
    let rows: Vec<(TupleId, Vec<u8>)> = (0..100).map(|id| (TupleId(id), vec![id as u8; 100 * id as usize])).collect();
    let mut block = store.begin(TableId(9)).unwrap();
    let number = block.number();
    let offsets: Vec<u32> = rows.iter().map(|(id, image)| block.push(*id, image)).collect();
    store.put(block).unwrap();
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    store
        .read_block(number, &mut buffer, |offset, record| {
            found.push((offset, record.tuple, record.image.to_vec()));
            Ok(())
        })
        .unwrap();
    let expected = rows.iter().zip(&offsets).map(|((id, image), offset)| (*offset, *id, image.clone()));
    assert!(found.into_iter().eq(expected));
    // A row alone takes the pages that hold it, and no more.
    for ((id, image), offset) in rows.iter().zip(offsets) {
        let read = store.read_row((number, offset), *id, &mut buffer, |read| Ok(read.to_vec())).unwrap();
        assert_eq!(read, *image);
        assert!(
            buffer.len() <= (12 + image.len()).next_multiple_of(4096) + 4096,
            "{} for {}",
            buffer.len(),
            image.len()
        );
    }
    let error = store.read_block(BlockNumber(77), &mut buffer, |_, _| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "internal error: partition 3 has no block 77");
}

/// Every bit of a segment: a change is an error that names file and block, or changes nothing that is read.
#[test]
fn damage_is_found_where_it_is_read() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut store = store(&disk, 1 << 20);
    let mut places = Vec::new();
    for number in 0..3 {
        let mut block = store.begin(TableId(number)).unwrap();
        let of_block = (0..4).map(|id| (TupleId(id), block.push(TupleId(id), &[id as u8; 700]))).collect::<Vec<_>>();
        places.extend(of_block.into_iter().map(|(id, offset)| (block.number(), id, offset)));
        store.put(block).unwrap();
    }
    let name = disk.list().unwrap().remove(0);
    let intact = crate::disk::read_file(&disk, &name, 1 << 20).unwrap();
    let mut buffer = Vec::new();
    let mut read = |store: &BlockStore| -> Vec<Result<()>> {
        let rows = places.iter().map(|(block, id, offset)| {
            store.read_row((*block, *offset), *id, &mut buffer, |image| {
                assert_eq!(image, [id.0 as u8; 700]);
                Ok(())
            })
        });
        rows.collect()
    };
    assert!(read(&store).iter().all(Result::is_ok));
    let mut found = 0;
    for at in (4096..intact.len()).step_by(61) {
        let mut bytes = intact.clone();
        bytes[at] ^= 1 << (at % 8);
        disk.overwrite(&name, bytes);
        let errors: Vec<Error> = read(&store).into_iter().filter_map(Result::err).collect();
        assert!(errors.len() <= 1, "{at}: {errors:?}");
        for error in &errors {
            assert!(matches!(error, Error::Corrupt(_)), "{error}");
            let block = (at - 4096) / 4096;
            assert!(error.to_string().starts_with(&format!("{name}: block {block} at byte")), "{at}: {error}");
        }
        found += errors.len();
    }
    assert!(found > 100, "{found}");
    disk.overwrite(&name, intact[..5000].to_vec());
    let errors: Vec<String> = read(&store).into_iter().filter_map(|read| Some(read.err()?.to_string())).collect();
    assert!(errors.len() >= 11 && errors[0].contains("the file ends"), "{errors:?}");
}

#[test]
fn what_an_earlier_process_has_left_is_removed_and_nothing_else() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut store = store(&disk, 1);
    for _ in 0..3 {
        let mut block = store.begin(TableId(0)).unwrap();
        block.push(TupleId(0), b"row");
        store.put(block).unwrap();
    }
    disk.create("log-1").unwrap().append(b"x").unwrap();
    disk.create("blocks-notes").unwrap().append(b"x").unwrap();
    assert_eq!(disk.list().unwrap().len(), 5);
    BlockFiles::open(Arc::new(disk.clone()), None).unwrap().remove_left();
    assert_eq!(disk.list().unwrap(), ["blocks-notes", "log-1"]);
}
