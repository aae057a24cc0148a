//! Plans as protobuf, good and bad.

use datafusion_proto::protobuf::physical_aggregate_expr_node::AggregateFunction;
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{
    AggregateExecNode, AggregateMode, AvroScanExecNode, CrossJoinExecNode, EmptyExecNode, ExplainExecNode,
    FilterExecNode, GenerateSeriesNode, GlobalLimitExecNode, JsonSinkExecNode, LocalLimitExecNode, MaybeFilter,
    MemoryScanExecNode, ParquetScanExecNode, PhysicalAggregateExprNode, PhysicalBinaryExprNode, PhysicalCastNode,
    PhysicalColumn, PhysicalDynamicFilterNode, PhysicalExprNode, PhysicalExtensionExprNode, PhysicalExtensionNode,
    PhysicalHashExprNode, PhysicalHigherOrderUdfNode, PhysicalInListNode, PhysicalLikeExprNode, PhysicalNot,
    PhysicalPlanNode, PhysicalScalarSubqueryExprNode, PhysicalScalarUdfNode, PhysicalSortExprNode,
    PhysicalWindowExprNode, PlaceholderRowExecNode, ProjectionExecNode, SortExecNode, UnionExecNode, UnnestExecNode,
    WindowAggExecNode,
};
use datafusion_proto_common::protobuf_common::arrow_type::ArrowTypeEnum as Type;
use datafusion_proto_common::protobuf_common::scalar_value::Value;
use datafusion_proto_common::protobuf_common::{
    ArrowType, Decimal64Type, Decimal128, Decimal128Type, Dictionary, EmptyMessage, Field, FixedSizeList, List, Map,
    ScalarDictionaryValue, ScalarFixedSizeBinary, ScalarNestedValue, ScalarTimestampValue, ScalarValue, Schema, Struct,
    Timestamp, Union, scalar_timestamp_value,
};
use prost::Message;

type Attack = (&'static str, PhysicalPlanNode, &'static str);

fn plan(kind: PhysicalPlanType) -> PhysicalPlanNode {
    PhysicalPlanNode { physical_plan_type: Some(kind) }
}

fn expression(kind: ExprType) -> PhysicalExprNode {
    PhysicalExprNode { expr_id: None, expr_type: Some(kind) }
}

pub fn arrow(kind: Type) -> ArrowType {
    ArrowType { arrow_type_enum: Some(kind) }
}

fn empty() -> EmptyMessage {
    EmptyMessage {}
}

fn int64() -> ArrowType {
    arrow(Type::Int64(empty()))
}

fn text_view() -> ArrowType {
    arrow(Type::Utf8View(empty()))
}

fn field(name: &str, kind: ArrowType) -> Field {
    Field { name: name.into(), arrow_type: Some(Box::new(kind)), nullable: true, ..Field::default() }
}

fn columns() -> Schema {
    Schema { columns: vec![field("a", int64()), field("b", text_view())], ..Schema::default() }
}

pub fn leaf(schema: Vec<u8>) -> PhysicalPlanNode {
    plan(PhysicalPlanType::Extension(PhysicalExtensionNode { node: schema, inputs: vec![] }))
}

fn scan() -> PhysicalPlanNode {
    leaf(columns().encode_to_vec())
}

fn column(name: &str, index: u32) -> PhysicalExprNode {
    expression(ExprType::Column(PhysicalColumn { name: name.into(), index }))
}

fn number() -> PhysicalExprNode {
    column("a", 0)
}

fn text() -> PhysicalExprNode {
    column("b", 1)
}

fn literal(value: Value) -> PhysicalExprNode {
    expression(ExprType::Literal(ScalarValue { value: Some(value) }))
}

fn view(text: &str) -> PhysicalExprNode {
    literal(Value::Utf8ViewValue(text.into()))
}

pub fn null(kind: ArrowType) -> PhysicalExprNode {
    literal(Value::NullValue(kind))
}

pub fn cast(kind: ArrowType) -> PhysicalExprNode {
    expression(ExprType::Cast(Box::new(PhysicalCastNode { expr: Some(Box::new(number())), arrow_type: Some(kind) })))
}

