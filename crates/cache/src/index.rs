//! Index of slots by table, object and version.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};

use crate::key::{Decoding, ObjectKey, SegmentKey, SegmentKind};
use crate::slots::SlotId;

/// Number of an object version that has slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId(u64);

/// Slots by key. A segment is found by its object, once for all segments of a partition that a query requests, and then
/// among the object's segments; so the segments of an object or a table are found without visiting others.
#[derive(Debug, Default)]
pub(crate) struct SegmentIndex {
    tables: HashMap<Arc<str>, HashMap<ObjectPath, Vec<ObjectId>>>,
    objects: HashMap<ObjectId, Object, RandomState>,
    next_object: u64,
    /// Of positions: one scan looks up thousands.
    hasher: RandomState,
}

/// The slots of one object version.
#[derive(Debug)]
struct Object {
    key: Arc<ObjectKey>,
    slots: HashTable<(Position, SlotId)>,
}

/// A segment within its object.
#[derive(Debug, Clone)]
struct Position {
    partition: PartitionRange,
    kind: SegmentKind,
    decoding: Decoding,
}

/// All parts of a key except its object: the compiler reports a part added to keys that is missing here.
fn parts(key: &SegmentKey) -> (PartitionRange, &SegmentKind, Decoding) {
    let SegmentKey { object: _, partition, kind, decoding } = key;
    (*partition, kind, *decoding)
}

impl Position {
    fn of(key: &SegmentKey) -> Self {
        let (partition, kind, decoding) = parts(key);
        Self { partition, kind: kind.clone(), decoding }
    }

    fn parts(&self) -> (PartitionRange, &SegmentKind, Decoding) {
        (self.partition, &self.kind, self.decoding)
    }
}

/// The last object looked up: keys of one object come one after the other.
#[derive(Debug, Default)]
pub(crate) struct LastObject(Option<(Arc<ObjectKey>, ObjectId)>);

impl LastObject {
    fn is(&self, key: &Arc<ObjectKey>) -> Option<ObjectId> {
        let (known, id) = self.0.as_ref()?;
        Arc::ptr_eq(known, key).then_some(*id)
    }
}

impl SegmentIndex {
    /// The slot of `key`. Nothing may be removed between lookups that share `last`.
    pub(crate) fn find(&self, key: &SegmentKey, last: &mut LastObject) -> Option<SlotId> {
        let id = last.is(&key.object).or_else(|| {
            let versions = self.tables.get(&key.object.table)?.get(&key.object.object)?;
            let id = *versions.iter().find(|id| self.is_of_version(**id, &key.object.version))?;
            last.0 = Some((Arc::clone(&key.object), id));
            Some(id)
        })?;
        let (hash, sought) = (self.hasher.hash_one(parts(key)), parts(key));
        self.objects.get(&id)?.slots.find(hash, |(known, _)| known.parts() == sought).map(|(_, slot)| *slot)
    }

    fn is_of_version(&self, id: ObjectId, version: &ObjectVersion) -> bool {
        self.objects.get(&id).is_some_and(|object| object.key.version == *version)
    }

    /// The object of `key`, added if it is new, and the key that shares its memory.
    pub(crate) fn object_of(&mut self, key: &SegmentKey) -> (ObjectId, SegmentKey) {
        let table = self.tables.entry(Arc::clone(&key.object.table)).or_default();
        let versions = table.entry(key.object.object.clone()).or_default();
        let objects = &mut self.objects;
        let known = versions.iter().copied().find_map(|id| {
            let object = objects.get(&id)?;
            (object.key.version == key.object.version).then(|| (id, Arc::clone(&object.key)))
        });
        let (id, object) = known.unwrap_or_else(|| {
            let id = ObjectId(self.next_object);
            self.next_object += 1;
            versions.push(id);
            objects.insert(id, Object { key: Arc::clone(&key.object), slots: HashTable::new() });
            (id, Arc::clone(&key.object))
        });
        (id, SegmentKey { object, ..key.clone() })
    }

    /// Makes `slot` the slot of `key`, which belongs to `object`.
    pub(crate) fn insert(&mut self, object: ObjectId, key: &SegmentKey, slot: SlotId) {
        if let Some(object) = self.objects.get_mut(&object) {
            let hash_of = |(known, _): &(Position, SlotId)| self.hasher.hash_one(known.parts());
            let (hash, sought) = (self.hasher.hash_one(parts(key)), parts(key));
            let entry = object.slots.entry(hash, |(known, _)| known.parts() == sought, hash_of);
            entry.insert((Position::of(key), slot));
        }
    }

    /// Removes the slot of `key`, and its object with the last slot.
    pub(crate) fn remove(&mut self, id: ObjectId, key: &SegmentKey) {
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        let (hash, sought) = (self.hasher.hash_one(parts(key)), parts(key));
        if let Ok(found) = object.slots.find_entry(hash, |(known, _)| known.parts() == sought) {
            found.remove();
        }
        if !object.slots.is_empty() {
            return;
        }
        self.objects.remove(&id);
        let Some(objects) = self.tables.get_mut(&key.object.table) else {
            return;
        };
        if let Some(versions) = objects.get_mut(&key.object.object) {
            versions.retain(|version| *version != id);
            if versions.is_empty() {
                objects.remove(&key.object.object);
            }
        }
        if objects.is_empty() {
            self.tables.remove(&key.object.table);
        }
    }

    /// The slots of all objects of a table.
    pub(crate) fn of_table(&self, table: &str) -> Vec<SlotId> {
        let objects = self.tables.get(table).into_iter().flat_map(HashMap::values).flatten();
        objects.flat_map(|id| self.slots(*id)).collect()
    }

    /// The slots of an object in one version.
    pub(crate) fn of_version(&self, table: &str, object: &ObjectPath, version: &ObjectVersion) -> Vec<SlotId> {
        let versions = self.tables.get(table).and_then(|objects| objects.get(object)).into_iter().flatten();
        versions.filter(|id| self.is_of_version(**id, version)).flat_map(|id| self.slots(*id)).collect()
    }

    fn slots(&self, id: ObjectId) -> impl Iterator<Item = SlotId> {
        self.objects.get(&id).into_iter().flat_map(|object| object.slots.iter().map(|(_, slot)| *slot))
    }
}
