//! The rows of the system tables. Column names are SQL Server's where it has the column.

use super::field::{Field, Text, Timestamp};
use super::{FieldDefinition, SystemRow, SystemTable, Value};

/// Defines a struct as the row of a system table.
macro_rules! system_row {
    (
        $(#[$doc:meta])*
        $row:ident, $table:expr => {
            $( $(#[$field_doc:meta])* $field:ident : $type:ty = $name:literal, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $row {
            $( $(#[$field_doc])* pub $field: $type, )*
        }

        impl SystemRow for $row {
            const TABLE: SystemTable = $table;
            const FIELDS: &'static [FieldDefinition] = &[
                $( FieldDefinition {
                    name: $name,
                    sql_type: <$type as Field>::SQL_TYPE,
                    nullable: <$type as Field>::NULLABLE,
                }, )*
            ];

            fn to_values(&self) -> Vec<Value> {
                vec![ $( self.$field.to_value(), )* ]
            }

            fn from_values(values: Vec<Value>) -> Option<Self> {
                let mut values = values.into_iter();
                let row = $row { $( $field: Field::from_value(values.next()?)?, )* };
                values.next().is_none().then_some(row)
            }
        }
    };
}

pub(super) use system_row;

system_row! {
    /// A table, view, function, procedure or sequence.
    ObjectRow, SystemTable::Objects => {
        /// The object.
        id: i32 = "id",
        /// Its schema.
        schema: i32 = "nsid",
        /// Its name.
        name: String = "name",
        /// `U`, `V`, `IF`, `FN`, `TF`, `P`, `SO`.
        kind: String = "type",
        /// When it was created.
        created: Timestamp = "created",
        /// The version of a table's column layout; 0 if it is not a table.
        layout_version: i32 = "layout",
        /// `LOCK_ESCALATION`: 0 TABLE, 1 DISABLE, 2 AUTO.
        lock_escalation: u8 = "escalation",
    }
}

system_row! {
    /// A column of a table.
    ColumnRow, SystemTable::Columns => {
        /// The table.
        table: i32 = "id",
        /// The column's id; columns are ordered by it.
        column: i32 = "colid",
        /// Its name.
        name: String = "name",
        /// `system_type_id`.
        type_id: u8 = "xtype",
        /// The declared length: characters or bytes, −1 for `max`, 0 if the type has none.
        length: i16 = "length",
        /// The precision of a decimal.
        precision: u8 = "prec",
        /// The scale of a decimal or a time.
        scale: u8 = "scale",
        /// Whether NULL is allowed.
        nullable: bool = "nullable",
        /// The collation's name, of text.
        collation: Option<String> = "collation",
        /// `IDENTITY`: the first value.
        identity_seed: Option<i64> = "idtseed",
        /// `IDENTITY`: the step.
        identity_increment: Option<i64> = "idtincrement",
        /// `ROWGUIDCOL`.
        is_rowguid: bool = "rowguidcol",
        /// 0 not computed, 1 computed and not stored, 2 computed and stored.
        computed: u8 = "computed",
    }
}

system_row! {
    /// A heap or an index.
    IndexRow, SystemTable::Indexes => {
        /// The table.
        table: i32 = "id",
        /// The index's id.
        index: i32 = "indid",
        /// Its name; a heap has none.
        name: Option<String> = "name",
        /// 0 heap, 1 clustered, 2 nonclustered.
        kind: u8 = "type",
        /// A filegroup or a partition scheme.
        data_space: i32 = "dataspace",
        /// The id of the partitioning column; NULL in a filegroup.
        partition_column: Option<i32> = "partcolid",
        /// Its options and the kind of its constraint, one bit each.
        status: i32 = "status",
        /// `FILLFACTOR`.
        fill_factor: u8 = "fillfact",
        /// The object id of its constraint.
        constraint: Option<i32> = "constraintid",
    }
}

system_row! {
    /// A column of an index.
    IndexColumnRow, SystemTable::IndexColumns => {
        /// The table.
        table: i32 = "idmajor",
        /// The index.
        index: i32 = "idminor",
        /// Its place among the index's columns, from 1.
        place: i32 = "subid",
        /// The table's column.
        column: i32 = "intprop",
        /// Whether it is an included column and not a key column.
        is_included: bool = "included",
        /// `DESC`.
        is_descending: bool = "descending",
    }
}

system_row! {
    /// A partition of an index: a HOBT.
    RowsetRow, SystemTable::Rowsets => {
        /// The HOBT.
        hobt: i64 = "rowsetid",
        /// The table.
        table: i32 = "idmajor",
        /// The index.
        index: i32 = "idminor",
        /// The partition, from 1.
        number: i32 = "numpart",
        /// Its filegroup.
        filegroup: i16 = "fgidfs",
        /// The file of the first page of its run list.
        run_list_file: i16 = "runfile",
        /// That page's number, its bits as a signed integer.
        run_list_page: i32 = "runpage",
    }
}

system_row! {
    /// A schema.
    SchemaRow, SystemTable::Schemas => {
        /// Its id.
        id: i32 = "id",
        /// Its name.
        name: String = "name",
    }
}

system_row! {
    /// A piece of a long value.
    ValueRow, SystemTable::Values => {
        /// What the value belongs to: see `long_value.rs`.
        class: u8 = "valclass",
        /// The object.
        id: i32 = "objid",
        /// The part of the object: a column, a boundary.
        sub_id: i32 = "subobjid",
        /// The piece's place, from 0.
        piece: i32 = "valnum",
        /// Its bytes; NULL for a value that is NULL.
        value: Option<Vec<u8>> = "imageval",
    }
}

system_row! {
    /// A DEFAULT constraint; its text is a long value.
    DefaultRow, SystemTable::Defaults => {
        /// The table.
        table: i32 = "id",
        /// The column's id.
        column: i32 = "colid",
        /// The constraint's name.
        name: String = "name",
    }
}

system_row! {
    /// A partition function; its boundaries are long values.
    FunctionRow, SystemTable::Functions => {
        /// Its id.
        id: i32 = "id",
        /// Its name.
        name: String = "name",
        /// `system_type_id` of the parameter.
        type_id: u8 = "xtype",
        /// As in a column.
        length: i16 = "length",
        /// As in a column.
        precision: u8 = "prec",
        /// As in a column.
        scale: u8 = "scale",
        /// The collation's name, of text.
        collation: Option<String> = "collation",
        /// `RANGE RIGHT`.
        range_right: bool = "rangeright",
        /// The number of boundaries.
        boundaries: i32 = "boundaries",
    }
}

system_row! {
    /// A partition scheme.
    SchemeRow, SystemTable::Schemes => {
        /// Its id.
        id: i32 = "id",
        /// Its name.
        name: String = "name",
        /// Its function.
        function: i32 = "function",
        /// The filegroup marked NEXT USED.
        next_used: Option<i16> = "nextused",
    }
}

system_row! {
    /// The filegroup of a partition of a scheme.
    DestinationRow, SystemTable::Destinations => {
        /// The scheme.
        scheme: i32 = "id",
        /// The partition, from 1.
        number: i32 = "numpart",
        /// Its filegroup.
        filegroup: i16 = "fgid",
    }
}

system_row! {
    /// A filegroup.
    FilegroupRow, SystemTable::Filegroups => {
        /// Its id.
        id: i16 = "fgid",
        /// Its name.
        name: String = "name",
        /// Whether new objects go there.
        is_default: bool = "isdefault",
    }
}

system_row! {
    /// A data file of this database. Its path is only in `master`, so that a folder can be moved.
    FileRow, SystemTable::Files => {
        /// Its id.
        id: i16 = "fileid",
        /// Its filegroup.
        filegroup: i16 = "grpid",
        /// Its logical name.
        name: String = "lname",
    }
}

system_row! {
    /// A database of the instance.
    DatabaseRow, SystemTable::Databases => {
        /// Its id.
        id: i16 = "id",
        /// Its name.
        name: String = "name",
        /// Its guid, as in its files' headers.
        guid: [u8; 16] = "guid",
        /// When it was created.
        created: Timestamp = "created",
        /// 1 for `ALLOW_SNAPSHOT_ISOLATION`, 2 for `READ_COMMITTED_SNAPSHOT`, 65536 while it is being restored, 131072
        /// while it is a standby, 262144 for a snapshot, which has the guid of its source, 524288 for one that is lost,
        /// added up.
        isolation: i32 = "isolation",
        /// Whether it is listed and must not be opened.
        is_offline: bool = "isoffline",
    }
}

system_row! {
    /// The path of a file of a database.
    DatabaseFileRow, SystemTable::DatabaseFiles => {
        /// The database.
        database: i16 = "dbid",
        /// The file.
        file: i16 = "fileid",
        /// Whether it is a log file.
        is_log: bool = "islog",
        /// Whether it was removed from the database, and may still exist.
        is_removed: bool = "isremoved",
        /// Its path; relative to the instance's folder if it lies in that folder.
        path: Text = "pname",
    }
}
