//! Kills a process with clients of YCSB and TPC-C on two partitions at random moments: during loading, recovery or
//! work. Then it opens the database again and compares it with the requests and answers of the clients.
//!
//! - YCSB: each column of each row is that of the last update that was acknowledged or read, or of one that
//!   may have come after it
//! - TPC-C: the orders with all their lines, the payments and the deliveries are those acknowledged, and possibly some
//!   of those in flight, each of them whole, with its effects on the other partition; conditions 1 to 10 and 12 hold
//! - everything that was there is there after the next recovery
//!
//! `THERMOCLINE_KILL_ROUNDS` sets the number of rounds instead of 10, `THERMOCLINE_KILL_SEED` chooses other moments.
//! `THERMOCLINE_KILL_ROWS` and `THERMOCLINE_KILL_MEMORY_MIB` make YCSB's table larger than memory, so that rows are
//! evicted. A database lives for 20 rounds, so that comparing stays cheap; the next one has its procedures in other
//! languages. If something is wrong, its directory is kept, and its name printed. A killed process loses nothing in the
//! operating system's cache; the row engine's simulator covers that loss.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod child;
mod clients;
mod known;
mod planted;
mod sent;
mod tally;
mod tpcc;
mod ycsb;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clients::Languages;
use known::{Known, Loaded};
use sent::{Killed, Plan, kill};
use tally::Tally;
use tempfile::TempDir;
use thermocline_transactions::check::check_files;
use thermocline_transactions::database::RowEngine;
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::random::Random;
use thermocline_transactions::recovery::Progress;

/// Rounds after which the next database comes.
const ROUNDS_EACH: u64 = 20;
/// Longest time that clients work before they are killed.
const WORK_MAX: Duration = Duration::from_millis(500);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Not a test: the body of the process that is killed.
#[test]
#[ignore = "run by the test below"]
fn clients() {
    let [directory, languages] = [child::DIRECTORY, child::LANGUAGES].map(|name| std::env::var(name).unwrap());
    let [process, loads, early] = [child::PROCESS, child::LOAD, child::EARLY].map(|name| number(name, 0));
    child::run(Path::new(&directory), process, languages.parse().unwrap(), loads > 0, early > 0);
}

/// A database that is killed and recovered.
struct Trial {
    directory: TempDir,
    languages: Languages,
    is_killed_loading: bool,
    /// `None` before its load has ended.
    known: Option<Known>,
    rounds: u64,
    /// Duration of the last recovery.
    recovery: Duration,
}

impl Trial {
    fn new(number: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let recovery = Duration::from_millis(50);
        // Two of four, so that the others have procedures in all languages.
        let is_killed_loading = (number / 2).is_multiple_of(2);
        Self { directory, languages: Languages::of(number), is_killed_loading, known: None, rounds: 0, recovery }
    }
}

/// State kept from round to round.
struct Run {
    random: Random,
    loaded: Loaded,
    /// Whether processes answer too early.
    early: bool,
    /// Lines written by processes.
    line: u64,
    /// Number of the last process.
    process: u64,
    tally: Tally,
}

impl Run {
    fn new(seed: u64, early: bool) -> Self {
        let languages = Languages::of(0);
        let loaded = Loaded::new(&planted::in_memory(languages), languages);
        // Processes of other seeds have other calls.
        Self { random: Random::new(seed), loaded, early, line: 0, process: seed << 32, tally: Tally::default() }
    }

