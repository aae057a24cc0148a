//! The bodies of the fuzz targets over their corpus, and over mutations of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_storage::fuzz::TARGETS;

use super::fixture::{TURN, mutated};
use super::seeds;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn entries(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn run(target: &str) {
    let _turn = TURN.blocking_lock();
    if std::env::var_os("THERMOCLINE_FUZZ_WRITE").is_some() {
        seeds::write(target, &corpus(target));
    }
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let corpus = entries(target);
    assert!(corpus.len() >= 10, "{target}: {} entries", corpus.len());
    corpus.iter().for_each(|entry| body(entry));

    let seed = number("THERMOCLINE_FUZZ_SEED", 13);
    let rounds = number("THERMOCLINE_FUZZ_ROUNDS", 3000);
    println!("{target}: seed {seed}, {rounds} rounds over {} entries", corpus.len());
    let started = Instant::now();
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..rounds {
        let mut bytes = mutated(&corpus[random.random_range(0..corpus.len())], &mut random);
        // Sometimes two entries change over in the middle.
        if random.random_range(0..4) == 0 {
            let other = &corpus[random.random_range(0..corpus.len())];
            bytes.truncate(random.random_range(0..=bytes.len()));
            bytes.extend_from_slice(&other[random.random_range(0..=other.len())..]);
        }
        body(&bytes);
    }
    println!("{target}: {:?}", started.elapsed());
}

#[test]
fn tickets() {
    run("ticket");
}

#[test]
fn fragments() {
    run("fragment");
}

#[test]
fn csv() {
    run("csv");
}

#[test]
fn index_files() {
    run("index_file");
}

#[test]
fn footers() {
    run("footer");
}
