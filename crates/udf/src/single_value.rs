//! The value of a scalar subquery: an aggregate that rejects a second row (error 512).

use std::hash::Hash;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use hobt_base::{SqlError, errors};

use super::external;

/// 512.
pub(crate) fn more_than_one() -> SqlError {
    errors::SUBQUERY_MORE_THAN_ONE.error()
}

/// The aggregate: NULL for no row, the value for one row, error 512 for more.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SingleValue {
    signature: Signature,
}

impl Default for SingleValue {
    fn default() -> SingleValue {
        SingleValue { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_type())?;
        Ok(Box::new(OneValue { value, seen: false }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new(format!("{}[value]", args.name), args.return_type().clone(), true);
        let seen = Field::new(format!("{}[seen]", args.name), DataType::Boolean, true);
        Ok(vec![value.into(), seen.into()])
    }
}

#[derive(Debug)]
struct OneValue {
    value: ScalarValue,
    seen: bool,
}

impl OneValue {
    fn take(&mut self, values: &ArrayRef, row: usize) -> Result<()> {
        if std::mem::replace(&mut self.seen, true) {
            return Err(external(more_than_one()));
        }
        self.value = ScalarValue::try_from_array(values, row)?.compacted();
        Ok(())
    }
}

impl Accumulator for OneValue {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values[0].len() {
            0 => Ok(()),
            1 => self.take(&values[0], 0),
            _ => Err(external(more_than_one())),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let seen: &BooleanArray = states[1].as_boolean();
        for row in 0..seen.len() {
            if seen.is_valid(row) && seen.value(row) {
                self.take(&states[0], row)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Boolean(Some(self.seen))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
