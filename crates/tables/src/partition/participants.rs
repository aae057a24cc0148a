use crate::PartitionHash;

/// Which partitions a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Participants {
    /// The one that rows with this hash belong to.
    One(PartitionHash),
    /// Those that rows with these hashes belong to, of which there may be fewer than hashes.
    Several(Box<[PartitionHash]>),
    /// One, whichever.
    Any,
    /// All.
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
