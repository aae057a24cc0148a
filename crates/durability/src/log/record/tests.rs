use super::*;

pub fn head(partitions: &[PartitionId]) -> Head<'_> {
    let (transaction, timestamp) = (TransactionId(0x0102), Micros(0x0304));
    Head { transaction, timestamp, seed: 0x0506, digest: 0x0708, partitions }
}

fn read<'a>(bytes: &mut &'a [u8], sequence: Sequence) -> Option<Record<'a>> {
    check(&mut { *bytes }, sequence).and_then(|()| read_checked(bytes))
}

fn sealed(batch: &Batch, first: u64) -> Vec<u8> {
    let mut bytes = batch.as_slice().to_vec();
    assert_eq!(seal(&mut bytes, Sequence(first)), u64::from(batch.records()));
    bytes
}

/// The stored format.
#[test]
fn the_bytes_are_fixed() {
    let mut batch = Batch::default();
    batch.call(&head(&[PartitionId(1)]), "pay", 2, &[Value::Int(7), Value::Text("x".into())]).unwrap();
    #[rustfmt::skip]
    let expected = [
        75, 0, 0, 0,                    // length
        0x59, 0xb8, 0x8c, 0x3b,         // checksum
        9, 0, 0, 0, 0, 0, 0, 0,         // sequence
        2, 1, 0, 0, 0, 0, 0, 0,         // transaction
        4, 3, 0, 0, 0, 0, 0, 0,         // timestamp
        6, 5, 0, 0, 0, 0, 0, 0,         // seed
        8, 7, 0, 0, 0, 0, 0, 0,         // digest
        1, 0,                           // a call
        1, 0, 1, 0,                     // one partition: 1
        3, 0, 0, 0, b'p', b'a', b'y',   // procedure
        2, 0, 0, 0,                     // version
        2, 0,                           // two arguments
        3, 7,                           // an integer of one byte: 7
        8, 1, 0, 0, 0, b'x',            // a text of one byte
    ];
    assert_eq!(sealed(&batch, 9), expected);

    let mut batch = Batch::default();
    let gone = Effect { partition: PartitionId(3), table: TableId(4), tuple: TupleId(5), image: None };
    batch.effects(&head(&[]), [gone, Effect { image: Some(b"r"), ..gone }]).unwrap();
    #[rustfmt::skip]
    let expected = [
        3, 0, 0, 0,                     // effects, zero, all partitions
        2, 0, 0, 0,                     // two rows
        3, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0,
        3, 0, 4, 0, 0, 0, 5, 0, 0, 0, 1, 1, 0, 0, 0, b'r',
    ];
    assert_eq!(sealed(&batch, 1)[AT_KIND..], expected);
}

#[test]
fn records_come_back() {
    let mut batch = Batch::default();
    let two = [PartitionId(0), PartitionId(5)];
    batch.statement(&head(&two), "DELETE FROM t WHERE k = $1", &[Value::Null]).unwrap();
    batch.definition(&head(&[]), "DROP TABLE t").unwrap();
    let row = Effect { partition: PartitionId(1), table: TableId(2), tuple: TupleId(3), image: Some(b"abc") };
    batch.effects(&head(&[PartitionId(1)]), [row]).unwrap();
    let bytes = sealed(&batch, 100);
    let mut rest = &bytes[..];

    let record = read(&mut rest, Sequence(100)).unwrap();
    assert_eq!((record.transaction, record.timestamp), (TransactionId(0x0102), Micros(0x0304)));
    assert_eq!((record.seed, record.digest), (0x0506, 0x0708));
    assert_eq!((record.partitions.iter().collect::<Vec<_>>(), record.partitions.single()), (two.to_vec(), None));
    let Body::Statement { sql, parameters } = record.body else { panic!("{record:?}") };
    assert_eq!((sql, parameters.to_vec().unwrap()), ("DELETE FROM t WHERE k = $1", vec![Value::Null]));

    let record = read(&mut rest, Sequence(101)).unwrap();
    assert!(record.partitions.is_all() && matches!(record.body, Body::Definition("DROP TABLE t")));

    let record = read(&mut rest, Sequence(102)).unwrap();
    assert_eq!(record.partitions.single(), Some(PartitionId(1)));
    let Body::Effects(effects) = record.body else { panic!("{record:?}") };
    let mut rows = Vec::new();
    let collected = effects.each(|effect| {
        rows.push(effect);
        Ok(())
    });
    collected.unwrap();
    assert_eq!((rows, rest), (vec![row], &[][..]));
}

#[test]
fn any_changed_bit_is_noticed() {
    let mut batch = Batch::default();
    batch.call(&head(&[PartitionId(1)]), "pay", 2, &[Value::Int(7)]).unwrap();
    let bytes = sealed(&batch, 9);
    assert!(read(&mut &bytes[..], Sequence(9)).is_some());
    assert!(read(&mut &bytes[..], Sequence(8)).is_none());
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&mut &changed[..], Sequence(9)).is_none(), "bit {bit}");
    }
}

#[test]
fn too_large_a_record_leaves_the_batch_as_it_was() {
    let mut batch = Batch::default();
    batch.definition(&head(&[]), "x").unwrap();
    let before = batch.bytes();
    let image = vec![0; RECORD_BYTES_MAX / 8];
    let row = Effect { partition: PartitionId(1), table: TableId(2), tuple: TupleId(3), image: Some(&image) };
    let count = TRANSACTION_BYTES_MAX / image.len() + 1;
    let error = batch.effects(&head(&[]), std::iter::repeat_n(row, count)).unwrap_err();
    assert_eq!(error.sqlstate(), "54000");
    assert!(error.to_string().contains("make it several"), "{error}");
    let many = vec![Value::Null; 70_000];
    assert_eq!(batch.statement(&head(&[]), "", &many).unwrap_err().sqlstate(), "54000");
    assert_eq!((batch.bytes(), batch.records()), (before, 1));
}

#[test]
fn effects_go_on_in_the_next_record() {
    let image = [7; 40];
    let row =
        |tuple| Effect { partition: PartitionId(1), table: TableId(2), tuple: TupleId(tuple), image: Some(&image) };
    let rows: Vec<_> = (0..5).map(row).collect();
    let mut batch = Batch::with_part_bytes(100);
    batch.effects(&head(&[PartitionId(1)]), rows.iter().copied()).unwrap();
    batch.effects(&head(&[]), []).unwrap();
    let bytes = sealed(&batch, 1);
    let (mut rest, mut found, mut parts) = (&bytes[..], Vec::new(), Vec::new());
    for sequence in 1..=u64::from(batch.records()) {
        let record = read(&mut rest, Sequence(sequence)).unwrap();
        let (Body::Part(effects) | Body::Effects(effects)) = record.body else { panic!("{record:?}") };
        parts.push(matches!(record.body, Body::Part(_)));
        let collected = effects.each(|effect| {
            found.push(effect);
            Ok(())
        });
        collected.unwrap();
    }
    assert_eq!((parts, found), (vec![true, true, false, false], rows));
}
