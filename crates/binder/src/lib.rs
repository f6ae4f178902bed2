//! Translates T-SQL's syntax tree to DataFusion's logical plans, in which every expression has a known SQL type.
//!
//! The plans need no coercion: both sides of a comparison have one Arrow type, text compares by its collation's sort
//! key, and arithmetic and conversions are kernels of crate `functions`. Internal column names are unique in a plan.
//! Names as the user knows them exist only in `scope.rs` and in [`ResultColumn`].
//!
//! Not done here: resolving names ([`NameResolver`]), running plans, changing rows, control of flow.

// Tests that other crates have, too, name this one as they do.
#[cfg(test)]
extern crate self as hobt_binder;

mod aggregate;
mod aggregate_call;
mod apply;
mod arithmetic;
mod assignment;
mod body;
mod bound;
mod by_key;
mod case;
mod change;
mod change_output;
mod change_values;
mod collector;
mod comparison;
mod condition;
mod convert;
mod cte;
mod data_type;
mod expression;
mod extent;
mod folding;
pub mod formula;
mod from;
mod function;
mod grouping;
mod hash_join;
mod hints;
mod in_order;
mod insert;
mod item;
mod limit;
mod literal;
mod merge;
mod module;
mod next_value;
mod parameters;
mod query;
mod resolver;
mod row_by_row;
mod row_rules;
mod scope;
mod select;
mod sequence_scope;
mod set_operation;
mod stored;
mod subquery;
mod subquery_expr;
mod table_function;
mod table_rows;
#[cfg(test)]
mod tests;
mod unnest;
mod values;
mod window;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan};
use datafusion::physical_expr::create_physical_expr;
use hobt_base::{Position, SqlError, errors};
use hobt_engine::DatabaseUse;
use hobt_functions::{FunctionContext, array_value};
use hobt_tsql::ast::{Condition, Expression, Query};
use hobt_types::{SqlType, Value};

pub use assignment::BoundAssignments;
pub use bound::{BoundExpr, BoundQuery, Coercibility, Constant, ExprCollation, ResultColumn, scalar_of};
pub use by_key::{BoundRow, RowUse};
pub use change::BoundChange;
pub use change_output::{ACTION_TYPE, BoundOutput, OutputInput, OutputTable};
pub use change_values::{BoundValues, cannot_be_modified};
pub use data_type::{TypePlace, collation_of, sql_type};
pub use extent::STACK_BYTES;
pub use hints::{PermittedJoins, QueryHints, valid_use_hints};
pub use insert::{InsertTarget, TargetColumn};
pub use merge::BoundMerge;
pub use parameters::{parameter_value, reads_of, variable_of};
pub use resolver::{NameResolver, Resolved, ScanHints, SourceColumn, SystemFunction};
pub use row_rules::{ComputedType, RuleColumn, column_of_row, rule_columns};
pub use table_rows::{all_rows, rows_by_key};

use collector::Collector;
pub use formula::{Formula, Given};
use hobt_table::JoinWay;
use hobt_udf::sql_error_of;
use scope::{Names, Scope};
use sequence_scope::{InDefault, SequenceScope, Wrapped};

/// How deeply views, functions and common table expressions may be nested.
const NESTING_LIMIT: usize = 32;

/// Session settings that change what a text means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindOptions {
    /// How often a recursive common table expression may recurse; 0 is no limit.
    pub max_recursion: u32,
    /// `OPTION (HASH JOIN)`, `OPTION (MERGE JOIN)`: whether a join without an equation is refused.
    pub wants_equations: bool,
    /// Whether variables stay names in the bound expression, so that it can be evaluated with other values later
    /// ([`Formula`]). Expressions that are valid only now are then refused.
    pub keeps_variables: bool,
    /// Whether constants that are values of variables carry their names in WHERE and ON, so that the plan can be made
    /// again for other values ([`parameter_value`]).
    pub names_variables: bool,
    /// The join method that `OPTION` asks for.
    pub join_way: JoinWay,
    /// The join methods that `OPTION` leaves to joins with a hint of their own.
    pub permitted_joins: PermittedJoins,
    /// `OPTION (FORCE ORDER)`: sources are joined in the order that was written.
    pub keeps_order: bool,
    /// Whether the query of a `MERGE` may return rows of the target that no action takes, but that keep a row of the
    /// source from being inserted.
    pub brings_matched: bool,
}

impl Default for BindOptions {
    fn default() -> BindOptions {
        BindOptions {
            max_recursion: 100,
            wants_equations: false,
            keeps_variables: false,
            names_variables: false,
            join_way: JoinWay::Free,
            permitted_joins: PermittedJoins::default(),
            keeps_order: false,
            brings_matched: false,
        }
    }
}

