//! Columns computed here against those of DataFusion's operator, over random batches.

use arrow::array::{
    Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, StringViewArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::{
    AggregateUDF, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, WindowUDF,
};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, StandardWindowFunctionExpr};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::windows::create_window_expr;
use hobt_base::SplitMix64;
use hobt_functions::aggregate::{Aggregate, AggregateKind};
use hobt_functions::carrier;
use hobt_types::{Collation, MaxLength, SqlType};
use hobt_udf::{SqlAggregate, sql_error_of};

use super::*;
use crate::held::tests::with_run;
use crate::spill_join::OnceStreamExec;

/// The columns that functions read, and their SQL types; the keys of partitions and of the order come before them.
const ARGUMENTS: [(&str, SqlType); 9] = [
    ("i", SqlType::Int),
    ("b", SqlType::BigInt),
    ("d", SqlType::Decimal { precision: 38, scale: 3 }),
    ("m", SqlType::Money),
    ("f", SqlType::Float),
    ("s", SqlType::VarChar(MaxLength::Limited(100))),
    ("t", SqlType::Date),
    ("u", SqlType::UniqueIdentifier),
    ("y", SqlType::SmallInt),
];

/// How rows are made.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    /// The most rows of a partition, of a group of peers and of a batch.
    partition: u64,
    peers: u64,
    batch: u64,
    /// Whether some values are NULL.
    has_nulls: bool,
    /// Whether sums may be out of range.
    is_large: bool,
}

/// A random number from 1 to `most`.
fn up_to(random: &mut SplitMix64, most: u64) -> usize {
    1 + random.below(most) as usize
}

/// The numbers of the partition and of the group of peers of each row; both grow.
fn groups(random: &mut SplitMix64, shape: Shape) -> Vec<(i64, i64)> {
    let mut groups = Vec::new();
    let (mut partition, mut peers) = (0, 0);
    while groups.len() < shape.rows {
        let end = groups.len() + up_to(random, shape.partition);
        while groups.len() < end {
            let rows = up_to(random, shape.peers).min(end - groups.len());
            groups.extend(std::iter::repeat_n((partition, peers), rows));
            peers += 1;
        }
        partition += 1;
    }
    groups.truncate(shape.rows);
    groups
}