fn binary(op: &str, operands: Vec<PhysicalExprNode>) -> PhysicalExprNode {
    expression(ExprType::BinaryExpr(Box::new(PhysicalBinaryExprNode { op: op.into(), operands, l: None, r: None })))
}

fn not(inner: PhysicalExprNode) -> PhysicalExprNode {
    expression(ExprType::NotExpr(Box::new(PhysicalNot { expr: Some(Box::new(inner)) })))
}

fn call(name: &str, args: Vec<PhysicalExprNode>, returns: ArrowType) -> PhysicalExprNode {
    expression(ExprType::ScalarUdf(PhysicalScalarUdfNode {
        name: name.into(),
        args,
        return_type: Some(returns),
        nullable: true,
        return_field_name: "f".into(),
        fun_definition: None,
    }))
}

fn filter(predicate: PhysicalExprNode) -> FilterExecNode {
    FilterExecNode {
        input: Some(Box::new(scan())),
        expr: Some(predicate),
        default_filter_selectivity: 20,
        projection: vec![0, 1],
        batch_size: 8192,
        fetch: None,
    }
}

fn filtered(predicate: PhysicalExprNode) -> PhysicalPlanNode {
    plan(PhysicalPlanType::Filter(Box::new(filter(predicate))))
}

pub fn projected(output: PhysicalExprNode) -> PhysicalPlanNode {
    projected_all(vec![output])
}

fn projected_all(expr: Vec<PhysicalExprNode>) -> PhysicalPlanNode {
    plan(PhysicalPlanType::Projection(Box::new(ProjectionExecNode {
        input: Some(Box::new(scan())),
        expr_name: expr.iter().map(|_| "x".into()).collect(),
        expr,
    })))
}

fn positive() -> PhysicalExprNode {
    binary("Gt", vec![number(), literal(Value::Int64Value(0))])
}

fn aggregate(function: &str, args: Vec<PhysicalExprNode>) -> AggregateExecNode {
    let call = PhysicalAggregateExprNode {
        aggregate_function: Some(AggregateFunction::UserDefinedAggrFunction(function.into())),
        expr: args,
        ..PhysicalAggregateExprNode::default()
    };
    AggregateExecNode {
        mode: AggregateMode::Partial as i32,
        input: Some(Box::new(scan())),
        input_schema: Some(columns()),
        aggr_expr: vec![expression(ExprType::AggregateExpr(call))],
        aggr_expr_name: vec!["x".into()],
        filter_expr: vec![MaybeFilter { expr: None }],
        ..AggregateExecNode::default()
    }
}

fn grouped(node: AggregateExecNode) -> PhysicalPlanNode {
    plan(PhysicalPlanType::Aggregate(Box::new(node)))
}

fn by_number() -> AggregateExecNode {
    AggregateExecNode {
        group_expr: vec![number()],
        group_expr_name: vec!["a".into()],
        groups: vec![false],
        ..aggregate("count", vec![number()])
    }
}

fn sorted(fetch: i64) -> SortExecNode {
    let key = PhysicalSortExprNode { expr: Some(Box::new(number())), asc: true, nulls_first: false };
    SortExecNode {
        input: Some(Box::new(scan())),
        expr: vec![expression(ExprType::Sort(Box::new(key)))],
        fetch,
        preserve_partitioning: true,
        dynamic_filter: None,
    }
}

fn top(node: SortExecNode) -> PhysicalPlanNode {
    plan(PhysicalPlanType::Sort(Box::new(node)))
}

