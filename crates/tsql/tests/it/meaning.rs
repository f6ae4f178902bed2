//! The meaning of texts: precedence, positions, and ambiguous cases of T-SQL.

use hobt_tsql::ast::*;
use hobt_tsql::{ParseOptions, parse_batch, parse_batch_with, parse_expression};

fn only(text: &str) -> StatementKind {
    let mut statements = parse_batch(text).unwrap_or_else(|e| panic!("{text}: {e}")).statements;
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).kind
}

/// Both texts have the same meaning as expressions.
fn same(text: &str, spelled_out: &str) {
    let parse = |text| parse_expression(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(parse(text), parse(spelled_out), "{text}");
}

fn differ(text: &str, other: &str) {
    assert_ne!(parse_expression(text).expect(text), parse_expression(other).expect(other));
}

#[test]
fn precedence_is_that_of_transact_sql() {
    same("a + b * c", "a + (b * c)");
    same("a & b * c", "a & (b * c)");
    // A sign has the precedence of a sum, so it applies to a whole product.
    same("-a * b", "-(a * b)");
    same("a / -b * c", "a / (-(b * c))");
    same("~a * b", "(~a) * b");
    same("a + b COLLATE c", "a + (b COLLATE c)");
    differ("a - b - c", "a - (b - c)");
    differ("a * b + c", "a * (b + c)");
}

#[test]
fn conditions_bind_not_before_and_before_or() {
    let condition = |text: &str| match only(&format!("IF {text} SELECT 1")) {
        StatementKind::If { mut branches, .. } => branches.remove(0).condition,
        other => panic!("{other}"),
    };
    assert_eq!(condition("a=1 OR b=1 AND NOT c=1"), condition("(a=1) OR (b=1 AND (NOT c=1))"));
    assert_ne!(condition("a=1 OR b=1 AND c=1"), condition("(a=1 OR b=1) AND c=1"));
}

#[test]
fn intersect_binds_before_union() {
    assert_eq!(
        only("SELECT 1 UNION SELECT 2 INTERSECT SELECT 3"),
        only("SELECT 1 UNION (SELECT 2 INTERSECT SELECT 3)")
    );
    assert_ne!(only("SELECT 1 EXCEPT SELECT 2 EXCEPT SELECT 3"), only("SELECT 1 EXCEPT (SELECT 2 EXCEPT SELECT 3)"));
}

#[test]
fn spans_cut_statements_out_and_positions_count_characters() {
    let text = "-- é\nSELECT 'é', x;  UPDATE t SET a = 1";
    let batch = parse_batch(text).expect(text);
    let texts: Vec<_> = batch.statements.iter().map(|statement| statement.span.text(text)).collect();
    assert_eq!(texts, ["SELECT 'é', x", "UPDATE t SET a = 1"]);
    assert_eq!(batch.statements[1].span.position, Position { line: 2, column: 17 });
    let StatementKind::Select(select) = &batch.statements[0].kind else { panic!("{batch}") };
    let QueryBody::Select(select) = &select.query.body else { panic!("{batch}") };
    let SelectItem::Value { value, .. } = &select.items[1] else { panic!("{batch}") };
    assert_eq!(value.position(), Position { line: 2, column: 13 });
}

#[test]
fn quotes_make_names_or_strings_as_set() {
    let off = ParseOptions { quoted_identifier: false };
    let text = "SELECT \"it's\"";
    assert_eq!(parse_batch(text).expect(text).to_string(), "SELECT [it's];\n");
    assert_eq!(parse_batch_with(text, off).expect(text).to_string(), "SELECT 'it''s';\n");
}

#[test]
fn an_alias_by_equals_and_by_as_are_one() {
    assert_eq!(only("SELECT a = b + 1"), only("SELECT b + 1 AS a"));
}

#[test]
fn words_that_are_not_reserved_name_things() {
    only("SELECT rows, [try], output, nolock AS maxdop FROM partition range, apply WHERE offset = 1");
}

#[test]
fn a_hint_of_the_old_style_is_a_hint_and_a_call_is_a_call() {
    assert_eq!(only("SELECT 1 FROM t (NOLOCK)"), only("SELECT 1 FROM t WITH (NOLOCK)"));
    let StatementKind::Select(select) = only("SELECT 1 FROM f (nolock + 1)") else { panic!() };
    let QueryBody::Select(select) = &select.query.body else { panic!() };
    assert!(matches!(select.from[0], TableSource::Function { .. }));
}

#[test]
fn else_belongs_to_the_nearest_if() {
    let StatementKind::If { branches, otherwise } = only("IF 1=1 IF 2=2 PRINT 'a' ELSE PRINT 'b'") else { panic!() };
    assert!(otherwise.is_none());
    assert!(matches!(&branches[0].body.kind, StatementKind::If { otherwise: Some(_), .. }));
}

#[test]
fn literals_keep_their_kind() {
    let literal = |text: &str| match parse_expression(text) {
        Ok(Expression::Literal { value, .. }) => value,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(literal("007"), Literal::Integer(7));
    assert_eq!(literal("9223372036854775808"), Literal::Decimal("9223372036854775808".into()));
    assert_eq!(literal("1e"), Literal::Float("1e0".into()));
    assert_eq!(literal("$1.5"), Literal::Money("1.5".into()));
    assert_eq!(literal("0xABC"), Literal::Binary([0x0A, 0xBC].into()));
    assert_eq!(literal("N'a''b'"), Literal::String { value: "a'b".into(), national: true });
    assert_eq!(literal("'a\\\nb'"), Literal::String { value: "ab".into(), national: false });
}
