//! Traces: what is written is read, and what is wrong is refused with its line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use thermocline_replay::synthetic::Synthetic;
use thermocline_replay::trace::{NextUses, Trace, TraceError};

const HEADER: &str = r#"{"version":1,"workload":"ssb","scale":0.5,"format":"parquet","egress_bytes_per_s":1000}"#;
const DEFINES: &str = concat!(
    r#"{"query":0,"name":"Q2.1","defines":[{"id":7,"key":"a b","bytes":40,"stored_bytes":10}],"#,
    r#""partitions":[{"local":0.1,"other":0.5,"other_bytes":3,"load_per_segment":0.01,"#,
    r#""segments":[{"id":7,"load":0.2,"miss":0.4}]}]}"#,
);
const USES: &str = concat!(
    r#"{"query":1,"name":"Q2.2","partitions":[{"local":0.1,"other":0.5,"other_bytes":3,"load_per_segment":0.01,"#,
    r#""segments":[{"id":7,"load":0.2,"miss":0.4}]}]}"#,
);

fn read(lines: &[&str]) -> Result<Trace, TraceError> {
    Trace::read(lines.join("\n").as_bytes())
}

#[test]
fn times_that_no_partition_takes_are_refused() {
    for odd in ["-1.0", "1e308", "1e10"] {
        let lookup = DEFINES.replacen("\"local\":0.1", &format!("\"local\":{odd}"), 1);
        assert!(refused(&[HEADER, &lookup]).contains("line 2"), "{odd}");
    }
}

fn refused(lines: &[&str]) -> String {
    read(lines).unwrap_err().to_string()
}

#[test]
fn the_documented_lines_are_read() {
    let trace = read(&[HEADER, DEFINES, USES]).unwrap();
    assert_eq!((trace.header.workload.as_str(), trace.header.egress_bytes_per_s), ("ssb", Some(1000)));
    assert_eq!((trace.lookups.len(), trace.segments.len(), trace.working_set_bytes()), (2, 1, 40));
    assert_eq!(trace.segments[0].key, "a b");
    let partition = &trace.lookups[1].partitions[0];
    assert_eq!((partition.gain(), partition.segments[0].miss_seconds), (0.4, 0.4));
    assert!((partition.load_seconds(&partition.segments[0]) - 0.21).abs() < 1e-12);
}

#[test]
fn what_is_written_is_read() {
    for trace in [Synthetic { lookups: 30, ..Synthetic::drifting(3) }.trace(), read(&[HEADER]).unwrap()] {
        let mut file = vec![];
        trace.write(&mut file).unwrap();
        let read = Trace::read(file.as_slice()).unwrap();
        assert_eq!(read.header, trace.header);
        // Segments are numbered in the order in which they occur, and numbers are read up to their last digit.
        let text = |trace: &Trace| -> Vec<String> {
            let partitions = trace.lookups.iter().flat_map(|lookup| lookup.partitions.iter().map(move |p| (lookup, p)));
            partitions
                .flat_map(|(lookup, partition)| partition.segments.iter().map(move |need| (lookup, partition, need)))
                .map(|(lookup, partition, need)| {
                    let position: String = format!("{:?}", need.id).chars().filter(char::is_ascii_digit).collect();
                    let segment = &trace.segments[position.parse::<usize>().unwrap()];
                    format!(
                        "{} {} {} {} {segment:?} {:.12} {:.12} {:.12} {:.12}",
                        lookup.query,
                        lookup.name,
                        partition.other_bytes,
                        partition.load_seconds_per_segment,
                        partition.local_seconds,
                        partition.other_seconds,
                        need.load_seconds,
                        need.miss_seconds,
                    )
                })
                .collect()
        };
        assert!(text(&read) == text(&trace), "a trace that changes on its way through a file");
        assert_eq!(read.lookups.len(), trace.lookups.len());
    }
}

#[test]
fn another_version_is_refused() {
    let error = refused(&[r#"{"version":2,"anything":true}"#, "{}"]);
    assert_eq!(error, "the trace has format version 2; this program reads version 1: record it again");
}

#[test]
fn a_damaged_line_is_named() {
    for (lines, line) in [
        (vec![], 1),
        (vec!["SSB"], 1),
        (vec![r#"{"version":1}"#], 1),
        (vec![HEADER, &DEFINES[..60]], 2),
        (vec![HEADER, DEFINES, "", USES], 3),
        (vec![HEADER, DEFINES, USES, r#"{"query":-1,"name":"","partitions":[]}"#], 4),
    ] {
        let error = refused(&lines);
        assert!(error.starts_with(&format!("line {line} of the trace is damaged: ")), "{error}");
    }
    let negative = USES.replace("0.2", "-0.2");
    assert_eq!(
        refused(&[HEADER, DEFINES, &negative]),
        "line 3 of the trace is damaged: -0.2 is no time in seconds between 0 and 1000000000"
    );
    let infinite = USES.replace("0.2", "1e999");
    assert!(refused(&[HEADER, DEFINES, &infinite]).starts_with("line 3 of the trace is damaged: "));
    assert_eq!(refused(&[HEADER, DEFINES, DEFINES]), "line 3 of the trace is damaged: segment 7 is defined again");
    let renamed = DEFINES.replace("\"id\":7", "\"id\":8");
    assert_eq!(refused(&[HEADER, DEFINES, &renamed]), "line 3 of the trace is damaged: key a b has two ids");
    let twice = USES.replace("[{\"id\":7,", "[{\"id\":7,\"load\":0,\"miss\":0},{\"id\":7,");
    assert_eq!(
        refused(&[HEADER, DEFINES, &twice]),
        "line 3 of the trace is damaged: a partition needs segment 7 twice"
    );
}

#[test]
fn an_undefined_segment_is_refused() {
    assert_eq!(refused(&[HEADER, USES]), "line 2 of the trace uses segment 7, which no line up to it defines");
}

#[test]
fn a_trace_of_something_else_is_refused() {
    let trace = read(&[HEADER, DEFINES]).unwrap();
    trace.check("ssb", 0.5, "parquet").unwrap();
    for (workload, scale, format, what) in [
        ("tpch", 0.5, "parquet", "workload ssb, not tpch"),
        ("ssb", 1.0, "parquet", "scale 0.5, not 1"),
        ("ssb", 0.5, "csv", "format parquet, not csv"),
    ] {
        let error = trace.check(workload, scale, format).unwrap_err();
        assert_eq!(error.to_string(), format!("the trace was recorded with {what}"));
    }
}

#[test]
fn next_uses_are_found_by_printed_keys() {
    let trace = read(&[HEADER, DEFINES, USES, USES]).unwrap();
    let uses = NextUses::of(&trace);
    let pieces = std::fmt::from_fn(|f| ["a", "", " ", "b"].iter().try_for_each(|piece| write!(f, "{piece}")));
    assert_eq!([0, 1, 2, 3].map(|from| uses.next(&pieces, from)), [Some(0), Some(1), Some(2), None]);
    assert_eq!(uses.next(&"a  b", 0), None);
}

#[test]
fn what_may_never_end_is_not_read() {
    let error = Trace::open(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let directory = std::env::temp_dir();
    let error = Trace::open(&directory).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}