fn argument(random: &mut SplitMix64, sql_type: SqlType, shape: Shape) -> ArrayRef {
    let mut number = |most: u64| -> Option<i64> {
        let value = random.below(2 * most) as i64 - most as i64;
        (!shape.has_nulls || random.below(4) > 0).then_some(value)
    };
    let size = |small: u64, large: u64| if shape.is_large { large } else { small };
    let rows = 0..shape.rows;
    let decimal = |numbers: Vec<Option<i128>>| {
        Arc::new(Decimal128Array::from(numbers).with_data_type(carrier(sql_type))) as ArrayRef
    };
    match sql_type {
        SqlType::SmallInt => {
            let numbers = rows.map(|_| number(1 << 14).map(|number| number as i16));
            Arc::new(numbers.collect::<arrow::array::Int16Array>())
        }
        SqlType::Int => {
            let most = size(1000, 1 << 30);
            Arc::new(rows.map(|_| number(most).map(|number| number as i32)).collect::<Int32Array>())
        }
        SqlType::BigInt => {
            let most = size(1 << 40, 1 << 61);
            Arc::new(rows.map(|_| number(most)).collect::<Int64Array>())
        }
        SqlType::Money => {
            let most = size(1 << 40, 1 << 61);
            decimal(rows.map(|_| number(most).map(i128::from)).collect())
        }
        SqlType::Decimal { .. } => {
            let factor = if shape.is_large { 90_000_000_000_000_000_000 } else { 1000 };
            decimal(rows.map(|_| number(1_000_000_000_000_000_000).map(|number| i128::from(number) * factor)).collect())
        }
        SqlType::Float => {
            // Sums of these are exact, in whatever order.
            let factor = if shape.is_large { 2f64.powi(1012) } else { 0.25 };
            Arc::new(rows.map(|_| number(2000).map(|number| number as f64 * factor)).collect::<Float64Array>())
        }
        SqlType::Date => Arc::new(rows.map(|_| number(1000).map(|number| number as i32)).collect::<Date32Array>()),
        SqlType::UniqueIdentifier => {
            let guids = rows.map(|_| number(1 << 40).map(|number| i128::from(number).to_le_bytes()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(guids, 16).expect("guids"))
        }
        _ => {
            let text = |number: i64| ["a", "B", "é", "Bb"][number.rem_euclid(4) as usize].repeat(number as usize % 9);
            Arc::new(rows.map(|_| number(4000).map(text)).collect::<StringViewArray>())
        }
    }
}

/// Sorted rows in batches, some of them empty: partition `p`, order `o`, and the arguments.
fn batches(random: &mut SplitMix64, shape: Shape, has_text_keys: bool) -> (SchemaRef, Vec<RecordBatch>) {
    let groups = groups(random, shape);
    let key = |number: i64| -> Option<i64> { (number > 0).then_some(number) };
    let as_key = |numbers: Vec<Option<i64>>| -> ArrayRef {
        match has_text_keys {
            true => {
                let text = |number: i64| format!("the key of these is {number:09}");
                Arc::new(numbers.into_iter().map(|number| number.map(text)).collect::<StringViewArray>())
            }
            false => Arc::new(Int64Array::from(numbers)),
        }
    };
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("p".into(), as_key(groups.iter().map(|(partition, _)| key(*partition)).collect())),
        ("o".into(), as_key(groups.iter().map(|(_, peers)| key(*peers)).collect())),
    ];
    for (name, sql_type) in ARGUMENTS {
        columns.push((name.into(), argument(random, sql_type, shape)));
    }
    let field = |(name, column): &(String, ArrayRef)| Field::new(name, column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let all = columns.into_iter().map(|(_, column)| column).collect();
    let all = RecordBatch::try_new(Arc::clone(&schema), all).expect("rows");
    let (mut batches, mut at) = (Vec::new(), 0);
    while at < shape.rows {
        if random.below(5) == 0 {
            batches.push(all.slice(at, 0));
        }
        let rows = up_to(random, shape.batch).min(shape.rows - at);
        batches.push(all.slice(at, rows));
        at += rows;
    }
    (schema, batches)
}

/// Makes windows over rows of a schema.
struct Maker {
    schema: SchemaRef,
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    order_by: Vec<PhysicalSortExpr>,
}

impl Maker {
    fn new(schema: &SchemaRef, has_partitions: bool) -> Maker {
        let key = |name| Arc::new(Column::new_with_schema(name, schema).expect("a key")) as Arc<dyn PhysicalExpr>;
        let partition_by = if has_partitions { vec![key("p")] } else { Vec::new() };
        Maker { schema: Arc::clone(schema), partition_by, order_by: vec![PhysicalSortExpr::new_default(key("o"))] }
    }

    fn column(&self, name: &str) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new_with_schema(name, &self.schema).expect("a column"))
    }

    fn window(
        &self,
        function: &WindowFunctionDefinition,
        arguments: &[Arc<dyn PhysicalExpr>],
        units: WindowFrameUnits,
        ignores_nulls: bool,
    ) -> Arc<dyn WindowExpr> {
        let start = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
        let frame = Arc::new(WindowFrame::new_bounds(units, start, WindowFrameBound::CurrentRow));
        let (name, schema) = ("w".to_owned(), Arc::clone(&self.schema));
        let (keys, order) = (&self.partition_by, &self.order_by);
        create_window_expr(function, name, arguments, keys, order, frame, schema, ignores_nulls, false, None)
            .expect("a window")
    }

    fn aggregate(&self, kind: AggregateKind, at: usize, units: WindowFrameUnits) -> Option<Arc<dyn WindowExpr>> {
        let (name, sql_type) = ARGUMENTS[at];
        let aggregate = Aggregate::new(kind, sql_type, Collation::Latin1GeneralCiAs).ok()?;
        let function =
            WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(SqlAggregate::new(aggregate))));
        Some(self.window(&function, &[self.column(name)], units, false))
    }

    fn ranking(&self, function: Arc<WindowUDF>) -> Arc<dyn WindowExpr> {
        self.window(&WindowFunctionDefinition::WindowUDF(function), &[], WindowFrameUnits::Range, false)
    }

    fn shift(
        &self,
        function: Arc<WindowUDF>,
        (name, offset): (&str, i64),
        default: Option<ScalarValue>,
        ignores_nulls: bool,
    ) -> Arc<dyn WindowExpr> {
        let literal = |value| Arc::new(Literal::new(value)) as Arc<dyn PhysicalExpr>;
        let mut arguments = vec![self.column(name), literal(ScalarValue::Int64(Some(offset)))];
        arguments.extend(default.map(literal));
        let function = WindowFunctionDefinition::WindowUDF(function);
        self.window(&function, &arguments, WindowFrameUnits::Range, ignores_nulls)
    }

    /// All aggregates of all arguments, with one kind of frame.
    fn aggregates(&self, units: WindowFrameUnits) -> Vec<Arc<dyn WindowExpr>> {
        use AggregateKind::{Avg, Count, CountBig, Max, Min, Sum};
        let kinds = [Count, CountBig, Sum, Avg, Min, Max];
        let pairs = kinds.into_iter().flat_map(|kind| (0..ARGUMENTS.len()).map(move |at| (kind, at)));
        pairs.filter_map(|(kind, at)| self.aggregate(kind, at, units)).collect()
    }

    /// The ranking functions, and `LAG` and `LEAD` with several offsets and defaults.
    fn others(&self) -> Vec<Arc<dyn WindowExpr>> {
        let mut windows: Vec<_> =
            [row_number_udwf(), rank_udwf(), dense_rank_udwf()].into_iter().map(|rank| self.ranking(rank)).collect();
        let text = || Some(ScalarValue::Utf8View(Some("none".into())));
        for offset in [0, 1, 3, 40, 400] {
            windows.push(self.shift(lag_udwf(), ("b", offset), None, false));
            windows.push(self.shift(lag_udwf(), ("b", offset), Some(ScalarValue::Int64(Some(-7))), false));
            windows.push(self.shift(lag_udwf(), ("s", offset), None, false));
            windows.push(self.shift(lag_udwf(), ("s", offset), text(), false));
            windows.push(self.shift(lag_udwf(), ("u", offset), None, false));
            windows.push(self.shift(lead_udwf(), ("b", offset), None, false));
            windows.push(self.shift(lead_udwf(), ("b", offset), Some(ScalarValue::Int64(Some(-7))), false));
            windows.push(self.shift(lead_udwf(), ("s", offset), text(), false));
        }
        for offset in [1, 3] {
            // Where rows come in the opposite order, each is the other.
            for function in [lag_udwf(), lead_udwf()] {
                let shift = self.shift(function, ("t", offset), None, false);
                let reversed = shift.get_reverse_expr().and_then(|shift| shift.as_any().downcast_ref().map(plain));
                windows.push(self.with_keys(&reversed.expect("a function")));
            }
        }
        windows.push(self.shift(lag_udwf(), ("m", 1), Some(ScalarValue::Decimal128(Some(10_000), 19, 4)), false));
        windows
    }

    /// A function over rows in the order of these keys.
    fn with_keys(&self, function: &Arc<dyn StandardWindowFunctionExpr>) -> Arc<dyn WindowExpr> {
        let frame = Arc::new(WindowFrame::new(Some(false)));
        Arc::new(StandardWindowExpr::new(Arc::clone(function), &self.partition_by, &self.order_by, frame))
    }

    /// An operator over batches, which it reads once.
    fn operator(&self, windows: &[Arc<dyn WindowExpr>], batches: &[RecordBatch]) -> BoundedWindowAggExec {
        let keys = self.partition_by.iter().map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
        let order = LexOrdering::new(keys.chain(self.order_by.iter().cloned()));
        let properties = EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), order);
        let stream = futures::stream::iter(batches.iter().cloned().map(Ok).collect::<Vec<_>>());
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream));
        let source = OnceStreamExec::once_in_order(properties, stream);
        BoundedWindowAggExec::try_new(windows.to_vec(), source, InputOrderMode::Sorted, false).expect("an operator")
    }
}

