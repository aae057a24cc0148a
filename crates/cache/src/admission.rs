//! Algorithm 1 of the FlexPushdownDB paper: which segments to load, and which to evict for them.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::cache::{SegmentRequest, StoredSize};
use crate::key::Representation;
use crate::policy::{Candidate, Rank};
use crate::slots::{Residency, SlotId};
use crate::state::{State, Victim};

/// Share of the limit that decoded columns fill before it matters how many bytes they take. Beyond it, columns that nobody
/// knows to come back are kept as stored bytes where these save more per byte, because later columns would evict what they
/// take now; those that do come back are decoded then, and stay so if they are worth it.
const AMPLE_PART: usize = 2;

/// One requested segment.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a SegmentRequest,
    /// The representation that would be admitted, or is there.
    pub(crate) form: Form,
    /// Its partition's position in the request.
    pub(crate) group: usize,
    /// `None` if it was never requested before, or its uses are forgotten.
    pub(crate) slot: Option<SlotId>,
    /// The slot of the other representation.
    pub(crate) other: Option<SlotId>,
    /// Whether to admit it, unless it is cached or being loaded.
    pub(crate) missing: bool,
}

/// A representation with its size and the share of a column's miss that a hit saves; more than 1 for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) representation: Representation,
    pub(crate) bytes: usize,
    pub(crate) saves: f64,
}

impl Form {
    /// The one under the request's own key.
    pub(crate) fn of(request: &SegmentRequest) -> Self {
        let representation = request.key.kind.representation();
        Self { representation, bytes: request.bytes, saves: request.columns.max(1) as f64 }
    }

    /// The other one; `None` if the request has none.
    pub(crate) fn stored(request: &SegmentRequest) -> Option<Self> {
        let StoredSize { bytes, saves } = request.stored?;
        Some(Self { representation: Representation::Stored, bytes, saves: saves.clamp(0.0, 1.0) })
    }

    /// Share of a miss's time that a byte saves.
    fn density(&self) -> f64 {
        self.saves / self.bytes.max(1) as f64
    }
}

/// Bytes that may still be admitted without regard to their representation.
#[derive(Debug)]
pub(crate) struct Ample(i64);

impl Ample {
    /// The representation in which to load a column.
    ///
    /// The benefits per byte of keeping it as stored bytes, and of keeping it decoded rather than stored, are the slopes
    /// of the upper hull of a knapsack with these choices. If stored bytes save less per byte than decoded ones, they
    /// are below the hull, and no choice for any amount of room.
    pub(crate) fn form(&mut self, request: &SegmentRequest) -> Form {
        let decoded = Form::of(request);
        let Some(stored) = Form::stored(request).filter(|stored| stored.density() > decoded.density()) else {
            return decoded;
        };
        let bytes = signed(decoded.bytes);
        if bytes > self.0 {
            return stored;
        }
        self.0 -= bytes;
        decoded
    }
}

/// A decision of Algorithm 1.
pub(crate) struct Plan {
    /// By group, whether all of its missing segments are admitted, or none is missing.
    pub(crate) whole: Vec<bool>,
    /// Segments to evict for it, taken out of the eviction order.
    pub(crate) evictions: Vec<Victim>,
}

