//! House rules that the compiler does not check: dependencies between crates, the order of rooms within a crate, where
//! SQL is parsed, links of the documentation, packages that may occur in `Cargo.lock` only once, and paths of machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Each crate and the crates of ours that it depends on, also in its tests. `docs/architecture.md` says why.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("syntax", &[]),
    ("lua", &[]),
    ("pushdown", &["types"]),
    ("replay", &[]),
    ("cache", &["pushdown", "replay"]),
    ("formats", &["pushdown"]),
    ("storage", &["formats", "pushdown"]),
    ("catalog", &["storage", "formats", "pushdown", "types"]),
    ("dialect", &["pushdown", "syntax", "types"]),
    ("compute", &["catalog", "dialect", "cache", "replay", "storage", "formats", "pushdown", "syntax", "types"]),
    ("machine", &["types"]),
    ("tables", &["machine", "types"]),
    ("statements", &["tables", "machine", "syntax", "types"]),
    ("durability", &["statements", "tables", "machine", "types"]),
    ("procedures", &["statements", "tables", "machine", "lua", "syntax", "types"]),
    ("transactions", &["procedures", "durability", "statements", "tables", "machine", "syntax", "types"]),
    ("simulator", &["transactions", "procedures", "durability", "statements", "tables", "machine", "types"]),
    ("database", &["transactions", "compute", "catalog", "dialect", "pushdown", "syntax", "types"]),
    ("workloads", &["database", "compute", "dialect", "transactions", "pushdown"]),
    ("thermocline", &["workloads", "database", "compute", "transactions", "storage", "formats", "pushdown", "replay"]),
];

/// Names of our crates in all of a manifest's tables of dependencies, those of tests and of targets among them.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = vec![];
    let mut is_dependency = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            // `[dependencies.thermocline-types]` is one as well.
            is_dependency = table.contains("dependencies");
            let name = table.rsplit_once("dependencies").map_or("", |(_, name)| name);
            found.extend(name.strip_prefix(".thermocline-").map(str::to_owned));
        } else if is_dependency && let Some(rest) = line.strip_prefix("thermocline-") {
            found.push(rest.split(['.', ' ', '=']).next().unwrap().to_owned());
        } else if is_dependency && let Some((_, rest)) = line.split_once("package = \"thermocline-") {
            found.push(rest.split('"').next().unwrap().to_owned());
        }
    }
    found
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
        let found = dependencies(&manifest);
        let (_, allowed) = MAY_KNOW.iter().find(|(known, _)| *known == name).unwrap();
        let unused: Vec<_> = allowed.iter().filter(|known| !found.iter().any(|found| found == *known)).collect();
        assert!(unused.is_empty(), "crate {name} does not depend on {unused:?} any more");
    }
}