/// Arrow IPC of one list, compressed, whose buffers claim `claimed` bytes.
fn compressed_list(compression: arrow::ipc::CompressionType, claimed: i64) -> Value {
    use arrow::array::{ArrayRef, ListArray, RecordBatch};
    use arrow::datatypes::Int64Type;
    use arrow::ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
    let items = (0..1000).map(|n| Some(n % 3)).collect::<Vec<_>>();
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(items)]);
    let batch = RecordBatch::try_from_iter([("x", std::sync::Arc::new(list) as ArrayRef)]).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
    let mut tracker = DictionaryTracker::new(false);
    let (_, EncodedData { ipc_message, mut arrow_data }) =
        IpcDataGenerator::default().encode(&batch, &mut tracker, &options, &mut IpcWriteContext::default()).unwrap();
    // Every compressed buffer begins with the length that it claims to have.
    for at in (0..arrow_data.len().saturating_sub(8)).step_by(8) {
        if arrow_data[at..at + 8] == 8000_i64.to_le_bytes() {
            arrow_data[at..at + 8].copy_from_slice(&claimed.to_le_bytes());
        }
    }
    let item = field("item", int64());
    let list = arrow(Type::List(Box::new(List { field_type: Some(Box::new(item)) })));
    Value::ListValue(ScalarNestedValue {
        ipc_message,
        arrow_data,
        schema: Some(Schema { columns: vec![field("x", list)], ..Schema::default() }),
        dictionaries: vec![],
    })
}

/// A list of so many expressions, none of which says what it is: two bytes each.
pub fn operands(count: usize) -> Vec<u8> {
    [0x22, 0x00].repeat(count)
}

/// A filter by a binary expression that is encoded already.
pub fn filtered_bytes(binary: &[u8]) -> Vec<u8> {
    let nested = |field: u8, inner: &[u8]| {
        let mut bytes = vec![field << 3 | 2];
        let mut length = inner.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(inner);
        bytes
    };
    nested(12, &nested(2, &nested(3, binary)))
}

pub fn attacks() -> Vec<Attack> {
    let mut all = operators();
    all.extend(literals());
    all.extend(functions());
    all.extend(depth());
    all.extend(numbers());
    all.extend(expressions());
    all
}

fn operators() -> Vec<Attack> {
    let only = "only filter, projection, partial aggregation, top-K and limit";
    let input = || Some(Box::new(scan()));
    let window = WindowAggExecNode {
        input: input(),
        window_expr: vec![PhysicalWindowExprNode::default()],
        ..WindowAggExecNode::default()
    };
    let series = GenerateSeriesNode { schema: Some(columns()), target_batch_size: u32::MAX, args: None };
    let memory = MemoryScanExecNode { partitions: vec![vec![0xff; 64]; 3], ..MemoryScanExecNode::default() };
    vec![
        ("Avro", plan(PhysicalPlanType::AvroScan(AvroScanExecNode { base_conf: None })), only),
        ("Parquet", plan(PhysicalPlanType::ParquetScan(ParquetScanExecNode::default())), only),
        ("a window", plan(PhysicalPlanType::Window(Box::new(window))), only),
        (
            "a sink",
            plan(PhysicalPlanType::JsonSink(Box::new(JsonSinkExecNode { input: input(), ..Default::default() }))),
            only,
        ),
        ("a series", plan(PhysicalPlanType::GenerateSeries(series)), only),
        ("memory", plan(PhysicalPlanType::MemoryScan(memory)), only),
        (
            "a cross join",
            plan(PhysicalPlanType::CrossJoin(Box::new(CrossJoinExecNode { left: input(), right: input() }))),
            only,
        ),
        ("a union", plan(PhysicalPlanType::Union(UnionExecNode { inputs: vec![scan(); 100] })), only),
        (
            "nothing, often",
            plan(PhysicalPlanType::Empty(EmptyExecNode { schema: Some(columns()), partitions: u32::MAX })),
            only,
        ),
        (
            "a row, often",
            plan(PhysicalPlanType::PlaceholderRow(PlaceholderRowExecNode { schema: None, partitions: u32::MAX })),
            only,
        ),
        (
            "unnest",
            plan(PhysicalPlanType::Unnest(Box::new(UnnestExecNode { input: input(), ..Default::default() }))),
            only,
        ),
        ("explain", plan(PhysicalPlanType::Explain(ExplainExecNode::default())), only),
        ("no operator", PhysicalPlanNode { physical_plan_type: None }, "missing or unknown"),
        ("no input", plan(PhysicalPlanType::LocalLimit(Box::default())), "no input"),
        (
            "a leaf that is none",
            plan(PhysicalPlanType::Extension(PhysicalExtensionNode { node: vec![], inputs: vec![scan(); 2] })),
            "it has inputs",
        ),
        ("a leaf of random bytes", leaf(vec![0xa7; 300]), "does not decode"),
        (
            "an offset",
            plan(PhysicalPlanType::GlobalLimit(Box::new(GlobalLimitExecNode {
                input: input(),
                skip: 1,
                fetch: 1,
                required_ordering: vec![],
            }))),
            "OFFSET",
        ),
        (
            "a projection over states",
            plan(PhysicalPlanType::Projection(Box::new(ProjectionExecNode {
                input: Some(Box::new(grouped(by_number()))),
                expr: vec![number()],
                expr_name: vec!["x".into()],
            }))),
            "only a limit may follow",
        ),
    ]
}