    /// A random duration up to this one.
    fn some(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.random.below(most.as_micros() as u64 + 1))
    }

    /// Starts a process and kills it at some time.
    fn kill(&mut self, trial: &Trial) -> Killed {
        let loads = trial.known.is_none();
        let (phase, wait) = if loads && trial.is_killed_loading {
            ("started", self.some(self.loaded.duration))
        } else if !loads && self.random.one_in(4) {
            ("started", self.some(trial.recovery))
        } else {
            ("running", self.some(WORK_MAX))
        };
        self.process += 1;
        let plan = Plan { process: self.process, languages: trial.languages, loads, early: self.early, phase, wait };
        let killed = kill(trial.directory.path(), plan, &mut self.line);
        self.tally.killed(&killed, loads);
        killed
    }

    /// Checks that the files left behind are sound, and now and then also the state that they give.
    fn check(&mut self, trial: &Trial) -> Result<(), Vec<String>> {
        let disk = RealDisk::open(trial.directory.path()).unwrap();
        let report = match self.random.one_in(4) {
            true => RowEngine::check(Arc::new(disk), child::registrations(trial.languages), &mut |_| {}),
            false => check_files(&disk),
        };
        let report = report.map_err(|error| vec![format!("check: {error}")])?;
        self.tally.checked(&report);
        if report.is_sound() { Ok(()) } else { Err(vec![report.to_string()]) }
    }

    /// Runs one or two processes and checks what they leave; returns whether the database can be used further.
    fn round(&mut self, trial: &mut Trial) -> Result<bool, Vec<String>> {
        let Killed { mut sent, loaded, .. } = self.kill(trial);
        if trial.known.is_none() && loaded {
            trial.known = Some(self.loaded.known.clone());
        }
        if trial.known.is_some() && self.random.one_in(4) {
            // This one finds the remains of the one before.
            sent.extend(self.kill(trial).sent);
        }
        self.check(trial)?;
        let path = trial.directory.path();
        let begin = Instant::now();
        let mut progress = Progress::default();
        let database = child::open_to_compare(path, trial.languages, &mut |now| progress = *now);
        let database = database.map_err(|error| vec![error.to_string()])?;
        trial.recovery = begin.elapsed();
        self.tally.recovered(path, &progress, &sent);
        let mut session = database.session();
        let Some(before) = &mut trial.known else {
            let found = self.loaded.anomalies_of_part(&mut session);
            return if found.is_empty() { Ok(false) } else { Err(found) };
        };
        let after = Known::read(&mut session);
        let found = before.anomalies(&after, &mut session, &sent);
        if !found.is_empty() {
            return Err(found);
        }
        *before = after;
        drop(session);
        if self.random.one_in(4) {
            // Opening it again must give the same state.
            database.close().map_err(|error| vec![error.to_string()])?;
            let again =
                child::open_to_compare(path, trial.languages, &mut |_| {}).map_err(|error| vec![error.to_string()])?;
            if Known::read(&mut again.session()) != *before {
                return Err(vec!["the second recovery gives another state than the first".to_owned()]);
            }
        }
        trial.rounds += 1;
        Ok(trial.rounds < ROUNDS_EACH)
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_there_in_part() {
    let (rounds, seed) = (number("THERMOCLINE_KILL_ROUNDS", 10), number("THERMOCLINE_KILL_SEED", 1));
    println!("{rounds} rounds, seed {seed}");
    let mut run = Run::new(seed, false);
    let (mut databases, mut trial) = (1, Trial::new(seed));
    for round in 0..rounds {
        match run.round(&mut trial) {
            Ok(true) => {}
            Ok(false) => (databases, trial) = (databases + 1, Trial::new(seed + databases)),
            Err(found) => {
                let directory = trial.directory.keep();
                let languages = trial.languages;
                panic!("seed {seed}, round {round}, {languages}: {found:#?}; it is kept in {}", directory.display());
            }
        }
        println!("round {round}: {}", run.tally.last());
    }
    println!("{databases} databases\n{}", run.tally);
    run.tally.expect_enough(rounds);
}

/// The test above must detect a loss that a setting causes.
#[test]
fn answers_that_come_before_the_log_is_written_are_found() {
    let mut run = Run::new(number("THERMOCLINE_KILL_SEED", 1), true);
    let mut trial = Trial::new(2);
    for _ in 0..20 {
        match run.round(&mut trial) {
            Ok(true) => {}
            Ok(false) => trial = Trial::new(2),
            Err(found) => {
                assert!(found.iter().any(|found| found.contains("lost")), "{found:#?}");
                return;
            }
        }
    }
    panic!("nothing was lost: {:?}", run.tally);
}