/// Dependencies of manifests that no code of the crate names.
#[test]
fn dependencies_are_used() {
    let mut unused = vec![];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let product: String = rust_files(&path.join("src")).iter().map(|file| code_of(file)).collect();
        let with_tests = ["src", "tests", "benches"].iter().flat_map(|folder| rust_files(&path.join(folder)));
        let tests: String = with_tests.map(|file| fs::read_to_string(file).unwrap()).collect();
        let mut table = "";
        for line in manifest.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = name;
            }
            let code = match table {
                "dependencies" => &product,
                "dev-dependencies" => &tests,
                _ => continue,
            };
            let Some((name, _)) = line.split_once(['.', ' ']).filter(|_| line.contains('=')) else { continue };
            if !has_word(code, &name.replace('-', "_")) {
                unused.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

/// Texts are cut into tokens and parsed in `syntax`, and by DataFusion's parser in one place.
#[test]
fn one_crate_parses() {
    let parsers =
        ["Parser::new(&", "Parser::parse_sql", "Tokenizer::new", "DFParser", "GenericDialect", "PostgreSqlDialect"];
    let crates = root().join("crates");
    let sources = fs::read_dir(&crates).unwrap().flat_map(|entry| rust_files(&entry.unwrap().path().join("src")));
    let parses = |path: &PathBuf| parsers.iter().any(|parser| code_of(path).contains(parser));
    let found = sources.filter(parses).map(|path| path.strip_prefix(&crates).unwrap().display().to_string());
    let mut found: Vec<String> = found.collect();
    found.retain(|path| !path.starts_with("syntax/"));
    assert_eq!(found, ["dialect/src/text/parse.rs"]);
}

#[test]
fn a_reversed_dependency_is_noticed() {
    for manifest in [
        "[dependencies]\narrow.workspace = true\nthermocline-compute.workspace = true\n",
        "[dependencies]\n[lints]\nworkspace = true\n[dev-dependencies]\nthermocline-compute = { path = \"../compute\" }\n",
        "[target.'cfg(unix)'.dependencies]\nthermocline-compute.workspace = true\n",
        "[build-dependencies.thermocline-compute]\nworkspace = true\n",
        "[dependencies]\nengine = { package = \"thermocline-compute\", path = \"../compute\" }\n",
    ] {
        assert_eq!(reversed("storage", manifest), ["compute"], "{manifest}");
    }
}

/// Crates without DataFusion, and without crates of ours that have it.
const WITHOUT_DATAFUSION: [&str; 11] = [
    "types",
    "replay",
    "syntax",
    "lua",
    "machine",
    "tables",
    "statements",
    "durability",
    "procedures",
    "transactions",
    "simulator",
];

#[test]
fn who_knows_no_plan_links_no_datafusion() {
    for name in WITHOUT_DATAFUSION {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("datafusion"), "crate {name} is below plans");
        let above = dependencies(&manifest).into_iter().find(|known| !WITHOUT_DATAFUSION.contains(&known.as_str()));
        assert_eq!(above, None, "crate {name} is below plans");
    }
}

/// Rooms of a folder of a crate's sources, its files and folders, and the other rooms that the code of each names: by
/// `crate::folder::room`, by `super::room` (`super::super::room` one folder deeper), or by a name that `lib.rs` or
/// `mod.rs` takes from the room. `inside` is the path of the folder's module, such as `crate::scan::`.
fn rooms(folder: &Path, inside: &str) -> BTreeMap<String, BTreeSet<String>> {
    // The code of each room, by the path from its files to the folder's module.
    let mut code: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut own = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        match name.as_str() {
            "lib" | "mod" => own = code_of(&path),
            "main" | "bin" | "tests" => {}
            _ => code.entry(name).or_default().extend(by_depth(&path)),
        }
    }
    let mut room_of: BTreeMap<String, String> = code.keys().map(|room| (room.clone(), room.clone())).collect();
    for taken in own.split("use ").skip(1) {
        let taken = taken.split(';').next().unwrap();
        let taken = taken.strip_prefix("self::").or_else(|| taken.strip_prefix(inside)).unwrap_or(taken);
        let Some((room, names)) = taken.split_once("::") else { continue };
        if code.contains_key(room) {
            let names = names.split(|c: char| !is_of_name(c)).filter(|name| !name.is_empty());
            room_of.extend(names.map(|name| (name.to_owned(), room.to_owned())));
        }
    }
    let edges = |room: &String, files: &Vec<(String, String)>| {
        let named = files.iter().flat_map(|(above, code)| {
            let by_super = named_below(code, above).into_iter();
            by_super.chain(named_below(code, inside))
        });
        named.filter_map(|name| room_of.get(&name).cloned()).filter(|other| other != room).collect()
    };
    code.iter().map(|(room, files)| (room.clone(), edges(room, files))).collect()
}

/// Code of the files of a room, a file or a folder, each with the path from its module to the room's parent.
fn by_depth(room: &Path) -> Vec<(String, String)> {
    let is_of_tests = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let files = rust_files(room).into_iter();
    files
        .filter(|file| !is_of_tests(file.strip_prefix(room).unwrap()))
        .map(|file| {
            let below = file.strip_prefix(room).unwrap().iter().count();
            let depth = 1 + below - usize::from(file.file_stem().is_some_and(|name| name == "mod"));
            ("super::".repeat(depth), code_of(&file))
        })
        .collect()
}

