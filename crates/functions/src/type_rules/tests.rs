//! Tests of result types against the tables of Microsoft's documentation.

use super::*;

const fn dec(precision: u8, scale: u8) -> SqlType {
    SqlType::Decimal { precision, scale }
}

const fn varchar(n: u16) -> SqlType {
    SqlType::VarChar(MaxLength::Limited(n))
}

#[test]
fn decimal_results_have_the_documented_precision() {
    use BinaryOperator as Op;
    for (operator, left, right, expected) in [
        (Op::Add, dec(5, 2), dec(8, 4), dec(9, 4)),
        (Op::Multiply, dec(15, 2), dec(16, 2), dec(32, 4)),
        (Op::Divide, dec(5, 2), dec(3, 1), dec(10, 6)),
        (Op::Divide, dec(38, 10), SqlType::Int, dec(38, 10)),
        (Op::Modulo, dec(5, 2), dec(8, 4), dec(7, 4)),
        // "Precision, scale, and length" has these two products as examples.
        (Op::Multiply, dec(30, 20), dec(30, 20), dec(38, 17)),
        (Op::Multiply, dec(30, 10), dec(30, 10), dec(38, 6)),
        (Op::Add, dec(38, 10), dec(38, 2), dec(38, 2)),
        (Op::Subtract, SqlType::Int, dec(15, 2), dec(16, 2)),
        (Op::Multiply, SqlType::Money, dec(5, 1), dec(25, 5)),
    ] {
        assert_eq!(binary_result(operator, left, right).unwrap(), expected, "{left} {operator} {right}");
    }
}

#[test]
fn the_higher_type_wins() {
    for (left, right, expected) in [
        (SqlType::Int, SqlType::BigInt, SqlType::BigInt),
        (SqlType::Money, SqlType::Int, SqlType::Money),
        (varchar(5), SqlType::Int, SqlType::Int),
        (varchar(5), SqlType::NVarChar(MaxLength::Limited(3)), SqlType::NVarChar(MaxLength::Limited(5))),
        (SqlType::Char(3), SqlType::Char(9), SqlType::Char(9)),
        (dec(10, 2), SqlType::Int, dec(12, 2)),
        (dec(10, 2), SqlType::Float, SqlType::Float),
        (SqlType::Date, SqlType::DateTime, SqlType::DateTime),
        (SqlType::Binary(4), SqlType::Int, SqlType::Int),
    ] {
        assert_eq!(common_type(left, right).unwrap(), expected, "{left}, {right}");
        assert_eq!(common_type(right, left).unwrap(), expected, "{right}, {left}");
    }
}

#[test]
fn concatenation_adds_lengths() {
    let add = |left, right| binary_result(BinaryOperator::Add, left, right).unwrap();
    assert_eq!(add(varchar(5), SqlType::Char(3)), varchar(8));
    assert_eq!(add(varchar(8000), varchar(1)), varchar(8000));
    assert_eq!(add(varchar(5), SqlType::NChar(3)), SqlType::NVarChar(MaxLength::Limited(8)));
    assert_eq!(add(SqlType::VarChar(MaxLength::Max), SqlType::Char(3)), SqlType::VarChar(MaxLength::Max));
}

#[test]
fn pairs_that_do_not_go_together_are_refused() {
    use BinaryOperator as Op;
    let number = |operator, left, right| binary_result(operator, left, right).unwrap_err().number;
    assert_eq!(number(Op::Subtract, varchar(1), varchar(1)), 8117);
    assert_eq!(number(Op::Add, SqlType::Date, SqlType::Int), 206);
    assert_eq!(number(Op::Multiply, SqlType::DateTime, SqlType::Int), 8117);
    assert_eq!(number(Op::Add, SqlType::Bit, SqlType::Bit), 8117);
    assert_eq!(number(Op::Modulo, SqlType::Float, SqlType::Int), 402);
    assert_eq!(common_type(SqlType::UniqueIdentifier, SqlType::Int).unwrap_err().number, 206);
    assert_eq!(check_implicit(SqlType::DateTime, SqlType::Int).unwrap_err().number, 257);
    assert_eq!(check_explicit(SqlType::Date, SqlType::Int).unwrap_err().number, 529);
    assert_eq!(unary_minus_result(varchar(3)).unwrap_err().number, 8117);
    // The text's own statement: a hash modulo an int.
    assert_eq!(
        binary_result(Op::Modulo, SqlType::VarBinary(MaxLength::Limited(8000)), SqlType::Int).unwrap(),
        SqlType::Int
    );
}
