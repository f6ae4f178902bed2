//! Hints of `OPTION (…)` and of joins, as far as they change a plan.

use hobt_base::{SqlError, errors};
use hobt_tsql::ast::{Expression, JoinHint, Position, QueryHint, UnaryOperator, VariableName};
use hobt_types::{TypedValue, Value};

use super::literal::bind_literal;
use hobt_table::{Correlation, JoinWay};

/// The name in `USE HINT` that disables join filters.
const NO_JOIN_FILTERS: &str = "HOBT_DISABLE_JOIN_FILTER";
/// The name in `USE HINT` that makes estimates ignore the values of parameters.
const NO_SNIFFING: &str = "DISABLE_PARAMETER_SNIFFING";
/// The name in `USE HINT` for which values beyond a histogram are as frequent as others, and the equivalent trace flag.
const ASCENDING: (&str, i64) = ("ENABLE_HIST_AMENDMENT_FOR_ASC_KEYS", 4139);
/// Names that set the assumed correlation of conditions on one table.
const CORRELATIONS: [(&str, Correlation); 3] = [
    ("ASSUME_FULL_INDEPENDENCE_FOR_FILTER_ESTIMATES", Correlation::None),
    ("ASSUME_PARTIAL_CORRELATION_FOR_FILTER_ESTIMATES", Correlation::Partial),
    ("ASSUME_MIN_SELECTIVITY_FOR_FILTER_ESTIMATES", Correlation::Full),
];
/// Names that SQL Server accepts and that have no effect here. Source: its `sys.dm_exec_valid_use_hints`.
const WITHOUT_EFFECT: [&str; 18] = [
    "ASSUME_JOIN_PREDICATE_DEPENDS_ON_FILTERS",
    "DISABLE_BATCH_MODE_ADAPTIVE_JOINS",
    "DISABLE_BATCH_MODE_MEMORY_GRANT_FEEDBACK",
    "DISABLE_CE_FEEDBACK",
    "DISABLE_DEFERRED_COMPILATION_TV",
    "DISABLE_DOP_FEEDBACK",
    "DISABLE_INTERLEAVED_EXECUTION_TVF",
    "DISABLE_MEMORY_GRANT_FEEDBACK_PERSISTENCE",
    "DISABLE_OPTIMIZED_NESTED_LOOP",
    "DISABLE_OPTIMIZED_PLAN_FORCING",
    "DISABLE_OPTIMIZER_ROWGOAL",
    "DISABLE_ROW_MODE_MEMORY_GRANT_FEEDBACK",
    "DISABLE_TSQL_SCALAR_UDF_INLINING",
    "DISALLOW_BATCH_MODE",
    "ENABLE_QUERY_OPTIMIZER_HOTFIXES",
    "FORCE_DEFAULT_CARDINALITY_ESTIMATION",
    "FORCE_LEGACY_CARDINALITY_ESTIMATION",
    "QUERY_PLAN_PROFILE",
];
/// The beginning of a name that is followed by a compatibility level.
const LEVEL: &str = "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_";
const LEVELS: [&str; 8] = ["100", "110", "120", "130", "140", "150", "160", "170"];

/// The names that `USE HINT` accepts, sorted.
pub fn valid_use_hints() -> Vec<String> {
    let levels = LEVELS.iter().map(|level| format!("{LEVEL}{level}"));
    let correlations = CORRELATIONS.iter().map(|(name, _)| (*name).to_owned());
    let others = [NO_JOIN_FILTERS, NO_SNIFFING, ASCENDING.0].into_iter().chain(WITHOUT_EFFECT).map(str::to_owned);
    let mut names: Vec<String> = levels.chain(correlations).chain(others).collect();
    names.sort_unstable();
    names
}

fn unforced(hint: &str) -> SqlError {
    SqlError::not_supported(format!("The hint {hint}"))
}

/// The join method that a hint forces.
///
/// # Errors
/// "Not supported" for `REMOTE`.
pub(super) fn join_way(hint: JoinHint) -> Result<JoinWay, SqlError> {
    match hint {
        JoinHint::Hash => Ok(JoinWay::Hash),
        JoinHint::Loop => Ok(JoinWay::Loop),
        JoinHint::Merge => Ok(JoinWay::Merge),
        JoinHint::Remote => Err(unforced("REMOTE JOIN")),
    }
}

/// The join methods that `OPTION` allows: those that it names, or all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermittedJoins {
    loops: bool,
    hash: bool,
    merge: bool,
}

impl Default for PermittedJoins {
    fn default() -> PermittedJoins {
        PermittedJoins { loops: true, hash: true, merge: true }
    }
}