fn literals() -> Vec<Attack> {
    let nested = "a nested value is not a literal";
    let decimal = |bytes, p, s| literal(Value::Decimal128Value(Decimal128 { value: vec![1; bytes], p, s }));
    let equal = |value| filtered(binary("Eq", vec![number(), value]));
    let run = |value| literal(value);
    vec![
        ("LZ4 of 2^46 bytes", projected(run(compressed_list(arrow::ipc::CompressionType::LZ4_FRAME, 1 << 46))), nested),
        ("ZSTD of 2^46 bytes", projected(run(compressed_list(arrow::ipc::CompressionType::ZSTD, 1 << 46))), nested),
        ("a list of IPC", equal(run(compressed_list(arrow::ipc::CompressionType::ZSTD, 8000))), nested),
        (
            "a struct of random IPC",
            projected(run(Value::StructValue(ScalarNestedValue {
                ipc_message: vec![0x5a; 200],
                arrow_data: vec![0x5a; 200],
                schema: Some(columns()),
                dictionaries: vec![],
            }))),
            nested,
        ),
        ("a union", projected(run(Value::UnionValue(Box::default()))), nested),
        ("a decimal of 3 bytes", equal(decimal(3, 10, 2)), "a decimal of 3 bytes"),
        ("a decimal of no bytes", equal(decimal(0, 10, 2)), "a decimal of 0 bytes"),
        ("a decimal of 300 digits", equal(decimal(16, 300, 2)), "a decimal of 300 digits"),
        ("a decimal of scale 77", equal(decimal(16, 10, 77)), "a decimal of 10 digits"),
        ("a long text", equal(view(&"x".repeat(100_000))), "a literal of 100000 bytes"),
        ("many texts", projected_all(vec![view(&"x".repeat(20_000)); 3]), "a row would grow"),
        ("a NULL of 2 GiB", projected(null(arrow(Type::FixedSizeBinary(i32::MAX)))), "passes the limit"),
        (
            "bytes of another length",
            projected(run(Value::FixedSizeBinaryValue(ScalarFixedSizeBinary { values: vec![1], length: i32::MAX }))),
            "claims",
        ),
        (
            "a dictionary by float",
            projected(run(Value::DictionaryValue(Box::new(ScalarDictionaryValue {
                index_type: Some(arrow(Type::Float64(empty()))),
                value: Some(Box::new(ScalarValue { value: Some(Value::Utf8Value("x".into())) })),
            })))),
            "keys that are no integers",
        ),
        (
            "an unknown zone",
            projected(run(Value::TimestampValue(ScalarTimestampValue {
                timezone: "no such zone \n".repeat(1000),
                value: Some(scalar_timestamp_value::Value::TimeSecondValue(1)),
            }))),
            "is not a time zone",
        ),
        ("no value", projected(expression(ExprType::Literal(ScalarValue { value: None }))), "without a value"),
    ]
}