/// Binds the queries and expressions of one statement.
pub struct Binder<'r> {
    resolver: &'r dyn NameResolver,
    options: BindOptions,
    context: Arc<FunctionContext>,
    progress: Rc<Progress>,
    /// The session's functions that were asked for, by their names in upper case and the types of their arguments. A
    /// call that is written twice is one function, so that `GROUP BY` recognises it.
    functions: RefCell<Vec<(String, Vec<SqlType>, SystemFunction)>>,
}

/// The state of binding a statement, shared by the binders of the modules that it uses.
struct Progress {
    /// The number of the next internal column.
    next_name: Cell<usize>,
    /// Whether the plan depends on nothing that may change between executions.
    is_cacheable: Cell<bool>,
    /// Whether the plan has the values of variables in it.
    reads_variables: Cell<bool>,
    /// How many views, functions and common table expressions enclose the part that is being bound.
    nesting: Cell<usize>,
    /// How many subqueries enclose the part that is being bound.
    applied: Cell<usize>,
    /// How many queries, conditions and expressions enclose the part that is being bound.
    level: Cell<usize>,
    /// What to do with a `NEXT VALUE FOR`; the last entry is the innermost.
    sequences: RefCell<Vec<SequenceScope>>,
    /// How far a query that the interpreter has wrapped around that of an `INSERT` is bound.
    wrapped: Cell<Wrapped>,
    /// Whether a column's DEFAULT is being bound.
    in_default: Cell<InDefault>,
    /// Whether expressions over constants are folded.
    folds: Cell<bool>,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            next_name: Cell::new(1),
            is_cacheable: Cell::new(true),
            reads_variables: Cell::new(false),
            nesting: Cell::new(0),
            applied: Cell::new(0),
            level: Cell::new(0),
            sequences: RefCell::default(),
            wrapped: Cell::default(),
            in_default: Cell::default(),
            folds: Cell::new(true),
        }
    }
}

/// The clause that an expression is in; it decides what the expression may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clause {
    Select,
    Where,
    On,
    GroupBy,
    Having,
    OrderBy,
    /// The argument of an aggregate.
    Aggregate,
    /// The values of an `UPDATE`.
    Set,
    /// What a statement that changes rows puts out.
    Output,
    /// Outside a query: `SET`, `IF`, `DEFAULT`, `VALUES`.
    Scalar,
}

/// The context in which an expression is bound.
#[derive(Clone, Copy)]
struct Site<'p> {
    scope: &'p Scope,
    names: &'p Names<'p>,
    clause: Clause,
    /// Collects aggregates and windows; `None` if there can be none.
    collector: Option<&'p RefCell<Collector>>,
}

impl<'p> Site<'p> {
    fn with_clause(self, clause: Clause) -> Site<'p> {
        Site { clause, ..self }
    }
}