impl PermittedJoins {
    /// Checks the hint of a join: error 1042 if it asks for a method that `OPTION` does not allow.
    pub(super) fn check(self, way: JoinWay) -> Result<(), SqlError> {
        let is_left = match way {
            JoinWay::Free => true,
            JoinWay::Loop => self.loops,
            JoinWay::Hash => self.hash,
            JoinWay::Merge => self.merge,
        };
        if is_left {
            return Ok(());
        }
        Err(errors::CONFLICTING_JOIN_HINTS.error())
    }
}

/// The hints of `OPTION (…)`, as far as they change a plan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QueryHints {
    /// `MAXDOP`; 0 is no limit.
    pub maxdop: Option<u32>,
    /// `MAXRECURSION`; 0 is no limit.
    pub max_recursion: Option<u32>,
    /// `RECOMPILE`: estimates use the values of all variables.
    pub recompile: bool,
    /// `HASH JOIN`.
    pub hash_joins: bool,
    /// `LOOP JOIN`.
    pub loop_joins: bool,
    /// `MERGE JOIN`.
    pub merge_joins: bool,
    /// `FORCE ORDER`.
    pub force_order: bool,
    /// `LABEL`.
    pub label: Option<String>,
    /// `QUERYTRACEON`: trace flags for this query.
    pub trace_flags: Vec<i64>,
    /// `USE HINT('HOBT_DISABLE_JOIN_FILTER')`.
    pub no_join_filters: bool,
    /// `USE HINT('DISABLE_PARAMETER_SNIFFING')`: estimates ignore the values of parameters.
    pub no_sniffing: bool,
    /// `OPTIMIZE FOR UNKNOWN`: estimates ignore the values of all variables.
    pub optimize_for_unknown: bool,
    /// `OPTIMIZE FOR`: the values that estimates assume for variables; `None` for `UNKNOWN`.
    pub optimize_for: Vec<(VariableName, Option<TypedValue>)>,
    /// `MIN_GRANT_PERCENT`, `MAX_GRANT_PERCENT`: the least and the most of the operators' memory that a statement gets.
    pub grant_percent: (Option<f64>, Option<f64>),
    /// The assumed correlation of conditions on one table.
    pub correlation: Correlation,
}

impl QueryHints {
    /// The method that joins all sources. If several are allowed, one for which there is a plan.
    pub fn join_way(&self) -> JoinWay {
        match (self.loop_joins, self.hash_joins, self.merge_joins) {
            (true, false, _) => JoinWay::Loop,
            (false, true, _) => JoinWay::Hash,
            (false, false, true) => JoinWay::Merge,
            _ => JoinWay::Free,
        }
    }

    /// The methods by which sources may be joined.
    pub fn permitted_joins(&self) -> PermittedJoins {
        match (self.loop_joins, self.hash_joins, self.merge_joins) {
            (false, false, false) => PermittedJoins::default(),
            (loops, hash, merge) => PermittedJoins { loops, hash, merge },
        }
    }

    /// Reads the hints of a statement.
    ///
    /// # Errors
    /// 1020; 310 for a value out of range; 1042 for two values of one hint or an invalid percentage; 10715 for an
    /// unknown name in `USE HINT`; 102 for a value in `OPTIMIZE FOR` that is not a constant; "not supported" for a plan
    /// that cannot be forced.
    pub fn read(options: &[QueryHint]) -> Result<QueryHints, SqlError> {
        let mut hints = QueryHints::default();
        for option in options {
            hints.take(option).map_err(|error| error.at(option.span.position))?;
        }
        if let (Some(least), Some(most)) = hints.grant_percent
            && least > most
        {
            let at = options.first().map_or_else(Position::default, |option| option.span.position);
            return Err(errors::GRANT_PERCENT_ORDER.with([&least, &most]).at(at));
        }
        Ok(hints)
    }