fn functions() -> Vec<Attack> {
    let unsupported = "does not run at storage";
    let longer = "may make a text longer";
    let view_type = text_view;
    let int = |value| literal(Value::Int64Value(value));
    let defined = PhysicalScalarUdfNode {
        name: "abs".into(),
        args: vec![number()],
        return_type: Some(int64()),
        fun_definition: Some(vec![1, 2, 3]),
        ..PhysicalScalarUdfNode::default()
    };
    let grown = (0..7).fold(text(), |inner, _| call("concat", vec![inner.clone(), inner], view_type()));
    let joined = binary("StringConcat", vec![text(); 30]);
    vec![
        ("repeat", projected(call("repeat", vec![text(), int(1 << 40)], view_type())), unsupported),
        ("a range", projected(call("range", vec![int(0), int(1 << 40)], int64())), unsupported),
        ("generate_series", projected(call("generate_series", vec![int(0), int(1 << 40)], int64())), unsupported),
        ("array_repeat", projected(call("array_repeat", vec![text(), int(1 << 40)], view_type())), unsupported),
        ("array_resize", projected(call("array_resize", vec![text(), int(1 << 40)], view_type())), unsupported),
        ("string_to_array", projected(call("string_to_array", vec![text(), view("")], view_type())), unsupported),
        ("levenshtein", projected(call("levenshtein", vec![text(), text()], int64())), unsupported),
        (
            "random",
            filtered(binary("Gt", vec![call("random", vec![], arrow(Type::Float64(empty()))), number()])),
            unsupported,
        ),
        ("uuid", projected(call("uuid", vec![], view_type())), unsupported),
        ("no function", projected(call("no such function \u{7}", vec![], int64())), unsupported),
        ("its own function", projected(expression(ExprType::ScalarUdf(defined))), "a definition of its own"),
        ("lpad by literal", projected(call("lpad", vec![text(), int(1 << 40)], view_type())), "a row would grow"),
        ("rpad by column", projected(call("rpad", vec![text(), number()], view_type())), "is not a literal"),
        (
            "replace a byte by many",
            projected(call("replace", vec![text(), view("t"), view(&"x".repeat(9000))], view_type())),
            longer,
        ),
        ("replace nothing", projected(call("replace", vec![text(), view(""), view("")], view_type())), longer),
        ("replace by column", projected(call("replace", vec![text(), view("t"), text()], view_type())), longer),
        (
            "replace each match twice",
            projected(call("regexp_replace", vec![text(), view("."), view("\\0\\0"), view("g")], view_type())),
            longer,
        ),
        ("concat of itself", projected(grown), "texts are concatenated"),
        ("|| of itself", projected_all(vec![joined; 3]), "texts are concatenated"),
        (
            "a long format",
            projected(call("to_char", vec![number(), view(&"%c".repeat(9000))], view_type())),
            "a row would grow",
        ),
        (
            "a long pattern",
            filtered(binary("RegexMatch", vec![text(), view(&"(a{1000})".repeat(1000))])),
            "a pattern of 9000 bytes",
        ),
        (
            "many patterns",
            filtered(binary("Or", vec![binary("RegexMatch", vec![text(), view("a{1000}{1000}")]); 20])),
            "regular expressions",
        ),
        ("another argument", projected(call("lower", vec![number()], view_type())), "lower"),
        ("another result", projected(call("abs", vec![number()], view_type())), "abs yields"),
        ("too few arguments", projected(call("strpos", vec![text()], int64())), "strpos"),
        ("no arguments", projected(call("date_trunc", vec![], int64())), "date_trunc"),
        (
            "no result",
            projected(expression(ExprType::ScalarUdf(PhysicalScalarUdfNode {
                name: "abs".into(),
                args: vec![number()],
                ..Default::default()
            }))),
            "missing or unknown",
        ),
        ("no aggregate", grouped(aggregate("no such", vec![number()])), unsupported),
        ("nth_value", grouped(aggregate("nth_value", vec![number(), int(1 << 40)])), unsupported),
        ("an aggregate of text", grouped(aggregate("avg", vec![text()])), "avg"),
        ("an aggregate of nothing", grouped(aggregate("sum", vec![])), "args should not be empty"),
        (
            "a sketch of its own size",
            grouped(aggregate(
                "approx_percentile_cont",
                vec![number(), literal(Value::Float64Value(0.5)), int(1 << 40)],
            )),
            "a size of its own",
        ),
    ]
}

