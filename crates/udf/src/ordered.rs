//! `STRING_AGG … WITHIN GROUP (ORDER BY …)`: keeps a group's rows with their sort keys, and joins them in order.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use hobt_functions::aggregate::string_agg_too_long;

use super::external;

/// The aggregate: the arguments are the sort keys, then the text, then the separator.
#[derive(Debug)]
pub struct OrderedStringAgg {
    /// Whether each key sorts in descending order.
    descending: Vec<bool>,
    /// The most UTF-16 units of the result; `None` for a `max` type.
    units_max: Option<usize>,
    signature: Signature,
}

impl OrderedStringAgg {
    /// An aggregate that sorts by as many keys as `descending` has entries, and whose result has at most `units_max`
    /// UTF-16 units.
    pub fn new(descending: Vec<bool>, units_max: Option<usize>) -> OrderedStringAgg {
        OrderedStringAgg { descending, units_max, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl PartialEq for OrderedStringAgg {
    fn eq(&self, other: &OrderedStringAgg) -> bool {
        self.descending == other.descending && self.units_max == other.units_max
    }
}

impl Eq for OrderedStringAgg {}

impl Hash for OrderedStringAgg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.descending.hash(state);
    }
}

impl AggregateUDFImpl for OrderedStringAgg {
    fn name(&self) -> &str {
        "string_agg_ordered"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let fields = args.expr_fields.iter().enumerate().map(|(place, field)| {
            let descending = self.descending.get(place).copied().unwrap_or(false);
            let options = SortOptions { descending, nulls_first: !descending };
            SortField::new_with_options(field.data_type().clone(), options)
        });
        let converter = RowConverter::new(fields.collect())?;
        Ok(Box::new(OrderedTexts { converter, units_max: self.units_max, rows: Vec::new(), bytes: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(DataType::Binary, true);
        Ok(vec![Field::new(format!("{}[rows]", args.name), DataType::List(item.into()), true).into()])
    }
}

#[derive(Debug)]
struct OrderedTexts {
    converter: RowConverter,
    units_max: Option<usize>,
    rows: Vec<OwnedRow>,
    bytes: usize,
}

impl OrderedTexts {
    fn take(&mut self, row: OwnedRow) {
        self.bytes += row.row().as_ref().len() + size_of::<OwnedRow>();
        self.rows.push(row);
    }
}

impl Accumulator for OrderedTexts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = self.converter.convert_columns(values)?;
        for row in rows.iter() {
            self.take(row.owned());
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        let parser = self.converter.parser();
        for list in lists.iter().flatten() {
            let rows: &BinaryArray = list.as_binary();
            for bytes in rows.iter().flatten() {
                self.take(parser.parse(bytes).owned());
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let rows = BinaryArray::from_iter_values(self.rows.iter().map(|row| row.row().as_ref().to_vec()));
        let offsets = OffsetBuffer::from_lengths([rows.len()]);
        let item = Field::new_list_field(DataType::Binary, true);
        Ok(vec![ScalarValue::List(Arc::new(ListArray::new(item.into(), offsets, Arc::new(rows), None)))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.rows.sort_unstable_by(|a, b| a.row().cmp(&b.row()));
        let mut columns = self.converter.convert_rows(self.rows.iter().map(|row| row.row()))?;
        let lost = || DataFusionError::Internal("STRING_AGG lost an argument".into());
        let separators = columns.pop().ok_or_else(lost)?;
        let texts = columns.pop().ok_or_else(lost)?;
        let (Some(separators), Some(texts)) = (separators.as_string_view_opt(), texts.as_string_view_opt()) else {
            return Err(lost());
        };
        let mut joined: Option<String> = None;
        for row in (0..texts.len()).filter(|row| texts.is_valid(*row)) {
            match &mut joined {
                None => joined = Some(texts.value(row).to_string()),
                Some(joined) => {
                    if separators.is_valid(row) {
                        joined.push_str(separators.value(row));
                    }
                    joined.push_str(texts.value(row));
                }
            }
        }
        // A unit has at least a byte.
        let is_longer = |text: &String, max: usize| text.len() > max && text.encode_utf16().count() > max;
        if let (Some(text), Some(max)) = (&joined, self.units_max)
            && is_longer(text, max)
        {
            return Err(external(string_agg_too_long()));
        }
        Ok(ScalarValue::Utf8View(joined))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}
