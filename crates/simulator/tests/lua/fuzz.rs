//! Runs the bodies of the fuzz targets over their corpus and mutations of it.

use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_simulator::fuzz::TARGETS;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn entries(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/lua/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn mutated(bytes: &[u8], other: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..5) {
            0 => bytes.insert(at, random.random()),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] = random.random(),
            3 => {
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.random_range(0..=other.len())..]);
            }
            _ => {
                let end = random.random_range(at..=bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn run(target: &str) {
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let corpus = entries(target);
    assert!(corpus.len() >= 10, "{target}: {} entries", corpus.len());
    corpus.iter().for_each(|entry| body(entry));
    let (seed, rounds) = (number("THERMOCLINE_FUZZ_SEED", 14), number("THERMOCLINE_FUZZ_ROUNDS", 500));
    println!("{target}: seed {seed}, {rounds} rounds over {} entries", corpus.len());
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..rounds {
        let [one, other] = [0, 1].map(|_| &corpus[random.random_range(0..corpus.len())]);
        body(&mutated(one, other, &mut random));
    }
}

#[test]
fn scripts() {
    run("script");
}

#[test]
fn patterns() {
    run("pattern");
}

#[test]
fn formats() {
    run("format");
}
