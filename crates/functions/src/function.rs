//! Scalar functions as the binder and the executor see them: name, arity, result type, evaluation.
//!
//! The functions themselves are in folders by subject; [`lookup`] finds them. `CAST`, `CONVERT`, `CASE` and `IIF` are
//! expressions of the binder.

use std::cell::Cell;

use arrow::array::ArrayRef;
use hobt_base::{SqlError, errors};
use hobt_types::{Collation, SqlType, Value};

use crate::column::Column;
use crate::date::DatePart;

/// What the binder knows about an argument.
#[derive(Clone, Debug)]
pub struct ArgType {
    /// The type; an untyped NULL is `int` with `literal` [`Value::Null`].
    pub sql_type: SqlType,
    /// The value, if the argument is a constant.
    pub literal: Option<Value>,
    /// The collation of a text argument.
    pub collation: Collation,
}

impl ArgType {
    /// An argument that is not a constant, with the default collation.
    pub fn new(sql_type: SqlType) -> ArgType {
        ArgType { sql_type, literal: None, collation: Collation::default() }
    }

    /// Whether this is the constant NULL without a type of its own (`CAST(NULL AS varchar(2))` has one).
    pub fn is_null_literal(&self) -> bool {
        self.sql_type == SqlType::Int && matches!(self.literal, Some(Value::Null))
    }
}

/// An argument at run time.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The values, in the carrier of `sql_type`.
    pub column: Column,
    /// The type.
    pub sql_type: SqlType,
}

/// What all calls in one statement share.
#[derive(Clone, Debug)]
pub struct FunctionContext {
    /// The statement's time in the server's zone, 100 ns since 1970-01-01.
    pub now_local: i64,
    /// The statement's time in UTC, 100 ns since 1970-01-01.
    pub now_utc: i64,
    /// A seed that differs from statement to statement; `RAND()` without a seed uses it.
    pub random_seed: u64,
}

impl FunctionContext {
    /// The machine's time and a fresh seed.
    pub fn now() -> FunctionContext {
        let utc = chrono::Utc::now();
        let now_utc = utc.timestamp() * 10_000_000 + i64::from(utc.timestamp_subsec_nanos() / 100);
        let offset = offset_at(utc.timestamp());
        FunctionContext { now_local: now_utc + i64::from(offset) * 10_000_000, now_utc, random_seed: rand::random() }
    }

    /// Like this context, with the same time and a fresh seed.
    #[must_use]
    pub fn reseeded(&self) -> FunctionContext {
        FunctionContext { random_seed: rand::random(), ..self.clone() }
    }
}

/// The zone's offset in seconds east of UTC. It is read once a second, because reading it costs more than reading the
/// time.
fn offset_at(second: i64) -> i32 {
    thread_local! {
        static KNOWN: Cell<(i64, i32)> = const { Cell::new((i64::MIN, 0)) };
    }
    KNOWN.with(|known| {
        if known.get().0 != second {
            known.set((second, chrono::Local::now().offset().local_minus_utc()));
        }
        known.get().1
    })
}

/// One call of a function over a batch.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments, at least [`FunctionDef::min_args`].
    pub args: &'a [Argument],
    /// The number of rows of the batch, and of the result.
    pub rows: usize,
    /// The type returned by [`FunctionDef::result_type`].
    pub result_type: SqlType,
    /// The collation under which text compares.
    pub collation: Collation,
    /// The part of `DATEADD(part, …)` and its like.
    pub date_part: Option<DatePart>,
    /// The statement's context.
    pub context: &'a FunctionContext,
}

/// How often a function returns a new value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    /// Equal arguments return equal values: constants can be folded.
    Immutable,
    /// One value per statement (`GETDATE()`).
    Statement,
    /// One value for each occurrence in a statement (`RAND()`): it is evaluated once before the rows.
    OncePerReference,
    /// A value per row (`NEWID()`).
    Volatile,
}

/// Determines the type of a call from the types of its arguments.
pub type ResultType = fn(&[ArgType]) -> Result<SqlType, SqlError>;

/// Evaluates a call over a batch: returns an array of [`Call::rows`] values in the carrier of [`Call::result_type`].
pub type Evaluate = fn(&Call<'_>) -> Result<ArrayRef, SqlError>;

/// A scalar function.
#[derive(Clone, Copy, Debug)]
pub struct FunctionDef {
    /// The name in capitals.
    pub name: &'static str,
    /// The minimum number of arguments, without a date part.
    pub min_args: usize,
    /// The maximum number of arguments, without a date part.
    pub max_args: usize,
    /// Whether the first item in the parentheses is a date part (`DATEADD(day, …)`).
    pub takes_date_part: bool,
    /// How often it returns a new value.
    pub volatility: Volatility,
    /// The type of its result.
    pub result_type: ResultType,
    /// Its evaluation.
    pub evaluate: Evaluate,
    /// Evaluates a single value without a batch, for some functions without arguments.
    pub one: Option<EvaluateOne>,
}

/// The value of a function without arguments, computed without a batch.
pub type EvaluateOne = fn(&FunctionContext) -> Value;

impl FunctionDef {
    pub(crate) const fn new(
        name: &'static str,
        arity: (usize, usize),
        result_type: ResultType,
        evaluate: Evaluate,
    ) -> FunctionDef {
        FunctionDef {
            name,
            min_args: arity.0,
            max_args: arity.1,
            takes_date_part: false,
            volatility: Volatility::Immutable,
            result_type,
            evaluate,
            one: None,
        }
    }

    pub(crate) const fn with_one(mut self, one: EvaluateOne) -> FunctionDef {
        self.one = Some(one);
        self
    }

    pub(crate) const fn with_date_part(mut self) -> FunctionDef {
        self.takes_date_part = true;
        self
    }

    pub(crate) const fn with_volatility(mut self, volatility: Volatility) -> FunctionDef {
        self.volatility = volatility;
        self
    }

    /// Checks the number of arguments (without a date part).
    ///
    /// # Errors
    /// 174 or 189 with SQL Server's text.
    pub fn check_arity(&self, count: usize) -> Result<(), SqlError> {
        if (self.min_args..=self.max_args).contains(&count) {
            return Ok(());
        }
        let extra = usize::from(self.takes_date_part);
        let (min, max) = (self.min_args + extra, self.max_args.saturating_add(extra));
        let name = self.name.to_lowercase();
        Err(if self.max_args == usize::MAX {
            errors::FUNCTION_ARGUMENTS_MIN.with([&name, &min])
        } else if min == max {
            errors::FUNCTION_ARGUMENT_COUNT.with([&name, &min])
        } else {
            errors::FUNCTION_ARGUMENT_RANGE.with([&name, &min, &max])
        })
    }
}

/// The function named `name`, ignoring case; `None` if there is none.
pub fn lookup(name: &str) -> Option<&'static FunctionDef> {
    all().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// All functions.
pub fn all() -> impl Iterator<Item = &'static FunctionDef> {
    crate::TABLES.iter().flat_map(|table| table.iter())
}