fn depth() -> Vec<Attack> {
    let nested = "nested deeper";
    let nots = |levels| (0..levels).fold(positive(), |inner, _| not(inner));
    let limits = (0..33).fold(scan(), |input, _| {
        plan(PhysicalPlanType::LocalLimit(Box::new(LocalLimitExecNode {
            input: Some(Box::new(input)),
            fetch: 1,
            required_ordering: vec![],
        })))
    });
    vec![
        ("40 NOTs", filtered(nots(40)), nested),
        // The protobuf decoder has a limit of its own.
        ("200 NOTs", filtered(nots(200)), "recursion limit"),
        ("a chain of 100 000", filtered(binary("And", vec![positive(); 40_000])), nested),
        ("a sum of 1000", projected(binary("Plus", vec![number(); 1000])), nested),
        ("a chain in a chain", filtered(binary("Or", vec![binary("And", vec![positive(); 20]); 20])), nested),
        ("33 limits", limits, "more than 32 operators"),
    ]
}

fn numbers() -> Vec<Attack> {
    let keys = |count: usize, groups: usize| AggregateExecNode {
        group_expr: vec![number(); count],
        group_expr_name: vec!["a".into(); count],
        null_expr: vec![null(int64()); count],
        groups: vec![true; groups],
        has_grouping_set: true,
        ..aggregate("count", vec![number()])
    };
    let fit = "do not fit together";
    let of_text = Schema { columns: vec![field("a", text_view()), field("b", text_view())], ..Schema::default() };
    vec![
        ("a top-K of nothing", top(sorted(0)), "a top-K of no row"),
        ("a sort", top(sorted(-1)), "a sort without a limit"),
        ("a large top-K", top(sorted(i64::MAX)), "passes the limit"),
        ("a top-K by nothing", top(SortExecNode { expr: vec![], ..sorted(5) }), "0 keys"),
        ("a top-K by no key", top(SortExecNode { expr: vec![number()], ..sorted(5) }), "without a direction"),
        ("a top-K with a filter", top(SortExecNode { dynamic_filter: Some(number()), ..sorted(5) }), "dynamic filter"),
        (
            "no batches",
            plan(PhysicalPlanType::Filter(Box::new(FilterExecNode { batch_size: 0, ..filter(positive()) }))),
            "batches of 0 rows",
        ),
        (
            "huge batches",
            plan(PhysicalPlanType::Filter(Box::new(FilterExecNode { batch_size: u32::MAX, ..filter(positive()) }))),
            "batches of 4294967295 rows",
        ),
        (
            "a column that is not there",
            plan(PhysicalPlanType::Filter(Box::new(FilterExecNode { projection: vec![7], ..filter(positive()) }))),
            "column 7 is not among",
        ),
        (
            "a column a million times",
            plan(PhysicalPlanType::Filter(Box::new(FilterExecNode {
                projection: vec![1; 100_000],
                ..filter(positive())
            }))),
            "yields 100000",
        ),
        (
            "a selectivity",
            plan(PhysicalPlanType::Filter(Box::new(FilterExecNode {
                default_filter_selectivity: 900,
                ..filter(positive())
            }))),
            "a selectivity of 900 %",
        ),
        ("a column beyond", projected(column("z", u32::MAX)), "is not among the 2"),
        (
            "more names than columns",
            plan(PhysicalPlanType::Projection(Box::new(ProjectionExecNode {
                input: Some(Box::new(scan())),
                expr: vec![],
                expr_name: vec!["x".into()],
            }))),
            "0 expressions and 1 names",
        ),
        (
            "a final aggregation",
            grouped(AggregateExecNode { mode: AggregateMode::Final as i32, ..by_number() }),
            "all partitions",
        ),
        ("no mode", grouped(AggregateExecNode { mode: 99, ..by_number() }), "mode 99"),
        (
            "sets of no keys",
            grouped(AggregateExecNode { groups: vec![true; 5], ..aggregate("count", vec![number()]) }),
            fit,
        ),
        ("a set that is cut", grouped(keys(2, 5)), fit),
        ("4096 sets", grouped(keys(12, 12 * 4096)), "4096 grouping sets"),
        ("sets without NULLs", grouped(AggregateExecNode { groups: vec![true], ..by_number() }), fit),
        ("keys without names", grouped(AggregateExecNode { group_expr_name: vec![], ..by_number() }), fit),
        ("keys without sets", grouped(AggregateExecNode { groups: vec![], ..by_number() }), fit),
        ("no filters", grouped(AggregateExecNode { filter_expr: vec![], ..by_number() }), "not as many"),
        ("no schema", grouped(AggregateExecNode { input_schema: None, ..by_number() }), "schema of its input"),
        (
            "another width",
            grouped(AggregateExecNode { input_schema: Some(Schema::default()), ..by_number() }),
            "it expects 0",
        ),
        (
            "another type",
            grouped(AggregateExecNode { input_schema: Some(of_text), ..aggregate("max", vec![number()]) }),
            "expects other columns",
        ),
        (
            "a schema of states",
            grouped(AggregateExecNode { schema: Some(columns()), ..by_number() }),
            "a schema of its states",
        ),
    ]
}

