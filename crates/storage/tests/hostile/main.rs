//! Malicious clients: what they send is refused by name, and the node goes on answering others.
//!
//! Each attack goes over a socket as hand-made protobuf. A process that aborts or a thread that
//! panics fails the test, as does a missing answer to an honest client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod fixture;
mod fuzz;
mod plans;
mod seeds;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_proto_common::protobuf_common::arrow_type::ArrowTypeEnum as Type;
use datafusion_proto_common::protobuf_common::{self as protobuf, ArrowType};
use fixture::{Node, resident_bytes, resident_bytes_max};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use thermocline_pushdown::wire::{
    BitmapRequest, Csv, DescribeRequest, DropIndexRequest, ErrorKind, Format, FragmentRequest, IndexRequest,
    IndexStatusRequest, ObjectEntry, Origin, Range, RangesRequest, Ticket, TicketKind, encode_schema,
};
use thermocline_pushdown::{BITMAP_ROWS_MAX, Fragment};

/// What the process may take beyond what it had, whatever is sent. What a test makes in order to send it
/// is there before: it is not the node's.
const GROWTH_MAX: u64 = 300 << 20;

fn check_growth(before: u64) {
    let more = resident_bytes_max().saturating_sub(before);
    assert!(more < GROWTH_MAX, "{} MiB more", more >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_are_not_local_or_not_bounded() {
    let node = Node::start().await;
    let attacks: Vec<_> =
        plans::attacks().into_iter().map(|(name, plan, reason)| (name, plan.encode_to_vec(), reason)).collect();
    let before = resident_bytes();
    let mut wrong = vec![];
    for (name, plan, reason) in attacks {
        match node.ask(&node.fragment(plan)).await {
            Err(error) if error.kind == ErrorKind::Refused && error.message.contains(reason) => {}
            other => wrong.push(format!("{name}, expected '{reason}': {other:?}")),
        }
        wrong.extend(node.panicked().then(|| format!("{name} made a thread panic")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    node.check_honest("all plans").await;
    check_growth(before);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_arrow_has_no_arrays_for() {
    let node = Node::start().await;
    for (name, kind, reason) in plans::types() {
        let field = protobuf::Field { name: "a".into(), arrow_type: Some(Box::new(kind)), ..Default::default() };
        let schema = protobuf::Schema { columns: vec![field], ..Default::default() };
        // As the table's, as the fragment's, as the type of a cast and of a NULL.
        let of_table = FragmentRequest { table_schema: schema.encode_to_vec(), ..node.request(node.scan()) };
        let of_index = IndexRequest {
            object: Some(node.object.clone()),
            format: Some(node.format()),
            table_schema: schema.encode_to_vec(),
            column: "a".into(),
            ..IndexRequest::default()
        };
        let kind = schema.columns[0].arrow_type.as_deref().unwrap();
        for ticket in [
            Ticket { kind: Some(TicketKind::Fragment(of_table)) },
            Ticket { kind: Some(TicketKind::Index(of_index)) },
            node.fragment(plans::leaf(schema.encode_to_vec()).encode_to_vec()),
            node.fragment(plans::projected(plans::cast(kind.clone())).encode_to_vec()),
            node.fragment(plans::projected(plans::null(kind.clone())).encode_to_vec()),
        ] {
            let error = node.ask(&ticket).await.expect_err(name);
            assert!(matches!(error.kind, ErrorKind::Refused | ErrorKind::BadData), "{name}: {error:?}");
            assert!(error.message.contains(reason), "{name}: {error}");
        }
        node.check_honest(name).await;
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_bytes_that_become_two_hundred() {
    let node = Node::start().await;
    let mut operands = plans::operands(1_900_000);
    operands = plans::filtered_bytes(&operands);
    let columns = [0x0a, 0x00].repeat(6 << 20);
    let of_table = FragmentRequest { table_schema: columns.clone(), ..node.request(node.scan()) };
    let mut objects = DescribeRequest { format: Some(node.format()), ..DescribeRequest::default() }.encode_to_vec();
    objects.extend(columns);
    let before = resident_bytes();
    for round in 0..4 {
        let error = node.ask(&node.fragment(operands.clone())).await.unwrap_err();
        assert!(error.message.contains("fields"), "{round}: {error}");
        let error = node.ask(&Ticket { kind: Some(TicketKind::Fragment(of_table.clone())) }).await.unwrap_err();
        assert!(error.message.contains("fields"), "{round}: {error}");
        let error = node.act("describe", objects.clone()).await.unwrap_err();
        assert!(error.message.contains("fields"), "{round}: {error}");
        node.check_honest("many fields").await;
    }
    check_growth(before);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_that_claim_what_there_is_not() {
    let node = Node::start().await;
    let ranges = |starts: Vec<u64>, ends: Vec<u64>| {
        let request = RangesRequest { object: Some(node.object.clone()), starts, ends, ..RangesRequest::default() };
        TicketKind::Ranges(request)
    };
    let part = |row_groups, start, end| {
        let partitions = vec![Range { row_groups, start, end, first_row: 0 }];
        TicketKind::Fragment(FragmentRequest { partitions, ..node.request(node.scan()) })
    };
    let of = |origin| TicketKind::Fragment(FragmentRequest { origin: Some(origin), ..node.request(node.scan()) });
    let long = "x".repeat(1 << 20);
    let object = |object| TicketKind::Fragment(FragmentRequest { object: Some(object), ..node.request(node.scan()) });
    let csv = |csv| {
        let format = Some(Format { csv: Some(csv) });
        TicketKind::Fragment(FragmentRequest { format, ..node.request(node.scan()) })
    };
    let comma = Csv { delimiter: 44, ..Csv::default() };
    for (name, kind) in [
        ("a range to the end of numbers", ranges(vec![0], vec![u64::MAX])),
        ("a range at the end of numbers", ranges(vec![u64::MAX - 9], vec![u64::MAX])),
        ("a reversed range", ranges(vec![9], vec![0])),
        ("a range without an end", ranges(vec![0, 1], vec![2])),
        ("bytes past the object", part(false, 0, u64::MAX)),
        ("bytes at the end of numbers", part(false, u64::MAX - 9, u64::MAX)),
        ("a reversed partition", part(false, 9, 0)),
        ("row groups of CSV", part(true, 0, 1)),
        ("all row groups", part(true, 0, u64::from(u32::MAX))),
        ("row groups past 32 bits", part(true, 0, u64::MAX)),
        ("a tenant of a MiB", of(Origin { tenant: long.clone(), ..Origin::default() })),
        ("a query of a MiB", of(Origin { query_id: long.clone(), ..Origin::default() })),
        ("a path of a MiB", object(ObjectEntry { path: long.clone(), ..node.object.clone() })),
        ("a version of a MiB", object(ObjectEntry { version: long, ..node.object.clone() })),
        ("a path out of ROOT", object(ObjectEntry { path: "../t.csv".into(), ..node.object.clone() })),
        ("a delimiter that is no byte", csv(Csv { delimiter: 1 << 20, ..comma.clone() })),
        ("a delimiter that ends records", csv(Csv { delimiter: 10, ..comma.clone() })),
        ("a quote that delimits", csv(Csv { quote: Some(44), ..comma })),
        ("nothing", TicketKind::Fragment(FragmentRequest::default())),
    ] {
        let error = node.ask(&Ticket { kind: Some(kind) }).await.expect_err(name);
        assert!(matches!(error.kind, ErrorKind::Refused | ErrorKind::BadData), "{name}: {error:?}");
        node.check_honest(name).await;
    }
    // The node takes a caller's word for the size of an object, until it reads it.
    let larger = ObjectEntry { size: u64::MAX, ..node.object.clone() };
    let ranges = RangesRequest {
        object: Some(larger.clone()),
        starts: vec![0],
        ends: vec![1 << 40],
        ..RangesRequest::default()
    };
    node.ask(&Ticket { kind: Some(TicketKind::Ranges(ranges)) }).await.unwrap_err();
    node.ask(&Ticket { kind: Some(object(larger.clone())) }).await.unwrap();
    for partition_bytes in [0, 1, u64::MAX] {
        let objects = vec![larger.clone(), node.object.clone()];
        let request = DescribeRequest { objects, format: Some(node.format()), partition_bytes };
        node.act("describe", request.encode_to_vec()).await.unwrap_err();
        let objects = vec![node.object.clone()];
        let request = DescribeRequest { objects, format: Some(node.format()), partition_bytes };
        node.act("describe", request.encode_to_vec()).await.unwrap();
    }
    node.check_honest("sizes").await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bitmaps_that_unfold() {
    let node = Node::start().await;
    let before = resident_bytes();
    let ones = |rows: u64| {
        let mut run = vec![0];
        let mut rest = rows;
        while rest >= 0x80 {
            run.push((rest as u8) | 0x80);
            rest >>= 7;
        }
        run.push(rest as u8);
        run
    };
    let bitmap = |form: u8, rows: u64, body: &[u8]| [&[form], &rows.to_le_bytes()[..], body].concat();
    for (name, bitmap) in [
        ("all rows that there can be", bitmap(1, BITMAP_ROWS_MAX, &ones(BITMAP_ROWS_MAX))),
        ("more rows than there can be", bitmap(1, u64::MAX, &ones(u64::MAX))),
        ("more rows than it has", bitmap(1, 1000, &ones(1 << 40))),
        ("bits that are not there", bitmap(0, BITMAP_ROWS_MAX, &[])),
        ("no header", vec![1, 2]),
        ("a run without an end", bitmap(1, 1000, &[0x80; 100])),
        ("an unknown form", bitmap(9, 1000, &[])),
    ] {
        let request = BitmapRequest {
            object: Some(node.object.clone()),
            format: Some(node.format()),
            table_schema: encode_schema(&node.schema).unwrap(),
            partition: Some(node.whole()),
            fragment: node.scan(),
            bitmap,
            ..BitmapRequest::default()
        };
        node.ask(&Ticket { kind: Some(TicketKind::Bitmap(request)) }).await.expect_err(name);
        node.check_honest(name).await;
    }
    // Half a GiB of bits is charged to the node's memory, which has less here.
    check_growth(before);
    node.stop().await;
}

/// Random bytes, and honest requests with some bytes changed, cut or doubled.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_mean_nothing() {
    let seed = 0x5eed_0013;
    println!("seed {seed:#x}");
    let mut random = StdRng::seed_from_u64(seed);
    let node = Node::start().await;
    let columns = encode_schema(&node.schema).unwrap();
    let index = IndexRequest {
        object: Some(node.object.clone()),
        format: Some(node.format()),
        table_schema: columns.clone(),
        column: "no such".into(),
        ..IndexRequest::default()
    };
    let mut honest: Vec<Vec<u8>> =
        plans::allowed().into_iter().map(|(_, plan)| node.fragment(plan.encode_to_vec()).encode_to_vec()).collect();
    honest.push(Ticket { kind: Some(TicketKind::Index(index)) }.encode_to_vec());
    let format = Some(node.format());
    let objects = vec![node.object.clone()];
    let describe = DescribeRequest { objects: objects.clone(), format: format.clone(), partition_bytes: 1 << 20 };
    let status = IndexStatusRequest {
        objects: objects.clone(),
        format: format.clone(),
        table_schema: columns.clone(),
        column: "a".into(),
    };
    let drop = DropIndexRequest { objects, format, table_schema: columns, column: "a".into() };
    let actions = [
        ("list", vec![]),
        ("describe", describe.encode_to_vec()),
        ("index_status", status.encode_to_vec()),
        ("drop_index", drop.encode_to_vec()),
    ];
    for round in 0..1500 {
        let mut bytes = vec![0; random.random_range(0..400)];
        random.fill_bytes(&mut bytes);
        if round % 3 != 0 {
            bytes = fixture::mutated(&honest[round % honest.len()], &mut random);
        }
        let _refused_or_answered = node.get(bytes.clone()).await;
        let (action, body) = &actions[round % actions.len()];
        let body = if round % 5 == 0 { bytes } else { fixture::mutated(body, &mut random) };
        let _refused_or_answered = node.act(action, body).await;
        if round % 100 == 0 {
            node.check_honest("random bytes").await;
        }
    }
    node.check_honest("random bytes").await;
    node.stop().await;
}

/// What honest compute nodes send passes.
#[tokio::test(flavor = "multi_thread")]
async fn plans_that_are_allowed() {
    let node = Node::start().await;
    for (name, plan) in plans::allowed() {
        node.ask(&node.fragment(plan.encode_to_vec())).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let wide = Schema::new((0..2000).map(|n| Field::new(format!("c{n}"), DataType::Utf8, true)).collect::<Vec<_>>());
    let scan = Fragment::scan(wide.into()).encode().unwrap();
    let error = node.ask(&node.fragment(scan)).await.unwrap_err();
    assert!(error.message.contains("not in the table"), "{error}");
    let null = ArrowType { arrow_type_enum: Some(Type::Utf8(protobuf::EmptyMessage {})) };
    node.ask(&node.fragment(plans::projected(plans::null(null)).encode_to_vec())).await.unwrap();
    node.stop().await;
}