impl State {
    /// Lines 3 to 12. Considers the missing segments and as many victims as would make room for them. With `ahead`, one
    /// access of each segment is yet to be recorded.
    pub(crate) fn plan(&mut self, groups: usize, asked: &[Asked<'_>], ahead: bool) -> Plan {
        let mut missing: Vec<(Rank, &Asked<'_>)> = asked
            .iter()
            .filter(|asked| asked.missing && self.is_absent(asked.slot))
            .map(|asked| (self.rank_of(asked, ahead), asked))
            .collect();
        missing.sort_by(|(a, asked_a), (b, asked_b)| b.cmp(a).then(asked_a.group.cmp(&asked_b.group)));
        let mut short: Vec<usize> = vec![0; groups];
        for (_, asked) in &missing {
            if let Some(count) = short.get_mut(asked.group) {
                *count += 1;
            }
        }

        // Segments that this query needs are not victims, or their own partition would be incomplete.
        let needed: OnceCell<HashSet<SlotId>> = OnceCell::new();
        let is_needed = |slot| {
            needed
                .get_or_init(|| asked.iter().flat_map(|asked| [asked.slot, asked.other]).flatten().collect())
                .contains(&slot)
        };
        let (mut taken, mut left): (Vec<Victim>, Vec<Victim>) = (vec![], vec![]);
        let mut free = self.room();
        let mut admitted: Vec<&Asked<'_>> = vec![];
        for (rank, asked) in missing {
            let bytes = signed(asked.form.bytes);
            while free < bytes
                && let Some(victim) = self.take_victim()
            {
                if is_needed(victim.slot) {
                    left.push(victim);
                } else if victim.rank() < rank {
                    free += signed(victim.bytes);
                    taken.push(victim);
                } else {
                    left.push(victim);
                    break;
                }
            }
            if free < bytes {
                break;
            }
            free -= bytes;
            admitted.push(asked);
            if let Some(count) = short.get_mut(asked.group) {
                *count -= 1;
            }
        }

        // Only whole partitions are loaded, so only victims for those are evicted.
        let whole: Vec<bool> = short.iter().map(|count| *count == 0).collect();
        let is_whole = |asked: &&&Asked<'_>| whole.get(asked.group).copied().unwrap_or(false);
        let wanted: i64 = admitted.iter().filter(is_whole).map(|asked| signed(asked.form.bytes)).sum();
        let mut room = self.room();
        let mut evictions = vec![];
        for victim in taken {
            if wanted > 0 && room < wanted {
                room += signed(victim.bytes);
                evictions.push(victim);
            } else {
                left.push(victim);
            }
        }
        self.put_back(left);
        Plan { whole, evictions }
    }

    /// What is asked of a request whose slots are known: in the representation that is there or being loaded, or else the
    /// one to be loaded.
    pub(crate) fn asked<'a>(
        &self,
        request: &'a SegmentRequest,
        group: usize,
        (slot, stored): (Option<SlotId>, Option<SlotId>),
        missing: bool,
        ample: &mut Ample,
    ) -> Asked<'a> {
        let form = match Form::stored(request) {
            Some(form) if !self.is_absent(stored) && self.is_absent(slot) => form,
            _ if missing && self.is_absent(slot) => ample.form(request),
            _ => Form::of(request),
        };
        let is_own = form.representation == request.key.kind.representation();
        let (slot, other) = if is_own { (slot, stored) } else { (stored, slot) };
        Asked { request, form, group, slot, other, missing }
    }

    /// The rank of keeping a column decoded rather than as stored bytes: of what that saves, by what it takes more.
    pub(crate) fn step_rank(&self, slot: SlotId, request: &SegmentRequest, stored: Form) -> Rank {
        let Some(slot) = self.slots.get(slot) else { return Rank::default() };
        let bytes = request.bytes.saturating_sub(stored.bytes);
        let share = 1.0 - stored.saves;
        Candidate { key: &request.key, uses: &slot.uses, bytes, share }.rank(self.policy.as_ref())
    }

    /// Room in which decoded columns are admitted whatever they take.
    pub(crate) fn ample(&self) -> Ample {
        Ample(signed(self.limit / AMPLE_PART) - signed(self.resident + self.reserved))
    }

    pub(crate) fn is_absent(&self, slot: Option<SlotId>) -> bool {
        let slot = slot.and_then(|slot| self.slots.get(slot));
        slot.is_none_or(|slot| matches!(slot.residency, Residency::Absent { .. }))
    }

    fn rank_of(&self, asked: &Asked<'_>, ahead: bool) -> Rank {
        let slot = asked.slot.and_then(|slot| self.slots.get(slot));
        let mut uses = slot.map(|slot| slot.uses).unwrap_or_default();
        let SegmentRequest { key, miss_seconds, .. } = asked.request;
        let Form { bytes, saves: share, .. } = asked.form;
        if ahead {
            uses.record(self.tick + 1, *miss_seconds);
            uses.inflation = self.inflation;
        }
        Candidate { key, uses: &uses, bytes, share }.rank(self.policy.as_ref())
    }
}

/// Bytes as a signed number; no cache is larger than 8 EiB.
pub(crate) fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
