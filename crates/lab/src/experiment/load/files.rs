//! The files of the experiment: LINEITEM in parts, in each form that is loaded.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use encoding_rs::WINDOWS_1252;
use hobt_files::format_file::{FileStyle, TableColumn};
use hobt_files::record::RecordLayout;
use hobt_files::write::{Column, CsvOptions, FileWriter, Format, Timestamps, WriteOptions};
use hobt_functions::array_value;
use hobt_types::SqlType;

use crate::data::{Batches, TpchTable};
use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;

/// A form of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::experiment) enum FileKind {
    Csv,
    Native,
    Parquet,
}

impl FileKind {
    pub(super) const ALL: [FileKind; 3] = [FileKind::Csv, FileKind::Native, FileKind::Parquet];

    pub(super) fn name(self) -> &'static str {
        match self {
            FileKind::Csv => "csv",
            FileKind::Native => "native",
            FileKind::Parquet => "parquet",
        }
    }

    /// What `BULK INSERT` says of it.
    fn options(self) -> &'static str {
        match self {
            FileKind::Csv => "FORMAT = 'CSV'",
            FileKind::Native => "DATAFILETYPE = 'native'",
            FileKind::Parquet => "FORMAT = 'PARQUET'",
        }
    }
}

/// The files of one form.
pub(in crate::experiment) struct Parts {
    pub(super) kind: FileKind,
    files: Vec<PathBuf>,
    pub(in crate::experiment) rows: u64,
    pub(in crate::experiment) bytes: u64,
}

/// The names and types of LINEITEM's columns, none of which may be NULL.
fn columns() -> Vec<(&'static str, SqlType)> {
    use hobt_types::MaxLength::Limited;
    let money = SqlType::Decimal { precision: 15, scale: 2 };
    vec![
        ("l_orderkey", SqlType::BigInt),
        ("l_partkey", SqlType::Int),
        ("l_suppkey", SqlType::Int),
        ("l_linenumber", SqlType::Int),
        ("l_quantity", money),
        ("l_extendedprice", money),
        ("l_discount", money),
        ("l_tax", money),
        ("l_returnflag", SqlType::Char(1)),
        ("l_linestatus", SqlType::Char(1)),
        ("l_shipdate", SqlType::Date),
        ("l_commitdate", SqlType::Date),
        ("l_receiptdate", SqlType::Date),
        ("l_shipinstruct", SqlType::Char(25)),
        ("l_shipmode", SqlType::Char(10)),
        ("l_comment", SqlType::VarChar(Limited(44))),
    ]
}

impl Parts {
    /// Writes LINEITEM of a scale factor into `count` files below the laboratory's folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(in crate::experiment) fn write(lab: &Laboratory, kind: FileKind, scale: f64, count: usize) -> Result<Parts> {
        // Relative names of files begin in the instance's folder.
        let folder = std::path::absolute(lab.folder().join("load")).map_err(|error| wrong(lab.folder(), error))?;
        fs::create_dir_all(&folder).map_err(|error| wrong(&folder, error))?;
        let parts = i32::try_from(count).unwrap_or(1);
        let mut made = Parts { kind, files: Vec::new(), rows: 0, bytes: 0 };
        for part in 1..=parts {
            let path = folder.join(format!("lineitem_{part}.{}", kind.name()));
            let batches = TpchTable::LineItem.batches(scale, part, parts);
            made.rows += match kind {
                FileKind::Csv => {
                    write_file(&path, Format::Csv(CsvOptions { has_header: false, ..CsvOptions::default() }), batches)?
                }
                FileKind::Parquet => write_file(&path, Format::Parquet(Timestamps::default()), batches)?,
                FileKind::Native => write_native(&path, batches)?,
            };
            made.bytes += fs::metadata(&path).map_err(|error| wrong(&path, error))?.len();
            made.files.push(path);
        }
        Ok(made)
    }

    /// The batch by which stream `stream` (from 0) of `streams` loads its share.
    pub(in crate::experiment) fn statement(&self, table: &str, stream: usize, streams: usize) -> String {
        let share = self.files.iter().skip(stream).step_by(streams);
        let loads = share.map(|file| {
            let file = file.display().to_string().replace('\'', "''");
            format!("BULK INSERT dbo.{table} FROM '{file}' WITH ({}, TABLOCK)", self.kind.options())
        });
        loads.collect::<Vec<_>>().join(";\n")
    }

    /// Removes the files, and their folder if nothing else is in it.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(in crate::experiment) fn remove(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| fs::remove_file(file).map_err(|error| wrong(file, error)))?;
        if let Some(folder) = self.files.first().and_then(|file| file.parent()) {
            // It has files of other forms.
            let _left = fs::remove_dir(folder);
        }
        Ok(())
    }
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> LabError {
    LabError::Wrong(format!("{}: {error}", path.display()))
}

fn write_file(path: &Path, format: Format, batches: Batches) -> Result<u64> {
    let options = WriteOptions { replaces: true, ..WriteOptions::new(format) };
    let columns =
        columns().into_iter().map(|(name, sql_type)| Column { name: name.to_owned(), sql_type, nullable: false });
    let mut writer = FileWriter::create(path, columns.collect(), &options).map_err(|error| wrong(path, error))?;
    for batch in batches {
        writer.write(batch).map_err(|error| wrong(path, error))?;
    }
    let written = writer.finish().and_then(|file| file.publish()).map_err(|error| wrong(path, error))?;
    Ok(written.rows)
}

fn write_native(path: &Path, batches: Batches) -> Result<u64> {
    let described: Vec<TableColumn> = columns()
        .into_iter()
        .map(|(name, sql_type)| TableColumn { name: name.to_owned(), sql_type, nullable: false, collation: None })
        .collect();
    let layout = RecordLayout::for_table(&described, &FileStyle::Native).map_err(|error| wrong(path, error))?;
    let mut out = BufWriter::new(File::create(path).map_err(|error| wrong(path, error))?);
    let (mut rows, mut record) = (0, Vec::new());
    for batch in batches {
        for row in 0..batch.num_rows() {
            record.clear();
            for ((field, column), array) in layout.fields().iter().zip(&described).zip(batch.columns()) {
                let value = array_value(array, row, column.sql_type).map_err(|error| wrong(path, error))?;
                let written = field.write(&value, column.sql_type, WINDOWS_1252, &mut record);
                written.map_err(|error| wrong(path, format!("{error:?}")))?;
            }
            out.write_all(&record).map_err(|error| wrong(path, error))?;
        }
        rows += batch.num_rows() as u64;
    }
    out.flush().map_err(|error| wrong(path, error))?;
    Ok(rows)
}
