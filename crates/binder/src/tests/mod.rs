//! Golden tests: statements with their bound plans, and statements that are refused with their errors.

mod stored;

use std::path::Path;

use hobt_base::SqlError;
use hobt_testing::check_golden;
use hobt_tsql::ast::StatementKind;
use hobt_tsql::parse_batch;

use crate::{BindOptions, Binder, BoundQuery, InsertTarget, TargetColumn};
use stored::Shop;

/// A thread with the stack that statements are bound on.
fn on_a_deep_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(crate::STACK_BYTES).spawn(test).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn check(file: &'static str) {
    on_a_deep_stack(move || {
        let shop = Shop::open();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
        check_golden(&path, |sql| bound(&shop, sql).unwrap_or_else(|error| described(&error)));
    });
}

#[test]
fn queries_are_bound_to_plans() {
    check("queries.txt");
}

#[test]
fn changes_are_bound_to_queries() {
    check("changes.txt");
}

#[test]
fn what_is_refused_says_so() {
    check("errors.txt");
}

/// `Msg 207, Level 16, State 1, line 1, column 8: Invalid column name 'x'.`
fn described(error: &SqlError) -> String {
    let place = error.position.map_or_else(String::new, |at| format!(", line {}, column {}", at.line, at.column));
    format!("Msg {}, Level {}, State {}{place}: {}", error.number, error.severity, error.state, error.message)
}

/// What a statement is bound to: the types of its columns, and its plan.
fn bound(shop: &Shop, sql: &str) -> Result<String, SqlError> {
    let binder = Binder::new(shop, BindOptions::default());
    let mut batch = parse_batch(sql)?;
    let query = match batch.statements.remove(0).kind {
        StatementKind::Select(select) => binder.bind_query(&select.query)?,
        StatementKind::Insert(insert) => {
            let hobt_tsql::ast::InsertSource::Query { query } = &insert.source else { panic!("not a query: {sql}") };
            binder.bind_insert_source(query, &into_product())?
        }
        StatementKind::Update(update) => binder.bind_update(&update, None)?.query,
        StatementKind::Delete(delete) => binder.bind_delete(&delete, None)?.query,
        StatementKind::Merge(merge) => binder.bind_merge(&merge, None)?.query,
        other => panic!("no statement with a plan: {other}"),
    };
    Ok(shown(&query))
}

fn shown(query: &BoundQuery) -> String {
    let column = |column: &crate::ResultColumn| {
        let nullable = if column.nullable { " NULL" } else { "" };
        format!("{} {}{nullable}", column.name.as_deref().unwrap_or("-"), column.sql_type)
    };
    let columns: Vec<String> = query.columns.iter().map(column).collect();
    format!("({})\n{}", columns.join(", "), query.plan.display_indent())
}

/// The columns of `INSERT INTO product`.
fn into_product() -> InsertTarget {
    use hobt_types::{MaxLength, SqlType};
    let column = |name: &str, sql_type| TargetColumn { name: name.to_owned(), sql_type };
    let title = SqlType::NVarChar(MaxLength::Limited(40));
    let columns = vec![column("id", SqlType::Int), column("title", title), column("kind", SqlType::Char(1))];
    InsertTarget { table: "product".to_owned(), columns }
}