/// First names of the paths below `parent`: `a` and `b` of `crate::a::x` and of `crate::{a::x, b}`.
fn named_below(code: &str, parent: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (at, _) in code.match_indices(parent) {
        if code[..at].ends_with("::") {
            continue;
        }
        let path = &code[at + parent.len()..];
        let Some(group) = path.strip_prefix('{') else {
            named.insert(path.chars().take_while(|c| is_of_name(*c)).collect());
            continue;
        };
        let (mut depth, mut name) = (0, String::new());
        for c in group.chars() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {}
                c if depth == 0 && (is_of_name(c) || c == ':') => {
                    name.push(c);
                    continue;
                }
                _ => continue,
            }
            if depth == 0 || c == '{' {
                named.extend(name.split(':').next().map(str::to_owned));
                name.clear();
            }
        }
        named.extend(name.split(':').next().map(str::to_owned));
    }
    named
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rust files at a path and below it; none if there is nothing.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries.flat_map(|path| rust_files(&path)).collect();
    }
    let is_rust = path.is_file() && path.extension().is_some_and(|extension| extension == "rs");
    if is_rust { vec![path.to_owned()] } else { vec![] }
}

/// The code of a file, without comments and tests.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// Folders reachable from a folder.
fn reachable<'r>(rooms: &'r BTreeMap<String, BTreeSet<String>>, from: &'r str) -> BTreeSet<&'r str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(room) = next.pop() {
        next.extend(rooms[room].iter().map(String::as_str).filter(|other| seen.insert(*other)));
    }
    seen
}

/// Files that lead to each other, by folder: those of one job, and the few that are not parted yet. None may be added.
const ONE_JOB: &[(&str, &[&str])] = &[
    // One structure under one lock.
    ("cache/src", &["admission", "cache", "index", "load", "order", "segment", "slots", "state"]),
    ("compute/src/engine", &["engine", "execution"]),
    ("compute/src/query", &["memory_watch", "query_context", "resources"]),
    ("database/src/error", &["error", "library", "translate"]),
    ("database/src/session", &["database", "session"]),
    ("database/src/settings", &["name", "session"]),
    ("database/src/statement", &["column_names", "sort_keys"]),
    ("database/src/statement", &["copy_statement", "parsed", "script", "setting_statement", "statement"]),
    ("durability/src/log", &["record", "segment"]),
    ("durability/src/recovery", &["plan", "rows", "run"]),
    ("formats/src/csv", &["avx2", "mask"]),
    ("formats/src/csv", &["convert", "text"]),
    ("formats/src/reader", &["csv", "footers", "parquet", "partition"]),
    // The stack of a state, and what it calls back.
    ("lua/src", &["stack", "state", "user"]),
    // Procedures call each other.
    ("procedures/src", &["compiled", "context", "definitions", "lua", "registration", "sql"]),
    ("procedures/src/lua", &["library", "loaded", "machine", "procedure"]),
    ("procedures/src/lua/library", &["arguments", "moment", "result", "value"]),
    ("pushdown/src/sql", &["column", "json", "types"]),
    ("statements/src/expression", &["evaluate", "function"]),
    ("statements/src/plan", &["access", "union"]),
    ("storage/src/index", &["file", "store"]),
    ("storage/src/node", &["answer", "contents", "describe", "raw", "reader", "storage_node"]),
    ("storage/src/node", &["arbitrator", "config"]),
    ("tables/src/partition", &["partition", "reader"]),
    ("tables/src/schema", &["definition", "print"]),
    ("tables/src/table", &["building", "table"]),
    ("tables/src/table", &["layout", "patch"]),
    ("thermocline/src/cli", &["bench", "node_process"]),
    ("thermocline/src/cli", &["script", "shell", "sql"]),
    ("thermocline/src/cli/bench", &["sweep", "tpch"]),
    ("transactions/src/database", &["load", "opening", "row_engine", "row_session"]),
    ("transactions/src/engine", &["commit", "interactive"]),
    ("transactions/src/engine", &["filling", "handle"]),
    // Each type reads and prints others: a zone in a timestamp, an interval in a zone.
    ("types/src", &["calendar", "cast", "function", "interval", "interval_text", "json", "operator", "value", "zone"]),
    ("workloads/src/bench", &["order", "record", "results"]),
    ("workloads/src/generate", &["encode", "source", "table"]),
    ("workloads/src/generate", &["run", "write"]),
    ("workloads/src/tpcc", &["check", "conditions"]),
    ("workloads/src/ycsb", &["procedures", "schema"]),
];

