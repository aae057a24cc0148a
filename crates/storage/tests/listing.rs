//! Listings of a directory: objects and their versions, skipped entries, symbolic links.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use thermocline_pushdown::wire::ErrorKind;
use thermocline_storage::Root;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

async fn paths(root: &Root, prefix: &str) -> Vec<String> {
    root.list(prefix).await.unwrap().objects.into_iter().map(|object| object.path).collect()
}

#[tokio::test]
async fn objects_are_listed_by_path_in_the_version_that_reads_find() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    for name in ["b.csv", "a/2.csv", "a/10.csv", "a/deep/er/x.csv", "a b/ü%20.csv", "a-.csv"] {
        write(&directory.join(name), name);
    }
    for name in [".hidden/x.csv", "a/_temporary/x.csv", "a/.x.csv"] {
        write(&directory.join(name), "hidden");
    }
    write(&directory.join("a/empty.csv"), "");
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let objects = root.list("").await.unwrap().objects;
    let found: Vec<_> = objects.iter().map(|object| object.path.as_str()).collect();
    assert_eq!(found, ["a b/ü%20.csv", "a-.csv", "a/10.csv", "a/2.csv", "a/deep/er/x.csv", "b.csv"]);
    for object in &objects {
        let bytes = root.get(object, 0..object.size).await.unwrap().bytes().await.unwrap();
        assert_eq!(bytes, object.path.as_bytes());
    }
    assert_eq!(paths(&root, "a").await, ["a/10.csv", "a/2.csv", "a/deep/er/x.csv"]);
    assert_eq!(paths(&root, "a/").await, paths(&root, "a").await);
    assert_eq!(paths(&root, "a/2.csv").await, ["a/2.csv"]);
    assert_eq!(root.list("a/2.csv").await.unwrap().objects[0], objects[3], "by its name and with others");
    assert!(paths(&root, "no/such").await.is_empty());

    let before = objects[5].clone();
    write(&directory.join("b.csv"), "other");
    let error = root.get(&before, 0..1).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::VersionChanged);
    assert_ne!(root.list("b.csv").await.unwrap().objects[0].version, before.version);
}

#[tokio::test]
async fn links_within_root_are_followed_once_and_none_leads_out() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    let outside = temporary.path().join("outside");
    write(&outside.join("secret.csv"), "secret");
    write(&directory.join("a/x.csv"), "x");
    write(&directory.join("b/y.csv"), "y");
    symlink(outside.join("secret.csv"), directory.join("a/secret.csv")).unwrap();
    symlink(&outside, directory.join("out")).unwrap();
    symlink(directory.join("nowhere"), directory.join("a/broken.csv")).unwrap();
    symlink(directory.join("a/x.csv"), directory.join("alias.csv")).unwrap();
    // Loops: to itself, to where it came from, and by way of each other.
    symlink(&directory, directory.join("a/up")).unwrap();
    symlink(directory.join("b"), directory.join("a/to_b")).unwrap();
    symlink(directory.join("a"), directory.join("b/to_a")).unwrap();
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let found = paths(&root, "").await;
    assert_eq!(found, ["a/to_b/y.csv", "a/x.csv", "alias.csv", "b/to_a/x.csv", "b/y.csv"]);
    for object in root.list("").await.unwrap().objects {
        root.get(&object, 0..1).await.unwrap();
    }
    assert!(paths(&root, "out").await.is_empty());
    assert!(paths(&root, "a/secret.csv").await.is_empty());
}

#[tokio::test]
async fn links_that_multiply_end() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    for level in 0..40 {
        write(&directory.join(format!("{level}/x.csv")), "x");
        for link in ["left", "right"] {
            symlink(directory.join(format!("{}", level + 1)), directory.join(format!("{level}/{link}"))).unwrap();
        }
    }
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let found = paths(&root, "0").await;
    // 2^n ways to the directory n links away, eight links at the most.
    assert_eq!(found.len(), (1 << 9) - 1);
}

#[tokio::test]
async fn what_is_no_object_is_skipped_with_its_reason() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    write(&directory.join("t/x.csv"), "x");
    let name = std::ffi::OsStr::from_bytes(b"\xff.csv");
    fs::write(directory.join("t").join(name), "x").unwrap();
    fs::write(directory.join("t/line\nbreak.csv"), "x").unwrap();
    symlink(directory.join("t"), directory.join("t/up")).unwrap();
    let found = Root::open(directory.to_str().unwrap()).unwrap().list("t").await.unwrap();
    assert_eq!(found.objects.iter().map(|object| object.path.as_str()).collect::<Vec<_>>(), ["t/x.csv"]);
    let skipped: Vec<_> = found.skipped.iter().map(|entry| (entry.path.as_str(), entry.reason.as_str())).collect();
    let expected = [
        ("t/line\nbreak.csv", "its name holds characters that no object has"),
        ("t/up", "a symbolic link to a directory that it is in"),
        ("t/\u{fffd}.csv", "its name is not UTF-8"),
    ];
    assert_eq!((skipped.as_slice(), found.skipped_total, found.missing), (&expected[..], 3, false));
}

#[tokio::test]
async fn what_is_gone_is_missing_and_what_is_empty_is_not() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    let outside = temporary.path().join("outside");
    write(&directory.join("t/x.csv"), "x");
    fs::create_dir_all(&outside).unwrap();
    symlink(&outside, directory.join("out")).unwrap();
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let missing = |prefix: &'static str| {
        let root = root.clone();
        async move { root.list(prefix).await.map(|found| found.missing) }
    };
    for prefix in ["", "t", "t/x.csv"] {
        assert!(!missing(prefix).await.unwrap(), "{prefix}");
    }
    for prefix in ["u", "t/y.csv", "t/x.csv/y", "out"] {
        assert!(missing(prefix).await.unwrap(), "{prefix}");
    }
    fs::remove_file(directory.join("t/x.csv")).unwrap();
    assert!(!missing("t").await.unwrap());
    fs::remove_dir_all(&directory).unwrap();
    for prefix in ["", "t"] {
        assert_eq!(missing(prefix).await.unwrap_err().kind, ErrorKind::Unavailable, "{prefix}");
    }
}
