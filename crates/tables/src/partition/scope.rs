//! The partitions that a running transaction may touch.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::Interrupt;
use thermocline_types::{Error, Result};

use super::{Digest, Head, Partition, Transaction};
use crate::PartitionHash;
use crate::table::StatementMemory;

/// A partition and its running transaction.
#[derive(Debug)]
pub struct Member {
    /// The partition.
    pub partition: Partition,
    /// The transaction's part there.
    pub transaction: Transaction,
}

impl Member {
    /// A partition without a transaction.
    pub fn new(partition: Partition, undo_bytes_max: usize) -> Self {
        let budget = Arc::clone(partition.budget());
        Self { partition, transaction: Transaction::charged(Head::default(), undo_bytes_max, budget) }
    }

    /// Starts a transaction here.
    #[inline]
    pub fn begin(&mut self, head: Head) {
        self.transaction.head = head;
        self.partition.begin();
    }

    /// Hash of the transaction's writes in all of these.
    pub fn digest(members: &[Self]) -> Digest {
        members.iter().fold(Digest::EMPTY, |digest, member| digest.and(member.transaction.undo.digest()))
    }

    /// Hash of the rows that the transaction changed in all of these, in their final state, as in logs of versions 1
    /// and 2 of the semantics.
    pub fn digest_at_the_end(members: &[Self]) -> Result<Digest> {
        members.iter().try_fold(Digest::EMPTY, |digest, member| {
            Ok(digest.and(member.partition.digest_at_the_end(&member.transaction)?))
        })
    }

    /// Partition and transaction, borrowed separately.
    pub fn split(&mut self) -> (&mut Partition, &mut Transaction) {
        (&mut self.partition, &mut self.transaction)
    }
}

/// The partitions of a running transaction: one, or several in the order of their numbers.
///
/// A transaction that asks for another partition gets [`Error::OtherPartition`]: the engine rolls it back and runs it
/// again over that partition as well.
#[derive(Debug)]
pub struct Scope<'a> {
    members: &'a mut [Member],
    interrupt: Option<&'a Arc<Interrupt>>,
}

impl<'a> Scope<'a> {
    /// A scope of at least one partition.
    pub fn new(members: &'a mut [Member]) -> Self {
        Self { members, interrupt: None }
    }

    /// A scope whose transaction can be interrupted.
    pub fn with_interrupt(members: &'a mut [Member], interrupt: Option<&'a Arc<Interrupt>>) -> Self {
        Self { members, interrupt }
    }

    /// The most rows that have come back for it in one of its partitions.
    pub fn returned_rows(&self) -> usize {
        self.members.iter().map(|member| member.partition.returned_rows()).max().unwrap_or(0)
    }

    /// Interrupt of the transaction; `None` if it cannot be stopped, as in replay.
    pub fn interrupt(&self) -> Option<&'a Arc<Interrupt>> {
        self.interrupt
    }

    /// Identity of the transaction.
    pub fn head(&self) -> Head {
        self.members.first().map(|member| member.transaction.head).unwrap_or_default()
    }

    /// Lends the memory account of statements, to be [given back](Self::give_back).
    pub fn lend_memory(&mut self) -> Option<Box<StatementMemory>> {
        self.members.first_mut().and_then(|member| member.transaction.memory.take())
    }

    /// Takes the account back; the memory of the statements is free again.
    pub fn give_back(&mut self, mut memory: Option<Box<StatementMemory>>) {
        if let Some(memory) = &mut memory {
            memory.end();
        }
        if let Some(member) = self.members.first_mut() {
            member.transaction.memory = memory;
        }
    }

    /// The partition that a value of a partition column belongs to.
    #[inline]
    pub fn one(&mut self, hash: PartitionHash) -> Result<(&mut Partition, &mut Transaction)> {
        let place = self.members.iter().position(|member| member.partition.owns(hash));
        let place = place.ok_or_else(|| self.other(&[hash]))?;
        let member = self.members.get_mut(place).map(Member::split);
        member.ok_or_else(|| Error::internal("a partition that has just been found"))
    }

    /// Error that partitions of these hashes are needed.
    #[cold]
    fn other(&self, hashes: &[PartitionHash]) -> Error {
        let count = self.members.first().map_or(1, |member| member.partition.count());
        let missing = hashes.iter().filter(|hash| !self.members.iter().any(|member| member.partition.owns(**hash)));
        let missing: BTreeSet<u32> = missing.map(|hash| hash.partition(count)).collect();
        Error::OtherPartition(missing.into_iter().collect())
    }

    /// The partitions that these values of a partition column belong to, in the order of their numbers.
    pub fn several(
        &mut self,
        hashes: &[PartitionHash],
    ) -> Result<impl Iterator<Item = (&mut Partition, &mut Transaction)>> {
        let owned = |member: &Member, hash: PartitionHash| member.partition.owns(hash);
        if !hashes.iter().all(|hash| self.members.iter().any(|member| owned(member, *hash))) {
            return Err(self.other(hashes));
        }
        let wanted = move |member: &&mut Member| hashes.iter().any(|hash| owned(member, *hash));
        Ok(self.members.iter_mut().filter(wanted).map(Member::split))
    }

    /// Any of its partitions, for data that all partitions share.
    #[inline]
    pub fn any(&mut self) -> Result<(&mut Partition, &mut Transaction)> {
        self.members.first_mut().map(Member::split).ok_or_else(|| Error::internal("a transaction without a partition"))
    }

    /// All partitions of the database.
    pub fn all(&mut self) -> Result<impl Iterator<Item = (&mut Partition, &mut Transaction)>> {
        let count = self.members.first().map_or(0, |member| member.partition.count() as usize);
        if self.members.len() < count {
            return Err(Error::OtherPartition(Box::default()));
        }
        Ok(self.members.iter_mut().map(Member::split))
    }

    /// Its partitions.
    pub fn each(&mut self) -> impl Iterator<Item = (&mut Partition, &mut Transaction)> {
        self.members.iter_mut().map(Member::split)
    }

    /// Its partitions, for reading.
    pub fn members(&self) -> impl Iterator<Item = &Partition> {
        self.members.iter().map(|member| &member.partition)
    }

    /// Numbers of its partitions.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.members.iter().map(|member| member.partition.id())
    }

    /// Number of changes that the transaction has made.
    pub fn changes(&self) -> usize {
        self.members.iter().map(|member| member.transaction.undo.len()).sum()
    }

    /// Whether the transaction has changed nothing.
    pub fn is_read_only(&self) -> bool {
        self.members.iter().all(|member| member.transaction.is_read_only())
    }
}