fn expressions() -> Vec<Attack> {
    let bloom =
        |expr: Vec<u8>, inputs| filtered(expression(ExprType::Extension(PhysicalExtensionExprNode { expr, inputs })));
    let dynamic =
        PhysicalDynamicFilterNode { inner_expr: Some(Box::new(positive())), ..PhysicalDynamicFilterNode::default() };
    let higher = PhysicalHigherOrderUdfNode { name: "array_transform".into(), ..PhysicalHigherOrderUdfNode::default() };
    let list = |values: Vec<PhysicalExprNode>| {
        filtered(expression(ExprType::InList(Box::new(PhysicalInListNode {
            expr: Some(Box::new(number())),
            list: values,
            negated: false,
        }))))
    };
    vec![
        ("no expression", projected(PhysicalExprNode::default()), "missing or unknown"),
        (
            "no predicate",
            plan(PhysicalPlanType::Filter(Box::new(FilterExecNode { expr: None, ..filter(positive()) }))),
            "missing or unknown",
        ),
        ("a predicate of numbers", filtered(number()), "BOOLEAN"),
        ("no operator", filtered(binary("Explode", vec![number(), number()])), "operator 'Explode'"),
        ("one operand", filtered(binary("And", vec![positive()])), "one operand"),
        (
            "an aggregate in a filter",
            filtered(expression(ExprType::AggregateExpr(Default::default()))),
            "within an expression",
        ),
        (
            "a window in a projection",
            projected(expression(ExprType::WindowExpr(Default::default()))),
            "window functions",
        ),
        ("a hash", projected(expression(ExprType::HashExpr(PhysicalHashExprNode::default()))), "partitioning"),
        (
            "a sub-query",
            projected(expression(ExprType::ScalarSubquery(PhysicalScalarSubqueryExprNode::default()))),
            "sub-query",
        ),
        ("a dynamic filter", filtered(expression(ExprType::DynamicFilter(Box::new(dynamic)))), "dynamic filter"),
        ("a lambda", projected(expression(ExprType::Lambda(Default::default()))), "functions of functions"),
        ("a higher-order function", projected(expression(ExprType::HigherOrderUdf(higher))), "functions of functions"),
        ("a Bloom filter of nothing", bloom(vec![], vec![number()]), "0 bytes"),
        ("a Bloom filter of random bytes", bloom(vec![0xff; 70], vec![number()]), "does not decode"),
        (
            "a Bloom filter of another hash",
            bloom([&[0x0a, 32][..], &[0; 32]].concat(), vec![number()]),
            "hash function",
        ),
        ("a list of columns of text", list(vec![text()]), "list"),
        ("a list of a million", list(vec![literal(Value::BoolValue(true)); 140_000]), "expressions"),
        (
            "a pattern of numbers",
            filtered(expression(ExprType::LikeExpr(Box::new(PhysicalLikeExprNode {
                expr: Some(Box::new(number())),
                pattern: None,
                ..Default::default()
            })))),
            "missing or unknown",
        ),
    ]
}

