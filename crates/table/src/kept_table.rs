//! A table as a statement reads it, without the statement: what a kept plan has of it between executions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Column;
use hobt_base::DatabaseId;
use hobt_catalog::Table;
use hobt_engine::DatabaseUse;

use crate::access_path::AccessHint;
use crate::cardinality::{ColumnRows, LeafEstimate, Relation, WantedColumn};
use crate::join_way::JoinWay;
use crate::{RowReading, StatementRun, TableRead};

/// A [`TableRead`] without its statement and its use of the database, so that it keeps neither alive.
#[derive(Clone, Debug)]
pub struct KeptTable {
    database: DatabaseId,
    table: Arc<Table>,
    schema: SchemaRef,
    has_places: bool,
    reads_versions: bool,
    hint: AccessHint,
    join_way: JoinWay,
    row_reading: Option<RowReading>,
    /// The rows that estimates assumed when the plan was made.
    rows: u64,
}

impl KeptTable {
    /// A table without its statement. `None` if what is read belongs to one execution: a sample of its pages, or rows
    /// that others are changing.
    pub fn of(table: &TableRead) -> Option<KeptTable> {
        if table.sample.is_some() || table.unseen.is_some() {
            return None;
        }
        Some(KeptTable {
            database: table.database.id(),
            table: Arc::clone(&table.table),
            schema: Arc::clone(&table.schema),
            has_places: table.has_places,
            reads_versions: table.reads_versions,
            hint: table.hint,
            join_way: table.join_way,
            row_reading: table.row_reading,
            rows: table.expected_rows(),
        })
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The definition.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The rows that estimates assumed when the plan was made.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The table for the statement `run`, which uses `database` and holds the table's lock.
    pub fn read(&self, database: DatabaseUse, run: &Arc<StatementRun>) -> Arc<TableRead> {
        Arc::new(TableRead {
            database,
            table: Arc::clone(&self.table),
            run: Arc::clone(run),
            schema: Arc::clone(&self.schema),
            has_places: self.has_places,
            reads_versions: self.reads_versions,
            hint: self.hint,
            join_way: self.join_way,
            row_reading: self.row_reading,
            unseen: None,
            sample: None,
            remembered: Arc::default(),
        })
    }
}

/// What is known of a column of some rows, with the table that it comes from as a number.
#[derive(Clone, Debug)]
pub struct KeptColumn {
    known: ColumnRows,
    origin: Option<(usize, usize)>,
}

impl KeptColumn {
    /// Takes a column's table out of it. `number` gives the table's number.
    pub fn of(known: &ColumnRows, number: &mut dyn FnMut(&Arc<TableRead>) -> usize) -> KeptColumn {
        let origin = known.origin.as_ref().map(|origin| (number(origin.heap()), origin.column));
        KeptColumn { known: ColumnRows { origin: None, ..known.clone() }, origin }
    }

    /// The column, of these tables.
    pub fn of_tables(&self, tables: &[Arc<TableRead>]) -> ColumnRows {
        let table = self.origin.and_then(|(table, column)| Some((tables.get(table)?, column)));
        let origin = table.map(|(table, column)| Arc::new(WantedColumn::new(Arc::clone(table), column)));
        ColumnRows { origin, ..self.known.clone() }
    }
}

/// A [`LeafEstimate`] with the tables of its columns as numbers.
#[derive(Clone, Debug)]
pub struct KeptEstimate {
    rows: f64,
    columns: Vec<KeptColumn>,
}

impl KeptEstimate {
    /// Takes the columns' tables out of an estimate. `number` gives a table's number.
    pub fn of(estimate: &LeafEstimate, number: &mut dyn FnMut(&Arc<TableRead>) -> usize) -> KeptEstimate {
        let columns = estimate.columns.iter().map(|column| KeptColumn::of(column, number)).collect();
        KeptEstimate { rows: estimate.rows, columns }
    }

    /// The estimate, of these tables.
    pub fn of_tables(&self, tables: &[Arc<TableRead>]) -> LeafEstimate {
        let columns = self.columns.iter().map(|column| column.of_tables(tables)).collect();
        LeafEstimate { rows: self.rows, columns }
    }
}

/// A [`Relation`] with the tables of its columns as numbers.
#[derive(Clone, Debug)]
pub struct KeptRelation {
    relation: Relation,
    columns: Vec<(Column, KeptColumn)>,
}

impl KeptRelation {
    /// Takes the columns' tables out of a relation. `number` gives a table's number.
    pub fn of(relation: &Relation, number: &mut dyn FnMut(&Arc<TableRead>) -> usize) -> KeptRelation {
        let kept = |(name, known): (&Column, &ColumnRows)| (name.clone(), KeptColumn::of(known, number));
        let columns = relation.columns().iter().map(kept).collect();
        KeptRelation { relation: relation.with_columns(HashMap::new()), columns }
    }

    /// The relation, of these tables.
    pub fn of_tables(&self, tables: &[Arc<TableRead>]) -> Relation {
        let columns = self.columns.iter().map(|(name, known)| (name.clone(), known.of_tables(tables)));
        self.relation.with_columns(columns.collect())
    }
}
