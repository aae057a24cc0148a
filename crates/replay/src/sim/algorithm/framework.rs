//! Algorithm 1 of the FlexPushdownDB paper, as the engine runs it: partitions are admitted whole or not at all, and
//! segments may be kept decoded or as stored bytes.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::Algorithm;
use crate::numbered::Numbered;
use crate::sim::{Contents, Form};
use crate::trace::{Lookup, Need, SegmentId};

/// The benefit of a segment.
pub trait Score: fmt::Debug {
    /// Its name.
    fn name(&self) -> String;

    /// Records a use at `now`.
    fn record(&mut self, now: usize, need: &Need, bytes: u64);

    /// The benefit at `now`.
    fn score(&self, now: usize, id: SegmentId, bytes: u64) -> f64;

    /// Notes that a segment of this benefit was evicted.
    fn evicted(&mut self, _score: f64) {}
}

/// Algorithm 1 over a score.
#[derive(Debug)]
pub struct Framework<S> {
    score: S,
    /// Share of a load that stored bytes save, by segment, as of the last use; `None` if they are not kept.
    shares: Option<Numbered<f64>>,
}

/// Part of the capacity that decoded segments fill whatever they take, as in the engine.
const AMPLE_PART: u64 = 2;

/// A victim: its benefit, the segment and its form.
type Victim = (f64, SegmentId, Form);

impl<S: Score> Framework<S> {
    /// An empty history.
    pub fn new(score: S) -> Self {
        Self { score, shares: None }
    }

    /// An empty history of this number of segments, which are kept decoded or as stored bytes. The score must be in
    /// inverse proportion to the bytes that it is asked for.
    pub fn of_forms(score: S, segments: usize) -> Self {
        Self { score, shares: Some(Numbered::of(0.0, segments)) }
    }

    /// Share of a load that a hit of this form saves.
    fn share(&self, id: SegmentId, form: Form) -> f64 {
        match (&self.shares, form) {
            (Some(shares), Form::Stored) => shares[id],
            _ => 1.0,
        }
    }

    /// The benefit of keeping a segment in this form.
    fn benefit(&self, now: usize, id: SegmentId, form: Form, contents: &Contents) -> f64 {
        let is_spare = form == Form::Stored && contents.holds(id);
        let share = if is_spare { 0.0 } else { self.share(id, form) };
        share * self.score.score(now, id, contents.bytes_in(id, form))
    }

    /// The form in which to load a segment, if decoded ones may take `ample` bytes more whatever they are worth.
    fn form(&self, id: SegmentId, contents: &Contents, ample: &mut u64) -> Form {
        let density = |form| self.share(id, form) / contents.bytes_in(id, form).max(1) as f64;
        if self.shares.is_none() || density(Form::Stored) <= density(Form::Decoded) {
            return Form::Decoded;
        }
        match ample.checked_sub(contents.bytes(id)) {
            Some(left) => {
                *ample = left;
                Form::Decoded
            }
            None => Form::Stored,
        }
    }

    /// What may be evicted for a lookup that needs `needed`, least beneficial first.
    fn victims(&self, now: usize, needed: &HashSet<SegmentId>, contents: &Contents) -> Vec<Victim> {
        // Spare stored bytes are not needed.
        let is_free = |id, form| !needed.contains(&id) || (form == Form::Stored && contents.holds(id));
        let free = contents.forms().filter(|(id, form)| is_free(*id, *form));
        let mut victims: Vec<Victim> =
            free.map(|(id, form)| (self.benefit(now, id, form, contents), id, form)).collect();
        victims.sort_by(|a, b| a.0.total_cmp(&b.0).then(contents.admission(a.1).cmp(&contents.admission(b.1))));
        victims
    }

