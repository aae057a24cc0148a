//! The rules of the house that a compiler does not check: which crate may know which, which names
//! in the documentation still exist, and what may stand in `Cargo.lock` once only.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Each crate and the crates of ours that it may depend on. `docs/architecture.md` says why.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("pushdown", &["types"]),
    ("cache", &["pushdown", "types"]),
    ("storage", &["pushdown", "types"]),
    ("compute", &["cache", "storage", "pushdown", "types"]),
    ("lua", &[]),
    ("transactions", &["lua", "types"]),
    ("database", &["transactions", "compute", "cache", "storage", "pushdown", "types"]),
    ("workloads", &["database", "compute", "transactions", "cache", "storage", "pushdown", "types"]),
    ("thermocline", &["workloads", "database", "compute", "transactions", "cache", "storage", "pushdown", "types"]),
];

/// Names of our crates in a manifest's `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.strip_prefix("thermocline-"))
        .map(|line| line.split(['.', ' ', '=']).next().unwrap().to_owned())
        .collect()
}

fn reversed(name: &str, manifest: &str) -> Vec<String> {
    let allowed = MAY_KNOW.iter().find(|(known, _)| *known == name).map(|(_, allowed)| *allowed);
    let allowed = allowed.unwrap_or_else(|| panic!("crate {name} has no place in the order of dependencies"));
    dependencies(manifest).into_iter().filter(|found| !allowed.contains(&found.as_str())).collect()
}

#[test]
fn dependencies_point_downwards() {
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let wrong = reversed(&name, &manifest);
        assert!(wrong.is_empty(), "crate {name} must not depend on {wrong:?}");
    }
}

#[test]
fn a_reversed_dependency_is_noticed() {
    let manifest = "[dependencies]\narrow.workspace = true\nthermocline-compute.workspace = true\n";
    assert_eq!(reversed("storage", manifest), ["compute"]);
}

#[test]
fn the_cache_knows_no_plan() {
    let manifest = fs::read_to_string(root().join("crates/cache/Cargo.toml")).unwrap();
    assert!(!manifest.contains("datafusion"), "the cache is below plans");
}

#[test]
fn one_version_of_the_stack() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lock.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            *versions.entry(name.trim_matches('"')).or_default() += 1;
        }
    }
    for name in ["arrow", "arrow-flight", "parquet", "datafusion", "datafusion-proto", "object_store", "tonic"] {
        assert_eq!(versions.get(name), Some(&1), "versions of {name} in Cargo.lock");
    }
}

/// Relative links of Markdown files lead somewhere, and where they name a symbol after `#`-free
/// link text in backticks, the file that they lead to has it.
#[test]
fn links_in_the_documentation_hold() {
    let root = root();
    let mut pages: Vec<PathBuf> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    let mut links = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(page).unwrap();
        for (label, target) in markdown_links(&text) {
            if target.contains("://") || target.starts_with('#') {
                continue;
            }
            links += 1;
            let path = page.parent().unwrap().join(target.split('#').next().unwrap());
            assert!(path.exists(), "{}: the link to {target} leads nowhere", page.display());
            if let Some(symbol) = label.strip_prefix('`').and_then(|label| label.strip_suffix('`'))
                && path.extension().is_some_and(|extension| extension == "rs")
                && !symbol.ends_with(".rs")
            {
                let name = symbol.rsplit("::").next().unwrap().trim_end_matches("()");
                let code = fs::read_to_string(&path).unwrap();
                assert!(code.contains(name), "{}: {} has no {symbol}", page.display(), path.display());
            }
        }
    }
    assert!(links > 20, "the documentation links to the code");
}

fn markdown_links(text: &str) -> Vec<(String, String)> {
    text.match_indices("](")
        .filter_map(|(at, _)| {
            let label = text[..at].rsplit('[').next()?.to_owned();
            let target = text[at + 2..].split(')').next()?.to_owned();
            Some((label, target))
        })
        .collect()
}

#[test]
fn nothing_names_a_machine() {
    let mut stack = vec![root().join("crates"), root().join("docs"), root().join(".ci")];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            stack.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            for needle in [["/", "work/"].concat(), ["/", "root/"].concat(), ["/", "home/"].concat()] {
                assert!(!text.contains(&needle), "{} names {needle}", path.display());
            }
        }
    }
}