fn plain(window: &StandardWindowExpr) -> Arc<dyn StandardWindowFunctionExpr> {
    Arc::clone(window.get_standard_func_expr())
}

/// The batches of a stream, or the number of its error.
fn read(rows: impl Future<Output = Result<Vec<RecordBatch>>>) -> Result<Vec<RecordBatch>, i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(rows).map_err(|error| sql_error_of(error).number)
}

/// The rows of an operator, computed here.
fn computed(operator: &BoundedWindowAggExec, run: &Arc<StatementRun>) -> Result<Vec<RecordBatch>, i32> {
    let stream = rows(operator, 0, &Arc::new(TaskContext::default()), run, &Time::new()).expect("a plan");
    read(stream.expect("functions that are computed here").try_collect())
}

fn check(maker: &Maker, windows: &[Arc<dyn WindowExpr>], batches: &[RecordBatch], run: &Arc<StatementRun>, of: &str) {
    let operator = maker.operator(windows, batches);
    let expected = read(collect(Arc::new(operator), Arc::new(TaskContext::default())));
    let operator = maker.operator(windows, batches);
    let found = computed(&operator, run);
    let all = |batches: Vec<RecordBatch>| concat_batches(&operator.schema(), &batches).expect("one batch");
    let most = batches.iter().map(RecordBatch::num_rows).max().unwrap_or(0);
    if let Ok(found) = &found {
        let is_within = |batch: &RecordBatch| (1..=most).contains(&batch.num_rows());
        assert!(found.iter().all(is_within), "{of}: batches of other sizes");
    }
    let (found, expected) = (found.map(all), expected.map(all));
    match (&found, &expected) {
        (Ok(found), Ok(expected)) => {
            for (at, (found, expected)) in found.columns().iter().zip(expected.columns()).enumerate() {
                let window = at.checked_sub(maker.schema.fields().len()).map(|at| &windows[at]);
                assert!(found == expected, "{of}: column {at}, {window:?}\n{found:?}\n{expected:?}");
            }
        }
        _ => assert_eq!(found.err(), expected.err(), "{of}"),
    }
}

