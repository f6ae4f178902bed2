//! Filters from `TOP … ORDER BY`: once the best rows so far are as many as are wanted, a scan leaves out those that
//! come behind all of them.
//!
//! DataFusion's sort keeps the condition that a row must fulfil to be one of the best (`u > 17`, `key < 0xB2…`) in an
//! expression that all workers share, and narrows it as better rows come. A scan looks at it before each range of
//! pages. Only the first column of the order is used, and a row with an equal value passes.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, Literal};
use hobt_access::scan::{ColumnFilter, KeySet, Scan, TextFilter, TextTest};
use hobt_catalog::Table;
use hobt_table::{JoinedColumn, KeyForm, for_each_key};
use hobt_types::PhysicalType;

/// The test of a page's rows that a limit makes.
pub(super) enum TopTest {
    Number(ColumnFilter),
    Text(TextFilter),
}

/// The filter of a sort at the scan below it.
#[derive(Clone, Debug)]
pub struct TopFilter {
    /// What a row must fulfil, over the columns of the sort: a [`DynamicFilterPhysicalExpr`].
    pub condition: Arc<dyn PhysicalExpr>,
    /// The column that the rows are first ordered by.
    pub column: JoinedColumn,
    /// Whether NULL comes before all values.
    pub nulls_first: bool,
}

/// A [`TopFilter`] without its condition.
pub(crate) struct KeptTop {
    column: JoinedColumn,
    nulls_first: bool,
}

impl KeptTop {
    /// With the condition of an execution.
    pub(crate) fn with(&self, condition: Arc<dyn PhysicalExpr>) -> TopFilter {
        TopFilter { condition, column: self.column, nulls_first: self.nulls_first }
    }
}

impl TopFilter {
    /// It without its condition.
    pub(crate) fn kept(&self) -> KeptTop {
        KeptTop { column: self.column, nulls_first: self.nulls_first }
    }

    /// Whether a filter can follow the values of a column of a table.
    pub fn follows(table: &Table, column: &JoinedColumn) -> bool {
        let sql_type = table.columns[column.column].sql_type;
        match column.form {
            KeyForm::Value | KeyForm::Widened => {
                // Only the lower half of a value of sixteen bytes is compared.
                hobt_table::is_number(&hobt_functions::carrier(sql_type))
                    && sql_type.physical() != PhysicalType::Fixed16
            }
            KeyForm::Compared => {
                sql_type.is_text() && column.collation.is_some_and(|collation| collation.ascii_weights().is_some())
            }
            KeyForm::Scaled(_) => false,
        }
    }

    /// How often the condition has changed.
    pub(super) fn generation(&self) -> u64 {
        self.condition.snapshot_generation()
    }

    /// The test of a page's rows, as of now; `None` if every row passes.
    pub(super) fn test(&self, scan: &Scan) -> Option<TopTest> {
        let condition = self.condition.downcast_ref::<DynamicFilterPhysicalExpr>()?;
        let (value, op) = limit_of(&condition.current().ok()?)?;
        let is_least = op == Operator::Gt;
        if self.column.form == KeyForm::Compared {
            let (ScalarValue::BinaryView(Some(key)) | ScalarValue::Binary(Some(key))) = value else { return None };
            let test = if is_least { TextTest::AtLeast(&key) } else { TextTest::AtMost(&key) };
            let filter = TextFilter::new(self.column.column, test, self.column.collation?)?;
            return Some(TopTest::Text(filter.keeping_null(self.nulls_first)));
        }
        let mut number = None;
        for_each_key(&value.to_array().ok()?, |_, key| {
            number = key.and_then(|(key, is_whole)| is_whole.then_some(key))
        });
        let keys = if is_least { KeySet::between(number?, i64::MAX) } else { KeySet::between(i64::MIN, number?) };
        let filter = ColumnFilter::new(scan.row_layout(), self.column.column, Arc::new(keys), self.nulls_first)?;
        Some(TopTest::Number(filter))
    }
}

/// The first comparison with a constant in the condition of a sort: the constant, and `>` or `<`.
fn limit_of(condition: &Arc<dyn PhysicalExpr>) -> Option<(ScalarValue, Operator)> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    match binary.op() {
        op @ (Operator::Gt | Operator::Lt) => {
            let value = binary.right().downcast_ref::<Literal>()?.value();
            (!value.is_null()).then(|| (value.clone(), *op))
        }
        // What follows the comparison of the first column is for rows that are equal in it.
        Operator::Or => limit_of(binary.left()).or_else(|| {
            let is_null = binary.left().is::<datafusion::physical_expr::expressions::IsNullExpr>();
            is_null.then(|| limit_of(binary.right())).flatten()
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_expr::expressions::{Column, is_null, lit};

    #[test]
    fn the_limit_is_that_of_the_first_column() {
        let column = |at| Arc::new(Column::new("c", at)) as Arc<dyn PhysicalExpr>;
        let binary = |left, op, right| Arc::new(BinaryExpr::new(left, op, right)) as Arc<dyn PhysicalExpr>;
        let above = binary(column(0), Operator::Gt, lit(7));
        let is_nothing = binary(is_null(column(0)).unwrap(), Operator::Or, Arc::clone(&above));
        let equal = binary(column(0), Operator::Eq, lit(7));
        let second = binary(equal, Operator::And, binary(column(1), Operator::Lt, lit(3)));
        let expected = Some((ScalarValue::Int32(Some(7)), Operator::Gt));
        assert_eq!(limit_of(&above), expected);
        assert_eq!(limit_of(&is_nothing), expected);
        assert_eq!(limit_of(&binary(above, Operator::Or, Arc::clone(&second))), expected);
        assert_eq!(limit_of(&binary(is_nothing, Operator::Or, Arc::clone(&second))), expected);
        assert_eq!(limit_of(&binary(lit(false), Operator::Or, second)), None);
        assert_eq!(limit_of(&lit(true)), None);
    }
}