impl<'r> Binder<'r> {
    /// A binder for one statement.
    pub fn new(resolver: &'r dyn NameResolver, options: BindOptions) -> Binder<'r> {
        Binder {
            resolver,
            options,
            context: resolver.function_context(),
            progress: Rc::default(),
            functions: RefCell::default(),
        }
    }

    /// Runs `bind` with the names of the database that a module lives in; `None` is the binder's own database.
    fn in_database<T>(
        &self,
        database: Option<&DatabaseUse>,
        bind: impl FnOnce(&Binder<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let Some(database) = database else { return bind(self) };
        let resolver = self.resolver.in_database(database);
        bind(&Binder {
            resolver: &*resolver,
            options: self.options,
            context: Arc::clone(&self.context),
            progress: Rc::clone(&self.progress),
            functions: RefCell::default(),
        })
    }

    /// Binds a query that returns rows.
    ///
    /// # Errors
    /// T-SQL's errors, with their position in the text.
    pub fn bind_query(&self, query: &Query) -> Result<BoundQuery, SqlError> {
        let body = self.query(query, &Names::default(), crate::body::QueryUse::Statement)?;
        if let Some(place) = body.assigns {
            return Err(errors::ASSIGNMENT_WITH_RETRIEVAL.error().at(place));
        }
        Ok(self.finish(body))
    }

    /// Binds `SELECT @v = x, …`.
    ///
    /// # Errors
    /// 141 when some item is not an assignment; "not supported" where a subquery, `DISTINCT` or an order needs a
    /// variable that the statement assigns; otherwise as [`Binder::bind_query`].
    pub fn bind_assignments(&self, query: &Query) -> Result<BoundAssignments, SqlError> {
        let mut body = self.query(query, &Names::default(), crate::body::QueryUse::Statement)?;
        let assignments = std::mem::take(&mut body.assignments);
        if assignments.steps.len() != body.columns.len() {
            return Err(errors::ASSIGNMENT_WITH_RETRIEVAL.error().at(query.span.position));
        }
        BoundAssignments::new(self.finish(body), assignments)
    }

    fn finish(&self, body: crate::body::Body) -> BoundQuery {
        let columns = body.columns.iter().map(crate::body::BodyColumn::result).collect();
        BoundQuery { plan: body.plan, columns, into: body.into, is_cacheable: self.progress.is_cacheable.get() }
    }

    /// Binds an expression outside a query. [`Binder::evaluate`] refuses an expression with a subquery: use
    /// [`Binder::bind_scalar_query`] if [`BoundExpr::expr`] has one.
    ///
    /// # Errors
    /// As [`Binder::bind_query`].
    pub fn bind_scalar(&self, expression: &Expression) -> Result<BoundExpr, SqlError> {
        let (scope, names) = (Scope::default(), Names::default());
        self.expression(expression, Site { scope: &scope, names: &names, clause: Clause::Scalar, collector: None })
    }

    /// An expression outside a query as a query of one row and one column: for subqueries in `SET` and `IF`.
    ///
    /// # Errors
    /// As [`Binder::bind_query`].
    pub fn bind_scalar_query(&self, bound: BoundExpr) -> Result<BoundQuery, SqlError> {
        let body = self.one_row(bound)?;
        Ok(self.finish(body))
    }

    /// Binds a condition outside a query (`IF`, `WHILE`) as a `bit`: 1 if it is true, 0 otherwise.
    ///
    /// # Errors
    /// As [`Binder::bind_query`].
    pub fn bind_condition(&self, condition: &Condition, position: Position) -> Result<BoundExpr, SqlError> {
        let (scope, names) = (Scope::default(), Names::default());
        let site = Site { scope: &scope, names: &names, clause: Clause::Scalar, collector: None };
        let truth = self.condition(condition, site)?;
        Ok(case::bit_of(truth, position))
    }

    /// Whether everything that was bound so far stays valid for later executions.
    pub fn is_timeless(&self) -> bool {
        self.progress.is_cacheable.get() && !self.progress.reads_variables.get()
    }

    /// Whether a bound expression has a subquery in it, so that only a query can evaluate it.
    pub fn needs_query(bound: &BoundExpr) -> bool {
        crate::subquery_expr::has_subquery(&bound.expr)
    }

    /// The value of an expression without columns and subqueries.
    ///
    /// # Errors
    /// Those of its functions; "not supported" if it reads a variable that the `SELECT` around it assigns; an internal
    /// error if it has a column or a subquery.
    pub fn evaluate(&self, bound: &BoundExpr) -> Result<Value, SqlError> {
        if let Some(value) = &bound.literal {
            return Ok(value.clone());
        }
        assignment::check_known(bound)?;
        let physical = create_physical_expr(
            &bound.expr,
            &DFSchema::empty(),
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )
        .map_err(sql_error_of)?;
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(1));
        let one_row = arrow::record_batch::RecordBatch::try_new_with_options(schema, vec![], &options)
            .map_err(|error| SqlError::internal(error.to_string()))?;
        let value = physical.evaluate(&one_row).map_err(|error| sql_error_of(error).at(bound.position))?;
        let array = match value {
            ColumnarValue::Array(array) => array,
            ColumnarValue::Scalar(scalar) => scalar.to_array().map_err(sql_error_of)?,
        };
        array_value(array.as_ref(), 0, bound.sql_type)
    }

    /// A name for an internal column: unique in the statement, in characters that DataFusion never quotes.
    fn fresh(&self, base: &str) -> String {
        let number = self.progress.next_name.get();
        self.progress.next_name.set(number + 1);
        let mut name: String =
            base.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(24).collect::<String>();
        name.make_ascii_lowercase();
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            name.insert(0, 'c');
        }
        format!("{name}_{number}")
    }

    /// Runs `bind` for a view, function or common table expression, counting it as one level of nesting.
    fn enter<T>(&self, name: &str, bind: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
        let depth = self.progress.nesting.get() + 1;
        if depth > NESTING_LIMIT {
            return Err(errors::VIEWS_NESTED_TOO_DEEPLY.with([&name, &NESTING_LIMIT]));
        }
        self.progress.nesting.set(depth);
        let result = bind();
        self.progress.nesting.set(depth - 1);
        result
    }
}

fn shared(plan: LogicalPlan) -> Arc<LogicalPlan> {
    Arc::new(plan)
}

/// Adds a common table expression to the front of a list.
fn with_cte(ctes: scope::CteList, cte: scope::Cte) -> scope::CteList {
    Some(Rc::new(scope::CteNode { cte, next: ctes }))
}
