//! Scans and seeks of a tree, in steps.

use std::future::poll_fn;
use std::sync::Arc;

use hobt_access::scan::{
    ColumnKind, ColumnVector, Counts, KeyPlace, KeyPlaces, PageVisitor, Scan, ScanSettings, ScanWorker, ShownPage,
    VectorData,
};
use hobt_access::{AccessError, BTree, RowStore, TreeSeek};
use hobt_base::SplitMix64;
use hobt_txn::StatementContext;

use crate::btree::Model;
use crate::world::{Collect, Row, block_on, sorted};

/// Takes one page at a time.
#[derive(Default)]
pub(in crate::btree) struct OneByOne {
    pub(in crate::btree) all: Collect,
    is_full: bool,
}

impl PageVisitor for OneByOne {
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> Result<(), AccessError> {
        self.is_full = true;
        self.all.visit(shown)
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}

/// A scan that continues from page to page as long as it is asked to.
pub(in crate::btree) struct Walk {
    pub(in crate::btree) worker: ScanWorker,
    pub(in crate::btree) rows: OneByOne,
}

impl Walk {
    pub(in crate::btree) fn begin(tree: &Arc<BTree>, context: &Arc<StatementContext>, settings: ScanSettings) -> Walk {
        let scan = Scan::new(&[RowStore::Tree(Arc::clone(tree))], 1, settings, Arc::clone(context), Arc::default());
        Walk { worker: ScanWorker::new(scan.expect("a scan")), rows: OneByOne::default() }
    }

    /// Continues for some pages; returns whether there are more.
    pub(in crate::btree) fn go_on(&mut self, pages: u64) -> bool {
        (0..pages).all(|_| {
            self.rows.is_full = false;
            match block_on(poll_fn(|task| self.worker.poll_range(task, &mut self.rows))) {
                Some(shown) => shown.is_ok_and(|()| true),
                None => false,
            }
        })
    }

    pub(in crate::btree) fn finish(mut self) -> Vec<Row> {
        while self.go_on(1) {}
        sorted(self.rows.all.rows)
    }
}

pub(in crate::btree) fn count(tree: &Arc<BTree>, context: &Arc<StatementContext>, settings: ScanSettings) -> u64 {
    let scan = Scan::new(&[RowStore::Tree(Arc::clone(tree))], 1, settings, Arc::clone(context), Arc::default());
    let mut worker = ScanWorker::new(scan.expect("a scan"));
    let mut counts = Counts::new(vec![0]);
    while let Some(range) = block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
        range.expect("readable");
    }
    counts.rows()
}

pub(in crate::btree) fn rows_of(model: &Model) -> Vec<Row> {
    sorted(model.values().cloned().collect())
}

pub(in crate::btree) fn settings(random: &mut SplitMix64) -> ScanSettings {
    let pool_share_percent = if random.below(2) == 0 { 0 } else { 1_000_000 };
    ScanSettings { read_pages: 8, pool_share_percent, read_ahead: random.below(5) > 0, ..ScanSettings::default() }
}

/// The values of a vector, in the form of rows' values.
pub(in crate::btree) fn values_of(vector: &ColumnVector) -> Vec<Option<Vec<u8>>> {
    let bytes: Vec<Vec<u8>> = match &vector.data {
        VectorData::U8(values) => values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
        VectorData::I16(values) => values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
        VectorData::I32(values) => values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
        VectorData::I64(values) => values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
        VectorData::I128(values) => values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
        VectorData::Bytes16(values) => values.chunks(16).map(<[u8]>::to_vec).collect(),
        VectorData::Views { views, bytes, .. } => {
            let value = |view: &u128| {
                let (length, offset) = (*view as u32 as usize, (view >> 96) as usize);
                let inline = || view.to_le_bytes()[4..4 + length].to_vec();
                if length <= 12 { inline() } else { bytes[offset..offset + length].to_vec() }
            };
            views.iter().map(value).collect()
        }
    };
    let is_valid = |row: usize| vector.validity.is_empty() || vector.validity[row / 8] >> (row % 8) & 1 == 1;
    bytes.into_iter().enumerate().map(|(row, bytes)| is_valid(row).then_some(bytes)).collect()
}

/// The keys and rows that a seek shows from now on, for at most so many leaves; and whether that is all.
pub(in crate::btree) fn seen_by(seek: &mut TreeSeek, leaves: u64) -> (Vec<(Vec<u8>, Row)>, bool) {
    let layout = Arc::clone(seek.tree().hobt().row_layout());
    let columns = layout.columns().iter().enumerate();
    let mut vectors: Vec<ColumnVector> =
        columns.map(|(place, column)| ColumnVector::new(place, column.physical, ColumnKind::Native, false)).collect();
    let mut places = KeyPlaces::new(99);
    let mut is_all = false;
    for _ in 0..leaves {
        is_all = !seek.advance().expect("readable");
        if is_all {
            break;
        }
        let leaf = seek.leaf();
        let mut slots = Vec::new();
        leaf.append_live(&mut slots).expect("sound");
        for vector in &mut vectors {
            vector.append_slots(leaf.id, &leaf.page, &slots, &seek.large_values()).expect("sound");
        }
        places.append_slots(7, seek.tree(), leaf.id, &leaf.page, &slots).expect("sound");
    }
    let columns: Vec<_> = vectors.iter().map(values_of).collect();
    let key = |place: Option<Vec<u8>>| {
        let place = place.expect("no place is NULL");
        let place = KeyPlace::read(&place).expect("a whole place");
        assert_eq!(place.partition, 7);
        place.key.to_vec()
    };
    let keys = values_of(places.vector()).into_iter().map(key);
    let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
    (keys.enumerate().map(|(place, key)| (key, row(place))).collect(), is_all)
}
