//! Laying a page out again: its rows, or some of them, in areas of other sizes.

use hobt_base::PAGE_SIZE;

use super::rows::put_value;
use crate::layout::{PageLayout, RowLayout};
use crate::row_page::{RowPage, StoredValue, check_row_page};
use crate::{PageBytes, PageDamage, PageFlags, PageHeader, RowImage};

/// A page with less room than this is not laid out again for another row: otherwise this would repeat for each of the
/// last rows.
const NEW_LAYOUT_FREE_MIN: usize = PAGE_SIZE / 32;

/// The source of the row in a slot of the new page.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The slot in the old page.
    slot: usize,
    /// The new row, if it differs from what the slot held.
    row: Option<&'a RowImage>,
}

impl<'a> Source<'a> {
    fn slot(slot: usize) -> Source<'a> {
        Source { slot, row: None }
    }

    fn value(&self, view: &RowPage<'a>, column: usize) -> Result<StoredValue<'a>, PageDamage> {
        match self.row {
            Some(row) => Ok(row.stored(column)),
            None => view.stored(column, self.slot),
        }
    }
}

/// Lays the page out again with room for `added` and to grow, slot numbers and order unchanged; `None` if it is full.
pub(super) fn lay_out_for<'a>(view: &RowPage<'a>, added: &'a RowImage) -> Result<Option<Box<PageBytes>>, PageDamage> {
    let sources: Vec<Source<'_>> = (0..view.row_count()).map(Source::slot).collect();
    let fresh = lay_out(view, &sources, Some(added))?;
    Ok(fresh.map(|fresh| with_order_of(view, fresh)))
}

/// Lays the page out again with another row in `slot`, slot numbers and order unchanged; `None` if it has no room.
pub(super) fn lay_out_with<'a>(
    view: &RowPage<'a>,
    slot: usize,
    row: &'a RowImage,
) -> Result<Option<Box<PageBytes>>, PageDamage> {
    let mut sources: Vec<Source<'_>> = (0..view.row_count()).map(Source::slot).collect();
    sources[slot].row = Some(row);
    let fresh = lay_out(view, &sources, None)?;
    Ok(fresh.map(|fresh| with_order_of(view, fresh)))
}

/// Lays the page out again with only the rows of these slots, numbered and ordered as given.
pub(super) fn lay_out_slots(view: &RowPage<'_>, slots: &[usize]) -> Result<Box<PageBytes>, PageDamage> {
    let sources: Vec<Source<'_>> = slots.iter().copied().map(Source::slot).collect();
    let mut fresh = lay_out(view, &sources, None)?.ok_or(PageDamage::Structure { rule: "byte areas of a row page" })?;
    let header = PageHeader::read(&fresh)?;
    let layout = view.row_layout().page_layout(header.capacity).expect("just laid out");
    (0..slots.len()).for_each(|slot| layout.put_slot_at(&mut fresh, slot, slot));
    Ok(fresh)
}

/// `fresh` with the order of `view`. Both hold the rows in equal slots.
fn with_order_of(view: &RowPage<'_>, mut fresh: Box<PageBytes>) -> Box<PageBytes> {
    if view.row_layout().is_ordered() {
        let capacity = crate::u16_at(&fresh, 50);
        let layout = view.row_layout().page_layout(capacity).expect("just laid out");
        for (position, slot) in view.order().enumerate() {
            layout.put_slot_at(&mut fresh, position, slot.expect("checked before the page was laid out"));
        }
    }
    fresh
}

/// The page with these rows, without an order; `None` if they do not fit, or would leave too little room for `added`.
fn lay_out(
    view: &RowPage<'_>,
    sources: &[Source<'_>],
    added: Option<&RowImage>,
) -> Result<Option<Box<PageBytes>>, PageDamage> {
    let rows = view.row_layout();
    // Check first: damage must not be copied into a page that looks sound.
    check_row_page(view.bytes(), rows)?;
    let mut used = Vec::with_capacity(rows.variable_count());
    for column in (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some()) {
        let mut bytes = added.map_or(0, |row| row.stored(column).byte_count());
        for source in sources {
            bytes += source.value(view, column)?.byte_count();
        }
        used.push(bytes);
    }
    let variable: usize = used.iter().sum();
    let count = sources.len() + usize::from(added.is_some());
    if added.is_some() {
        let free = PAGE_SIZE.checked_sub(rows.page_bytes_bound(count, variable));
        if free.is_none_or(|free| free < NEW_LAYOUT_FREE_MIN && !sources.is_empty()) {
            return Ok(None);
        }
    }
    let average = variable.div_ceil(count.max(1)).max(added.map_or(0, |row| row.variable_bytes(rows) / 2));
    let mut capacity = rows.capacity_for(average).max(u16::try_from(count).expect("fewer rows than bytes"));
    let layout = loop {
        match rows.page_layout(capacity) {
            Some(layout) if usize::from(layout.variable_base) + variable <= PAGE_SIZE => break layout,
            _ if usize::from(capacity) > count => capacity -= 1,
            _ => return Ok(None),
        }
    };
    let mut header = PageHeader::read(view.bytes())?;
    let mut fresh = Box::new([0u8; PAGE_SIZE]);
    header.flags = header.flags.without(PageFlags::HAS_POINTERS);
    header.capacity = capacity;
    header.row_count = u16::try_from(sources.len()).expect("fewer rows than bytes");
    header.deleted_count = 0;
    place_areas(&mut fresh, rows, layout, &used, variable);
    for column in 0..rows.columns().len() {
        for (slot, source) in sources.iter().enumerate() {
            let value = source.value(view, column)?;
            header.flags = header.flags.with(value.flags());
            put_value(&mut fresh, rows, layout, (column, slot), value, !view.is_deleted(source.slot));
        }
    }
    for (slot, _) in sources.iter().enumerate().filter(|(_, source)| view.is_deleted(source.slot)) {
        fresh[usize::from(layout.deleted) + slot / 8] |= 1 << (slot % 8);
        header.deleted_count += 1;
    }
    header.write(&mut fresh);
    Ok(Some(fresh))
}

/// Divides the free bytes among the variable areas in proportion to what each uses.
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