/// From partitions of one row to one of all, and from peers of one row to more than a batch.
const SHAPES: [(u64, u64, u64); 7] =
    [(1, 1, 10), (7, 3, 10), (60, 1, 1), (60, 40, 7), (300, 3, 64), (300, 1, 100), (1000, 100, 20)];

#[test]
fn columns_are_those_of_datafusions_operator() {
    with_run("running", |_, run| {
        let mut random = SplitMix64::new(11);
        for (at, (partition, peers, batch)) in SHAPES.into_iter().enumerate() {
            for case in 0..4 {
                let (has_nulls, has_partitions) = (case % 2 == 0, case / 2 == at % 2);
                let shape = Shape { rows: 250, partition, peers, batch, has_nulls, is_large: false };
                let (schema, batches) = batches(&mut random, shape, (at + case) % 3 == 0);
                let maker = Maker::new(&schema, has_partitions);
                let of = format!("{shape:?} {has_partitions}");
                check(&maker, &maker.aggregates(WindowFrameUnits::Rows), &batches, run, &of);
                check(&maker, &maker.aggregates(WindowFrameUnits::Range), &batches, run, &of);
                check(&maker, &maker.others(), &batches, run, &of);
                let mut mixed = maker.others();
                mixed.insert(1, maker.aggregate(AggregateKind::Max, 5, WindowFrameUnits::Range).expect("MAX"));
                mixed.insert(4, maker.aggregate(AggregateKind::Sum, 0, WindowFrameUnits::Rows).expect("SUM"));
                mixed.push(maker.aggregate(AggregateKind::Sum, 2, WindowFrameUnits::Range).expect("SUM"));
                check(&maker, &mixed, &batches, run, &of);
            }
        }
    });
}

/// A sum that is out of range between two peers counts only if it is so for the last of them.
#[test]
fn sums_overflow_where_datafusions_operator_says_so() {
    with_run("overflows", |_, run| {
        let mut random = SplitMix64::new(12);
        let (mut errors, mut checked) = (0, 0);
        for (partition, peers, batch, rows) in [(4, 4, 10, 12), (6, 6, 3, 12), (3, 1, 10, 9), (8, 8, 2, 8)] {
            for _ in 0..12 {
                let shape = Shape { rows, partition, peers, batch, has_nulls: false, is_large: true };
                let (schema, batches) = batches(&mut random, shape, false);
                let maker = Maker::new(&schema, true);
                for units in [WindowFrameUnits::Rows, WindowFrameUnits::Range] {
                    for kind in [AggregateKind::Sum, AggregateKind::Avg] {
                        // Whether 128 bits, or a float, overflow between two peers depends on how these are added.
                        let has_floats = units == WindowFrameUnits::Rows || peers == 1;
                        for at in [0, 1, 3].into_iter().chain(has_floats.then_some(4)) {
                            let windows = [maker.aggregate(kind, at, units).expect("a sum")];
                            check(&maker, &windows, &batches, run, &format!("{shape:?} {kind:?} {at}"));
                            let found = computed(&maker.operator(&windows, &batches), run);
                            errors += usize::from(found == Err(8115));
                            checked += 1;
                        }
                    }
                }
            }
        }
        assert!((checked / 20..checked * 19 / 20).contains(&errors), "{errors} of {checked} overflow");
    });
}