    /// Keeps segments decoded that are being decoded from stored bytes, where what that saves per additional byte beats
    /// everything that has to go.
    fn promote(&mut self, now: usize, needed: &HashSet<SegmentId>, stored: &[SegmentId], contents: &mut Contents) {
        for id in stored {
            let bytes = contents.bytes(*id);
            let more = bytes.saturating_sub(contents.bytes_in(*id, Form::Stored));
            let step = (1.0 - self.share(*id, Form::Stored)) * self.score.score(now, *id, more);
            let mut free = contents.room();
            let mut taken = vec![];
            if free < bytes {
                let victims = self.victims(now, needed, contents).into_iter();
                for victim in victims.take_while(|(benefit, ..)| *benefit < step) {
                    free += contents.bytes_in(victim.1, victim.2);
                    taken.push(victim);
                    if free >= bytes {
                        break;
                    }
                }
            }
            if free >= bytes {
                self.evict(&taken, contents);
                contents.promote(*id);
            }
        }
    }

    fn evict(&mut self, victims: &[Victim], contents: &mut Contents) {
        for (benefit, victim, form) in victims {
            contents.evict_in(*victim, *form);
            self.score.evicted(*benefit);
        }
    }
}

impl<S: Score> Algorithm for Framework<S> {
    fn name(&self) -> String {
        let forms = if self.shares.is_some() { " of both forms" } else { "" };
        format!("{}{forms}", self.score.name())
    }

    fn lookup(&mut self, now: usize, lookup: &Lookup, contents: &mut Contents) {
        for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
            self.score.record(now, need, contents.bytes(need.id));
            if let Some(shares) = &mut self.shares {
                shares[need.id] = need.stored_share();
            }
        }
        // A missing segment with its benefit and the position of its partition.
        let mut missing: Vec<(f64, usize, SegmentId, Form)> = vec![];
        let mut needed: HashSet<SegmentId> = HashSet::new();
        let mut stored: Vec<SegmentId> = vec![];
        let held = contents.capacity() - contents.room();
        let mut ample = (contents.capacity() / AMPLE_PART).saturating_sub(held);
        for (position, partition) in lookup.partitions.iter().enumerate() {
            for need in &partition.segments {
                if !needed.insert(need.id) {
                    continue;
                }
                match contents.form(need.id) {
                    Some(Form::Decoded) => {}
                    Some(Form::Stored) => stored.push(need.id),
                    None => {
                        let form = self.form(need.id, contents, &mut ample);
                        missing.push((self.benefit(now, need.id, form, contents), position, need.id, form));
                    }
                }
            }
        }
        missing.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));

        let mut short: HashMap<usize, usize> = HashMap::new();
        missing.iter().for_each(|(_, partition, ..)| *short.entry(*partition).or_default() += 1);
        let mut free = contents.room();
        let mut victims = self.victims(now, &needed, contents).into_iter().peekable();
        let mut taken = vec![];
        let mut admitted = vec![];
        for (benefit, partition, id, form) in &missing {
            let bytes = contents.bytes_in(*id, *form);
            while free < bytes
                && let Some(victim) = victims.next_if(|(score, ..)| score < benefit)
            {
                free += contents.bytes_in(victim.1, victim.2);
                taken.push(victim);
            }
            if free < bytes {
                break;
            }
            free -= bytes;
            admitted.push((*partition, *id, *form));
            short.entry(*partition).and_modify(|count| *count -= 1);
        }
        // Only whole partitions are loaded, so only victims for those are evicted.
        admitted.retain(|(partition, ..)| short.get(partition) == Some(&0));
        let wanted: u64 = admitted.iter().map(|(_, id, form)| contents.bytes_in(*id, *form)).sum();
        for victim in taken {
            if contents.room() >= wanted {
                break;
            }
            self.evict(&[victim], contents);
        }
        let admitted: HashMap<SegmentId, Form> = admitted.into_iter().map(|(_, id, form)| (id, form)).collect();
        for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
            if let Some(form) = admitted.get(&need.id) {
                contents.load_in(need.id, *form);
            }
        }
        self.promote(now, &needed, &stored, contents);
    }
}