/// Types, and what is said of them.
pub fn types() -> Vec<(&'static str, ArrowType, &'static str)> {
    let list = |inner| arrow(Type::List(Box::new(List { field_type: Some(Box::new(field("item", inner))) })));
    let array = |inner, list_size| {
        let field_type = Some(Box::new(field("item", inner)));
        arrow(Type::FixedSizeList(Box::new(FixedSizeList { field_type, list_size })))
    };
    let entries = arrow(Type::Struct(Struct { sub_field_types: vec![field("key", int64())] }));
    vec![
        ("bytes of negative length", arrow(Type::FixedSizeBinary(-1)), "has the size -1"),
        ("bytes of 2 GiB", arrow(Type::FixedSizeBinary(i32::MAX)), "passes the limit"),
        ("a list of negative length", array(int64(), -5), "has the size -5"),
        ("a list of 2^31", array(int64(), i32::MAX), "passes the limit"),
        ("lists of lists of 1000", array(array(int64(), 1000), 1000), "passes the limit"),
        ("30 lists", (0..26).fold(int64(), |inner, _| list(inner)), "nested deeper"),
        ("a list of nothing", arrow(Type::List(Box::default())), "lacks the type"),
        (
            "a map of singles",
            arrow(Type::Map(Box::new(Map { field_type: Some(Box::new(field("e", entries))), keys_sorted: false }))),
            "no pairs",
        ),
        (
            "a map of numbers",
            arrow(Type::Map(Box::new(Map { field_type: Some(Box::new(field("e", int64()))), keys_sorted: true }))),
            "no pairs",
        ),
        ("a union", arrow(Type::Union(Union { type_ids: vec![1, 2, 300], ..Union::default() })), "a union"),
        ("seconds in 64 bits", arrow(Type::Time64(0)), "a 64-bit time"),
        ("nanoseconds in 32 bits", arrow(Type::Time32(3)), "a 32-bit time"),
        ("no unit of time", arrow(Type::Time32(77)), "a 32-bit time"),
        ("a decimal of 200 digits", arrow(Type::Decimal128(Decimal128Type { precision: 200, scale: 0 })), "200 digits"),
        ("a decimal of no digits", arrow(Type::Decimal128(Decimal128Type { precision: 0, scale: 0 })), "0 digits"),
        ("a decimal of scale 100", arrow(Type::Decimal64(Decimal64Type { precision: 18, scale: 100 })), "18 digits"),
        (
            "a decimal of scale -2^31",
            arrow(Type::Decimal128(Decimal128Type { precision: 38, scale: i32::MIN })),
            "38 digits",
        ),
        (
            "a dictionary by text",
            arrow(Type::Dictionary(Box::new(Dictionary {
                key: Some(Box::new(text_view())),
                value: Some(Box::new(int64())),
            }))),
            "keys that are no integers",
        ),
        (
            "a zone of 1000 characters",
            arrow(Type::Timestamp(Timestamp { time_unit: 0, timezone: "x".repeat(1000) })),
            "is not a time zone",
        ),
        ("no type", ArrowType { arrow_type_enum: None }, "missing or unknown"),
    ]
}

/// Plans of honest clients.
pub fn allowed() -> Vec<(&'static str, PhysicalPlanNode)> {
    let int = |value| literal(Value::Int64Value(value));
    let any = (0..200).map(|n| binary("Eq", vec![number(), int(n)]));
    // As a compute node sends it: balanced, each level a chain of its left side.
    let mut terms: Vec<PhysicalExprNode> = any.collect();
    while terms.len() > 1 {
        terms = terms
            .chunks(4)
            .map(|chunk| if chunk.len() == 1 { chunk[0].clone() } else { binary("Or", chunk.to_vec()) })
            .collect();
    }
    let values = (0..10_000).map(int).collect();
    let listed = PhysicalInListNode { expr: Some(Box::new(number())), list: values, negated: false };
    vec![
        ("a scan", scan()),
        ("a filter", filtered(positive())),
        ("200 alternatives", filtered(terms.remove(0))),
        ("10 000 values", filtered(expression(ExprType::InList(Box::new(listed))))),
        ("20 NOTs", filtered((0..20).fold(positive(), |inner, _| not(inner)))),
        ("a projection", projected_all(vec![number(), text(), binary("Plus", vec![number(), int(1)])])),
        ("a function", projected(call("lower", vec![text()], text_view()))),
        ("a count", grouped(aggregate("count", vec![number()]))),
        ("groups", grouped(by_number())),
        ("a top-K", top(sorted(5))),
        (
            "a limit",
            plan(PhysicalPlanType::LocalLimit(Box::new(LocalLimitExecNode {
                input: Some(Box::new(scan())),
                fetch: 5,
                required_ordering: vec![],
            }))),
        ),
    ]
}