/// Circles among the rooms of a folder, and of the folders in it.
fn circles(folder: &Path, inside: &str, found: &mut BTreeSet<(String, Vec<String>)>) {
    let rooms = rooms(folder, inside);
    for room in rooms.keys() {
        let there_and_back =
            reachable(&rooms, room).into_iter().filter(|other| reachable(&rooms, other).contains(room.as_str()));
        let circle: Vec<String> = there_and_back.map(str::to_owned).collect();
        if !circle.is_empty() {
            let folder = folder.strip_prefix(root().join("crates")).unwrap_or(folder);
            found.insert((folder.display().to_string(), circle));
        }
        let below = folder.join(room);
        if below.is_dir() {
            circles(&below, &format!("{inside}{room}::"), found);
        }
    }
}

#[test]
fn rooms_lead_one_way() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        circles(&entry.unwrap().path().join("src"), "crate::", &mut found);
    }
    let one_job: BTreeSet<(String, Vec<String>)> = ONE_JOB
        .iter()
        .map(|(folder, rooms)| ((*folder).to_owned(), rooms.iter().map(|room| (*room).to_owned()).collect()))
        .collect();
    assert_eq!(found, one_job, "circles between rooms");
}

#[test]
fn a_circle_of_rooms_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    for (file, code) in [
        ("a/mod.rs", "use crate::b::B;"),
        ("b/deep/x.rs", "fn f(_: crate::c::C) {}"),
        ("c/mod.rs", "// crate::d::D\nuse crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::d::D;\n}"),
        ("d/mod.rs", "use crate::a::{self, A};"),
        ("lib.rs", "mod e;\npub use e::{E, Other};\npub use f::F;"),
        ("e.rs", "use super::f::F;\nuse outside::crate_like::F;"),
        ("f.rs", "use crate::{a::{b, c}, Other};"),
        ("g/mod.rs", "mod e;\nmod h;\npub use h::H;\nuse self::e::E;"),
        ("g/e.rs", "use super::H;\nuse super::super::f::F;"),
        ("g/h/mod.rs", "use crate::g::e;"),
        ("g/h/x.rs", "use super::super::e::E;"),
    ] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, code).unwrap();
    }
    let rooms = rooms(folder.path(), "crate::");
    assert_eq!(reachable(&rooms, "a"), BTreeSet::from(["a", "b", "c"]));
    assert_eq!(reachable(&rooms, "d"), BTreeSet::from(["a", "b", "c"]));
    assert_eq!(reachable(&rooms, "e"), BTreeSet::from(["a", "b", "c", "e", "f"]));
    assert_eq!(reachable(&rooms, "g"), BTreeSet::from(["a", "b", "c", "e", "f"]));
    let mut found = BTreeSet::new();
    circles(folder.path(), "crate::", &mut found);
    let of = |rooms: &[&str]| rooms.iter().map(|room| (*room).to_owned()).collect::<Vec<_>>();
    let circles: Vec<Vec<String>> = found.into_iter().map(|(_, rooms)| rooms).collect();
    assert_eq!(circles, [of(&["a", "b", "c"]), of(&["e", "f"]), of(&["e", "h"])]);
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

/// Relative links of Markdown files lead to existing files; if a link's text is a symbol in backticks, the file
/// contains it.
#[test]
fn links_in_the_documentation_hold() {
    let root = root();
    let mut pages: Vec<PathBuf> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.extend([root.join("README.md"), root.join("bench/README.md")]);
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
                // Or the file is the module itself.
                let is_module = path.components().any(|part| part.as_os_str() == name);
                let has = is_module || has_word(&code, name);
                assert!(has, "{}: {} has no {symbol}", page.display(), path.display());
            }
        }
    }
    assert!(links > 20, "the documentation links to the code");
}

/// Whether a name occurs in code as a whole word.
fn has_word(code: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name)
        .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + name.len()..].starts_with(is_part))
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
    let mut stack = vec![root().join("crates"), root().join("docs"), root().join("bench"), root().join(".ci")];
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
