use crate::PartitionHash;

/// The partitions that a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Participants {
    /// The partition of rows with this hash.
    One(PartitionHash),
    /// The partitions of rows with these hashes; several hashes may share one.
    Several(Box<[PartitionHash]>),
    /// Any one partition.
    Any,
    /// All partitions.
    All,
}

impl Participants {
    /// The partitions of rows with any of these hashes; any partition if there are none.
    pub fn to(hashes: &[PartitionHash]) -> Self {
        match hashes {
            [] => Self::Any,
            [first, rest @ ..] if rest.iter().all(|hash| hash == first) => Self::One(*first),
            hashes => Self::Several(hashes.into()),
        }
    }
}