    fn take(&mut self, option: &QueryHint) -> Result<(), SqlError> {
        use hobt_tsql::ast::QueryHintKind as Kind;
        match &option.kind {
            Kind::MaxDop(value) => set(&mut self.maxdop, number_of(*value, "MAXDOP")?, "MAXDOP")?,
            Kind::MaxRecursion(value) => set(&mut self.max_recursion, recursion_of(*value)?, "MAXRECURSION")?,
            Kind::Recompile => self.recompile = true,
            Kind::ForceOrder => self.force_order = true,
            Kind::Join(hint) => match join_way(*hint)? {
                JoinWay::Loop => self.loop_joins = true,
                JoinWay::Merge => self.merge_joins = true,
                JoinWay::Hash | JoinWay::Free => self.hash_joins = true,
            },
            Kind::OrderGroup => return Err(unforced("ORDER GROUP")),
            Kind::MergeUnion => return Err(unforced("MERGE UNION")),
            Kind::UsePlan(_) => return Err(unforced("USE PLAN")),
            Kind::Label(label) => self.label = Some(label.clone()),
            Kind::QueryTraceOn(flag) => self.trace_flags.push(*flag),
            Kind::MinGrantPercent(value) => {
                const NAME: &str = "MIN_GRANT_PERCENT";
                set(&mut self.grant_percent.0, percent_of(value, NAME)?, NAME)?;
            }
            Kind::MaxGrantPercent(value) => {
                const NAME: &str = "MAX_GRANT_PERCENT";
                set(&mut self.grant_percent.1, percent_of(value, NAME)?, NAME)?;
            }
            Kind::OptimizeForUnknown => self.optimize_for_unknown = true,
            Kind::OptimizeFor(values) => {
                for (name, value) in values {
                    let value = value.as_ref().map(constant).transpose()?;
                    self.optimize_for.push((name.clone(), value));
                }
            }
            Kind::UseHint(names) => names.iter().try_for_each(|name| self.take_named(name))?,
            _ => {}
        }
        Ok(())
    }

    /// Applies a name in `USE HINT`.
    fn take_named(&mut self, name: &str) -> Result<(), SqlError> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let correlation = CORRELATIONS.iter().find(|(known, _)| is(known));
        let level =
            name.get(..LEVEL.len()).filter(|head| head.eq_ignore_ascii_case(LEVEL)).map(|_| &name[LEVEL.len()..]);
        if let Some((_, correlation)) = correlation {
            self.correlation = *correlation;
        } else if is(NO_JOIN_FILTERS) {
            self.no_join_filters = true;
        } else if is(NO_SNIFFING) {
            self.no_sniffing = true;
        } else if is(ASCENDING.0) {
            self.trace_flags.push(ASCENDING.1);
        } else if !WITHOUT_EFFECT.iter().any(|known| is(known)) && !level.is_some_and(|level| LEVELS.contains(&level)) {
            return Err(errors::NO_SUCH_HINT.with([&name]));
        }
        Ok(())
    }
}

/// Sets a hint.
///
/// # Errors
/// 1042 if it is already set to another value.
fn set<T: PartialEq>(hint: &mut Option<T>, value: T, name: &str) -> Result<(), SqlError> {
    match hint.replace(value) {
        Some(before) if hint.as_ref() != Some(&before) => Err(errors::CONFLICTING_HINTS.with([&name])),
        _ => Ok(()),
    }
}

fn recursion_of(value: i64) -> Result<u32, SqlError> {
    number_of(value, "MAXRECURSION").map_err(|error| match value > 0 {
        true => errors::MAX_RECURSION_RANGE.with([&value]),
        false => error,
    })
}

fn number_of(value: i64, name: &str) -> Result<u32, SqlError> {
    const MOST: i64 = 32_767;
    if (0..=MOST).contains(&value) {
        return Ok(u32::try_from(value).unwrap_or(u32::MAX));
    }
    Err(errors::INVALID_OPTION_VALUE.with([&value, &name, &MOST]))
}

/// A percentage of the memory.
fn percent_of(value: &Expression, name: &str) -> Result<f64, SqlError> {
    let TypedValue { sql_type, value: given } = constant(value)?;
    let percent = match given {
        Value::Int(number) => Some(number as f64),
        Value::Decimal(number) => Some(number as f64 / 10_f64.powi(i32::from(sql_type.scale()))),
        Value::Float(number) => Some(number),
        _ => None,
    };
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| errors::HINT_OUT_OF_RANGE.with([&name, &value]))
}

/// The value of a constant, which may have a sign.
fn constant(expression: &Expression) -> Result<TypedValue, SqlError> {
    let no_constant =
        |expression: &Expression| errors::OPTIMIZE_FOR_CONSTANTS.with([&expression]).at(expression.position());
    match expression {
        Expression::Literal { value, span } => {
            let bound = bind_literal(value, span.position)?;
            let value = bound.literal.ok_or_else(|| no_constant(expression))?;
            Ok(TypedValue { sql_type: bound.sql_type, value })
        }
        Expression::Unary { operator, operand, .. } => {
            let TypedValue { sql_type, value } = constant(operand)?;
            let value = match (operator, value) {
                (UnaryOperator::Minus, Value::Int(number)) => Value::Int(-number),
                (UnaryOperator::Minus, Value::Decimal(number)) => Value::Decimal(-number),
                (UnaryOperator::Minus, Value::Float(number)) => Value::Float(-number),
                (UnaryOperator::Plus, value) => value,
                _ => return Err(no_constant(expression)),
            };
            Ok(TypedValue { sql_type, value })
        }
        other => Err(no_constant(other)),
    }
}
