//! A page laid out anew: the same rows in areas of other sizes.

use hobt_base::PAGE_SIZE;

use super::rows::put_row;
use crate::layout::{PageLayout, RowLayout};
use crate::row_page::{RowPage, StoredValue};
use crate::{PageBytes, PageDamage, PageHeader, RowImage, put_u16};

/// A page with less room than this is not laid out anew for another row: it would be again for each of the last rows.
const NEW_LAYOUT_FREE_MIN: usize = PAGE_SIZE / 32;

/// The page laid out anew with `row` added and room to grow, slot numbers unchanged; `None` if it is full.
pub(super) fn lay_out_with(
    view: &RowPage<'_>,
    page: &PageBytes,
    rows: &RowLayout,
    row: &RowImage,
) -> Result<Option<Box<PageBytes>>, PageDamage> {
    let variable_columns = (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some());
    // NULLs are copied without a look at their end offsets, so that only the order of all of them bounds the sum.
    if !variable_columns.clone().all(|column| view.ends_are_ordered(column)) {
        return Err(PageDamage::Structure { rule: "end offsets of a variable-length column" });
    }
    let old_count = view.row_count();
    let used: Vec<usize> =
        variable_columns.map(|column| view.variable_used(column) + row.value(column).map_or(0, <[u8]>::len)).collect();
    let variable: usize = used.iter().sum();
    let count = old_count + 1;
    let Some(free) = PAGE_SIZE.checked_sub(rows.page_bytes_bound(count, variable)) else {
        return Ok(None);
    };
    if free < NEW_LAYOUT_FREE_MIN && old_count > 0 {
        return Ok(None);
    }
    let average = variable.div_ceil(count).max(row.variable_bytes(rows) / 2);
    let mut capacity = rows.capacity_for(average).max(u16::try_from(count).expect("fewer rows than bytes"));
    let layout = loop {
        match rows.page_layout(capacity) {
            Some(layout) if usize::from(layout.variable_base) + variable <= PAGE_SIZE => break layout,
            _ if usize::from(capacity) > count => capacity -= 1,
            _ => return Ok(None),
        }
    };
    let mut fresh = Box::new([0u8; PAGE_SIZE]);
    let mut header = PageHeader::read(page)?;
    header.capacity = capacity;
    header.row_count = 0;
    header.write(&mut fresh);
    place_areas(&mut fresh, rows, layout, &used, variable);
    for slot in 0..old_count {
        let values: Result<Vec<StoredValue<'_>>, PageDamage> =
            (0..rows.columns().len()).map(|column| view.stored(column, slot)).collect();
        put_row(&mut fresh, rows, layout, slot, &RowImage::of_stored(values?));
    }
    let deleted = usize::from(layout.deleted);
    fresh[deleted..deleted + view.deleted().len()].copy_from_slice(view.deleted());
    // A deleted row's NULLs were counted again by put_row; the stored counts leave them out.
    for column in 0..rows.columns().len() {
        put_u16(
            &mut fresh,
            usize::from(layout.null_counts) + 2 * column,
            u16::try_from(view.null_count(column)).expect("a u16 in the page"),
        );
    }
    put_row(&mut fresh, rows, layout, old_count, row);
    header.flags = header.flags.with(row.flags());
    header.row_count = u16::try_from(count).expect("fewer rows than bytes");
    header.write(&mut fresh);
    Ok(Some(fresh))
}

/// Shares the free bytes among the variable areas in proportion to what each uses.
fn place_areas(page: &mut PageBytes, rows: &RowLayout, layout: &PageLayout, used: &[usize], variable: usize) {
    let free = PAGE_SIZE - usize::from(layout.variable_base) - variable;
    let mut at = usize::from(layout.variable_base);
    let weight: usize = used.iter().map(|bytes| bytes + 1).sum();
    for (rank, &used) in used.iter().enumerate() {
        layout.set_area_start(page, rank, u16::try_from(at).expect("in the page"));
        at += used + free * (used + 1) / weight;
    }
    let end = if rows.variable_count() == 0 { at } else { PAGE_SIZE };
    layout.set_area_start(page, rows.variable_count(), u16::try_from(end).expect("a page's size"));
}
