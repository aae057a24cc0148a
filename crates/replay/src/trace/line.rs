//! Lines of a trace as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The part of a header that is read first.
#[derive(Deserialize)]
pub struct VersionLine {
    pub version: u64,
}

#[derive(Serialize, Deserialize)]
pub struct LookupLine<'a> {
    pub query: u64,
    pub name: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defines: Vec<DefinitionLine<'a>>,
    pub partitions: Vec<PartitionLine>,
}

#[derive(Serialize, Deserialize)]
pub struct DefinitionLine<'a> {
    pub id: u32,
    pub key: Cow<'a, str>,
    pub bytes: u64,
    pub stored_bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub struct PartitionLine {
    pub local: f64,
    pub other: f64,
    pub other_bytes: u64,
    pub load_per_segment: f64,
    pub segments: Vec<NeedLine>,
}

#[derive(Serialize, Deserialize)]
pub struct NeedLine {
    pub id: u32,
    pub load: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decode: f64,
    pub miss: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}
