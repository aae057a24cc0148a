//! Counts over the rounds.

use std::fmt;
use std::path::Path;

use thermocline_transactions::check::Report;
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::log::list_segments;
use thermocline_transactions::recovery::Progress;
use thermocline_workloads::tpcc::Transaction;

use super::clients::Workload;
use super::sent::{Fate, Killed, Sent};

#[derive(Debug, Default)]
pub struct Tally {
    /// Processes that were killed while they started or recovered, loaded, and worked.
    recovering: u64,
    loading: u64,
    working: u64,
    /// Directories with a last group of the log that was written in part, and with files of a snapshot that
    /// was not complete.
    torn: u64,
    unfinished: u64,
    recoveries: u64,
    with_snapshot: u64,
    with_recycled_segments: u64,
    records: u64,
    /// Calls that were acknowledged: of YCSB those that read and those that update, then TPC-C's.
    reads: u64,
    updates: u64,
    transactions: [u64; 5],
    /// Orders and payments of several warehouses among them.
    remote: u64,
    rolled_back: u64,
    /// Calls without an answer.
    unknown: u64,
    bytes_max: u64,
    last: String,
}

impl Tally {
    pub fn killed(&mut self, killed: &Killed, loads: bool) {
        match (killed.ran, loads && killed.recovered) {
            (true, _) => self.working += 1,
            (false, true) => self.loading += 1,
            (false, false) => self.recovering += 1,
        }
    }

    pub fn checked(&mut self, report: &Report) {
        let notes = |what: &str| u64::from(report.notes.iter().any(|note| note.contains(what)));
        self.torn += notes("was not written to its end");
        self.unfinished += notes("was never finished");
    }

    pub fn recovered(&mut self, directory: &Path, progress: &Progress, sent: &[Sent]) {
        self.recoveries += 1;
        self.with_snapshot += u64::from(progress.rows_total > 0);
        self.records += progress.records;
        let segments = list_segments(&RealDisk::open(directory).unwrap()).unwrap();
        self.with_recycled_segments += u64::from(segments.first().is_some_and(|first| first.0 > 1));
        let bytes = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        self.bytes_max = self.bytes_max.max(bytes);
        let before = self.acknowledged();
        sent.iter().for_each(|sent| self.sent(sent));
        let acknowledged = self.acknowledged() - before;
        let Progress { rows_total: rows, records, .. } = progress;
        self.last = format!("{acknowledged} acknowledged; {rows} rows and {records} records recovered, {bytes} bytes");
    }

    fn sent(&mut self, sent: &Sent) {
        match (&sent.fate, sent.workload) {
            (Fate::Unknown, _) => self.unknown += 1,
            (Fate::Refused, _) => self.rolled_back += 1,
            (Fate::Committed(_), Workload::Ycsb) if sent.call.arguments.len() == 1 => self.reads += 1,
            (Fate::Committed(_), Workload::Ycsb) => self.updates += 1,
            (Fate::Committed(_), Workload::Tpcc) => {
                self.transactions[sent.call.procedure] += 1;
                self.remote += u64::from(sent.is_remote());
            }
        }
    }

    fn acknowledged(&self) -> u64 {
        self.reads + self.updates + self.transactions.iter().sum::<u64>()
    }

    /// The last round.
    pub fn last(&self) -> &str {
        &self.last
    }

    /// Checks that this many rounds have seen enough to be meaningful.
    pub fn expect_enough(&self, rounds: u64) {
        assert!(self.acknowledged() > rounds && self.records > 0 && self.working > 0, "{self:?}");
        if rounds >= 50 {
            let few = [self.recovering, self.loading, self.remote, self.rolled_back, self.unknown];
            assert!(self.unfinished > 0, "{self:?}");
            assert!(few.iter().all(|seen| *seen > 0) && self.transactions.iter().all(|seen| *seen > 0), "{self:?}");
            assert!(self.with_snapshot > rounds / 4 && self.with_recycled_segments > rounds / 4, "{self:?}");
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recovering, loading, working, recoveries, with_snapshot, records, .. } = self;
        let Self {
            torn,
            unfinished,
            with_recycled_segments,
            reads,
            updates,
            remote,
            rolled_back,
            unknown,
            bytes_max,
            ..
        } = self;
        writeln!(f, "killed: {recovering} while they recovered, {loading} loaded, {working} worked")?;
        writeln!(f, "left behind: {unfinished} times a part of a snapshot, {torn} times a part of a group of the log")?;
        writeln!(f, "recoveries: {recoveries}, {with_snapshot} with a snapshot, {records} records replayed")?;
        writeln!(f, "{with_recycled_segments} with recycled segments, at most {bytes_max} bytes of files")?;
        writeln!(f, "acknowledged: {} calls; YCSB: {reads} reads, {updates} updates; TPC-C:", self.acknowledged())?;
        for (name, count) in Transaction::PROCEDURES.iter().zip(self.transactions) {
            writeln!(f, "  {name}: {count}")?;
        }
        write!(f, "  with several warehouses: {remote}; rolled back: {rolled_back}; without an answer: {unknown}")
    }
}
