//! What a scalar function is to the binder and the executor: its name, its arity, its result type, its evaluation.
//!
//! The functions themselves live in the folders of their subject; [`lookup`] finds them. `CAST`, `CONVERT`, `CASE` and
//! `IIF` are expressions of the binder's own.

use std::cell::Cell;

use arrow::array::ArrayRef;
use hobt_base::{SqlError, number};
use hobt_types::{Collation, SqlType, Value};

use crate::column::Column;
use crate::date::DatePart;

/// What the binder knows of an argument.
#[derive(Clone, Debug)]
pub struct ArgType {
    /// The type; an untyped NULL is `int` with `literal` [`Value::Null`].
    pub sql_type: SqlType,
    /// The value, when the argument is a constant.
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

/// An argument when the function runs.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The values, in the carrier of `sql_type`.
    pub column: Column,
    /// The type.
    pub sql_type: SqlType,
}

/// What all calls of one statement share.
#[derive(Clone, Debug)]
pub struct FunctionContext {
    /// The statement's time in the server's zone, 100 ns since 1970-01-01.
    pub now_local: i64,
    /// The statement's time in UTC, 100 ns since 1970-01-01.
    pub now_utc: i64,
    /// A seed that differs from statement to statement; `RAND()` without a seed draws from it.
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

    /// The same time with a fresh seed.
    #[must_use]
    pub fn reseeded(&self) -> FunctionContext {
        FunctionContext { random_seed: rand::random(), ..self.clone() }
    }
}

/// The zone's seconds east of UTC, which is asked for once a second: asking costs more than the time itself.
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
    /// Rows of the batch, and of the result.
    pub rows: usize,
    /// The type that [`FunctionDef::result_type`] gave.
    pub result_type: SqlType,
    /// The collation under which text compares.
    pub collation: Collation,
    /// The part of `DATEADD(part, …)` and its like.
    pub date_part: Option<DatePart>,
    /// The statement's context.
    pub context: &'a FunctionContext,
}

/// How often a function gives a new value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    /// The same arguments give the same value: constants can be folded.
    Immutable,
    /// One value for a statement (`GETDATE()`).
    Statement,
    /// One value for each place in a statement where it stands (`RAND()`): evaluate it once before the rows.
    OncePerReference,
    /// A value for each row (`NEWID()`).
    Volatile,
}

/// The type of a call from the types of its arguments.
pub type ResultType = fn(&[ArgType]) -> Result<SqlType, SqlError>;

/// The evaluation over a batch: an array of [`Call::rows`] values in the carrier of [`Call::result_type`].
pub type Evaluate = fn(&Call<'_>) -> Result<ArrayRef, SqlError>;

/// A scalar function.
#[derive(Clone, Copy, Debug)]
pub struct FunctionDef {
    /// The name in capitals.
    pub name: &'static str,
    /// The fewest arguments, without a date part.
    pub min_args: usize,
    /// The most arguments, without a date part.
    pub max_args: usize,
    /// Whether the first thing in the parentheses is a date part (`DATEADD(day, …)`).
    pub takes_date_part: bool,
    /// How often it gives a new value.
    pub volatility: Volatility,
    /// The type of its result.
    pub result_type: ResultType,
    /// Its evaluation.
    pub evaluate: Evaluate,
    /// The same for one value, of some functions without arguments.
    pub one: Option<EvaluateOne>,
}

/// The value of a function without arguments, where no batch is made.
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
    /// 174 or 189 with SQL Server's words.
    pub fn check_arity(&self, count: usize) -> Result<(), SqlError> {
        if (self.min_args..=self.max_args).contains(&count) {
            return Ok(());
        }
        let extra = usize::from(self.takes_date_part);
        let (min, max) = (self.min_args + extra, self.max_args.saturating_add(extra));
        let name = self.name.to_lowercase();
        Err(if self.max_args == usize::MAX {
            SqlError::new(
                number::FUNCTION_ARGUMENT_RANGE,
                format!("The {name} function requires {min} or more arguments."),
            )
        } else if min == max {
            SqlError::new(number::FUNCTION_ARGUMENT_COUNT, format!("The {name} function requires {min} argument(s)."))
        } else {
            SqlError::new(
                number::FUNCTION_ARGUMENT_RANGE,
                format!("The {name} function requires {min} to {max} arguments."),
            )
        })
    }
}

/// The function called `name`, in any case; `None` when there is none.
pub fn lookup(name: &str) -> Option<&'static FunctionDef> {
    all().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// Every function.
pub fn all() -> impl Iterator<Item = &'static FunctionDef> {
    crate::TABLES.iter().flat_map(|table| table.iter())
}