#[test]
fn sums_beyond_38_digits_and_beyond_128_bits_overflow() {
    with_run("digits", |_, run| {
        const NINES: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;
        let schema = Arc::new(Schema::new(vec![
            Field::new("o", DataType::Int64, true),
            Field::new("d", carrier(ARGUMENTS[2].1), true),
        ]));
        let maker = Maker::new(&schema, false);
        for (orders, numbers, by_row, by_peers) in [
            ([1, 2, 3], [NINES, -1, 1], Ok(()), Ok(())),
            ([1, 2, 3], [NINES, 1, -1], Err(8115), Err(8115)),
            ([1, 1, 1], [NINES, 1, -1], Err(8115), Ok(())),
            ([1, 1, 1], [NINES, NINES, -NINES], Err(8115), Err(8115)),
        ] {
            let numbers = Decimal128Array::from(numbers.to_vec()).with_data_type(carrier(ARGUMENTS[2].1));
            let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(orders.to_vec())), Arc::new(numbers)];
            let batches = [RecordBatch::try_new(Arc::clone(&schema), columns).expect("rows")];
            for (units, expected) in [(WindowFrameUnits::Rows, by_row), (WindowFrameUnits::Range, by_peers)] {
                let window = maker.aggregate(AggregateKind::Sum, 2, units).expect("a sum");
                let found = computed(&maker.operator(&[window], &batches), run);
                assert_eq!(found.map(drop), expected, "{orders:?} {units:?}");
            }
        }
    });
}

#[test]
fn other_functions_are_left_to_datafusion() {
    let shape = Shape { rows: 1, partition: 1, peers: 1, batch: 1, has_nulls: false, is_large: false };
    let (schema, batches) = batches(&mut SplitMix64::new(13), shape, false);
    let maker = Maker::new(&schema, true);
    let taken = |window: Arc<dyn WindowExpr>| can_run(&maker.operator(&[window], &batches)).expect("known");
    for offset in [0, 1, 2, 3, 1024, 1025, 5000] {
        for (name, function) in [("LAG", lag_udwf()), ("LEAD", lead_udwf())] {
            let shift = |ignores_nulls| maker.shift(Arc::clone(&function), ("s", offset), None, ignores_nulls);
            assert_eq!(taken(shift(false)), offset <= 1024, "{name} {offset}");
            let reversed = shift(false).get_reverse_expr().expect("the opposite order");
            assert_eq!(taken(reversed), offset <= 1024, "{name} {offset}, reversed");
            assert!(!taken(shift(true)), "{name} {offset} IGNORE NULLS");
        }
    }
    let sum = maker.aggregate(AggregateKind::Sum, 0, WindowFrameUnits::Rows).expect("a sum");
    let reversed = sum.get_reverse_expr();
    assert!(taken(sum));
    assert!(reversed.is_none_or(|reversed| !taken(reversed)), "its frame ends with the partition");
    assert!(!taken(maker.aggregate(AggregateKind::Stdev, 0, WindowFrameUnits::Rows).expect("a deviation")));
}

/// All rows have the value of the last of them, and come in the batches in which they went in.
#[test]
fn peers_of_more_than_the_memory_wait_on_disk() {
    with_run("peers", |instance, run| {
        let schema = Arc::new(Schema::new(vec![
            Field::new("o", DataType::Int64, true),
            Field::new("b", DataType::Int64, true),
            Field::new("s", DataType::Utf8View, true),
        ]));
        let maker = Maker::new(&schema, false);
        let batch = |number: i64| {
            let ones = Int64Array::from(vec![1; 1000]);
            let texts: StringViewArray = (0..1000).map(|_| Some(format!("{number:090}"))).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(ones.clone()), Arc::new(ones), Arc::new(texts)];
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("rows")
        };
        let batches: Vec<RecordBatch> = (0..200).map(batch).collect();
        let before = instance.spills().transfers().writes.bytes;
        let windows = [
            maker.aggregate(AggregateKind::Sum, 1, WindowFrameUnits::Range).expect("a sum"),
            maker.ranking(row_number_udwf()),
        ];
        let found = computed(&maker.operator(&windows, &batches), run).expect("rows");
        assert!(instance.spills().transfers().writes.bytes - before > 10 << 20, "they were on disk");
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), vec![1000; 200]);
        let all = concat_batches(&found[0].schema(), &found).expect("one batch");
        let sums: ArrayRef = Arc::new(Int64Array::from(vec![200_000; 200_000]));
        let numbers: ArrayRef = Arc::new(arrow::array::UInt64Array::from_iter_values(1..=200_000));
        assert!(all.column(3) == &sums && all.column(4) == &numbers);
    });
}
