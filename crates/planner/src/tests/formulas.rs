//! A formula has the same results as the binder's own evaluation, values and errors, for every value of its variables.

use std::cell::OnceCell;

use hobt_base::SqlError;
use hobt_functions::FunctionContext;
use hobt_types::{MaxLength, SqlType, TypedValue, Value};

use super::world::World;
use hobt_binder::formula::compile;
use hobt_binder::{BindOptions, Binder, Given};

struct Values<'a> {
    variables: &'a [(&'static str, SqlType, Value)],
    now: OnceCell<FunctionContext>,
}

impl Given for Values<'_> {
    fn variable(&self, place: usize) -> &Value {
        &self.variables[place].2
    }

    fn global(&self, _: &str) -> Option<TypedValue> {
        None
    }

    fn now(&self) -> &FunctionContext {
        self.now.get_or_init(FunctionContext::now)
    }
}

/// Sets of variable values; every expression is evaluated with each set.
fn worlds() -> Vec<Vec<(&'static str, SqlType, Value)>> {
    let text = SqlType::VarChar(MaxLength::Limited(30));
    let decimal = SqlType::Decimal { precision: 9, scale: 2 };
    let set = |i: Value, b: Value, t: Value, d: Value, m: Value, f: Value, s: Value, g: Value| {
        vec![
            ("@i", SqlType::Int, i),
            ("@b", SqlType::BigInt, b),
            ("@t", SqlType::TinyInt, t),
            ("@d", decimal, d),
            ("@m", SqlType::Money, m),
            ("@f", SqlType::Float, f),
            ("@s", text, s),
            ("@g", SqlType::UniqueIdentifier, g),
        ]
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let int = Value::Int;
    vec![
        set(
            int(7),
            int(-3),
            int(200),
            Value::Decimal(150),
            int(12_345),
            Value::Float(0.5),
            text("abc"),
            Value::Guid([1; 16]),
        ),
        set(int(0), int(0), int(0), Value::Decimal(0), int(0), Value::Float(-0.0), text(""), Value::Guid([0; 16])),
        set(
            int(i64::from(i32::MAX)),
            int(i64::MIN),
            int(255),
            Value::Decimal(-999_999_999),
            int(-1),
            Value::Float(1e300),
            text("ABC "),
            Value::Guid([255; 16]),
        ),
        set(
            int(i64::from(i32::MIN)),
            int(i64::MAX),
            int(1),
            Value::Decimal(1),
            int(i64::MAX),
            Value::Float(3.0),
            text("42"),
            Value::Null,
        ),
        set(Value::Null, Value::Null, Value::Null, Value::Null, Value::Null, Value::Null, Value::Null, Value::Null),
    ]
}

const EXPRESSIONS: &[&str] = &[
    "@i + 1",
    "@i - @b",
    "@i * @i",
    "@i / @t",
    "@i % @t",
    "@b / -1",
    "@b % -1",
    "@t - 1",
    "@t + @t",
    "-@i",
    "-@b",
    "~@t",
    "~@i",
    "@i & 6 | 1 ^ @t",
    "@i + 1.5",
    "@d * @d",
    "@d / @i",
    "@m + 1",
    "@m * @d",
    "@m / 3",
    "@f * 2",
    "@f / 0",
    "@i + @f",
    "@d + @f",
    "@s + 'x'",
    "@i + @s",
    "CAST(@i AS tinyint)",
    "CAST(@b AS int)",
    "CAST(@b AS smallint)",
    "TRY_CAST(@b AS tinyint)",
    "CAST(@i AS bit)",
    "CAST(@i AS bigint) * 1000000",
    "CAST(@i AS decimal(20, 3))",
    "CAST(@d AS decimal(20, 6))",
    "CAST(@m AS int)",
    "CAST(@d AS money)",
    "CAST(@f AS int)",
    "CAST(@i AS float)",
    "CAST(@i AS varchar(5))",
    "CAST(@g AS varchar(36))",
    "CAST(@s AS int)",
    "TRY_CAST(@s AS int)",
    "CONVERT(varchar(20), @m, 1)",
    "CASE WHEN @i > 5 THEN 'big' WHEN @i IS NULL THEN 'none' ELSE @s END",
    "CASE @i WHEN 7 THEN 1 WHEN 0 THEN 2.5 END",
    "COALESCE(@i, @b, -1)",
    "ISNULL(@s, 'nothing')",
    "NULLIF(@i, 7)",
    "IIF(@i = 7 AND @b < 0, @i, @b)",
    "CHOOSE(@t, 'a', 'b')",
    "IIF(@s = 'abc', 1, 0)",
    "IIF(@s LIKE 'a%', 1, 0)",
    "IIF(@s IN ('x', 'ABC', @s), 1, 0)",
    "IIF(@i NOT IN (1, 2, @b), 1, 0)",
    "IIF(@i IN (7, NULL), 1, 0)",
    "IIF(NOT (@i = 7 OR @b > 0), 1, 0)",
    "IIF(@i IS DISTINCT FROM @b, 1, 0)",
    "IIF(@i IS NOT DISTINCT FROM NULL, 1, 0)",
    "IIF(@i BETWEEN 0 AND 10, 1, 0)",
    "IIF(@d < @i, 1, 0)",
    "IIF(@d >= @m, 1, 0)",
    "IIF(@f = 0, 1, 0)",
    "IIF(@g > '00000000-0000-0000-0000-000000000000', 1, 0)",
    "IIF(@i <> @t OR @i / @t = 1, 1, 0)",
    "IIF(@t <> 0 AND @i / @t = 0, 1, 0)",
    "LEN(@s)",
    "UPPER(@s) + LEFT(@s, 2)",
    "SUBSTRING(@s, @t, 2)",
    "ABS(@i)",
    "ABS(@b)",
    "ROUND(@d, 1)",
    "POWER(@f, 2)",
    "SQRT(@f)",
    "REVERSE(@s)",
    "DATEADD(day, @t, '20240101')",
    "DATEDIFF(day, '20240101', DATEADD(day, @t, '20240101'))",
    "REPLICATE(@s, 3)",
    "CHECKSUM(@i, @s)",
    "HASHBYTES('MD5', @s)",
    "(SELECT 1)",
    "1 + 2 * 3",
    "'a' + 'b'",
    "NULL",
];

#[test]
fn a_formula_gives_what_the_binder_gives() {
    let mut compiled = 0;
    for variables in worlds() {
        let mut world = World::new();
        for (name, sql_type, value) in &variables {
            world.set(name, *sql_type, value.clone());
        }
        let place_of = |wanted: &str| variables.iter().position(|(name, ..)| *name == wanted);
        for text in EXPRESSIONS {
            let expression = hobt_tsql::parse_expression(text).unwrap();
            let open = Binder::new(&world, BindOptions { keeps_variables: true, ..BindOptions::default() });
            let Ok(bound) = open.bind_scalar(&expression) else { continue };
            let Some(formula) = compile(&bound, &place_of).filter(|_| open.is_timeless()) else {
                assert_eq!(*text, "(SELECT 1)", "no formula");
                continue;
            };
            compiled += 1;
            let closed = Binder::new(&world, BindOptions::default());
            let expected = closed.bind_scalar(&expression).and_then(|bound| {
                let value = closed.evaluate(&bound)?;
                Ok((value, bound.sql_type))
            });
            let found = formula.evaluate(&Values { variables: &variables, now: OnceCell::new() });
            match (expected, found) {
                (Ok((expected, sql_type)), Ok(found)) => {
                    assert_eq!((found, formula.sql_type()), (expected, sql_type), "{text} of {variables:?}");
                }
                (Err(expected), Err(found)) => {
                    let at = |error: &SqlError| (error.number, error.position, error.message.clone());
                    assert_eq!(at(&found), at(&expected), "{text} of {variables:?}");
                }
                (expected, found) => panic!("{text} of {variables:?}: {found:?}, and not {expected:?}"),
            }
        }
    }
    assert!(compiled > 300, "only {compiled} formulas");
}

#[test]
fn a_formula_takes_the_time_of_its_evaluation() {
    let world = World::new();
    let open = Binder::new(&world, BindOptions { keeps_variables: true, ..BindOptions::default() });
    let bound = open.bind_scalar(&hobt_tsql::parse_expression("SYSUTCDATETIME()").unwrap()).unwrap();
    let formula = compile(&bound, &|_| None).unwrap();
    let at = |now_utc: i64| {
        let context = FunctionContext { now_local: now_utc, now_utc, random_seed: 0 };
        formula.evaluate(&Values { variables: &[], now: OnceCell::from(context) }).unwrap()
    };
    assert_eq!(at(10), Value::Int(10));
    assert_eq!(at(30), Value::Int(30));
}

#[test]
fn each_mention_of_rand_draws_a_number_of_its_own() {
    let world = World::new();
    let open = Binder::new(&world, BindOptions { keeps_variables: true, ..BindOptions::default() });
    let bound = open.bind_scalar(&hobt_tsql::parse_expression("RAND() - RAND()").unwrap()).unwrap();
    let formula = compile(&bound, &|_| None).unwrap();
    let now = || formula.evaluate(&Values { variables: &[], now: OnceCell::new() }).unwrap();
    let (first, second) = (now(), now());
    assert_ne!(first, Value::Float(0.0));
    assert_ne!(first, second);
}
