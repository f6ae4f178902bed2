//! Functions about tables and other objects, their columns, schemas and types.

use hobt_base::{DatabaseId, ObjectId};
use hobt_catalog::{DatabaseSnapshot, IdentityColumn, ModuleKind, Table, name_equals};
use hobt_types::{SqlType, Value};

use super::constraints::{self, ConstraintKind};
use super::{
    Function, LONG, NAME, World, index_functions, int, int_of, parse_name, split_name, text, text_of, type_names,
};

/// The type of identity values.
const IDENTITY: SqlType = SqlType::Decimal { precision: 38, scale: 0 };

/// The function of this name, in upper case.
pub(super) fn find(name: &str) -> Option<Function> {
    Some(match name {
        "OBJECT_ID" => ((1, 2), SqlType::Int, |world, a| int(object_id(world, a))),
        "OBJECT_NAME" => ((1, 2), NAME, |world, a| text(object_name(world, a).map(|(_, name)| name))),
        "OBJECT_SCHEMA_NAME" => ((1, 2), NAME, |world, a| text(object_name(world, a).map(|(schema, _)| schema))),
        "OBJECT_DEFINITION" => ((1, 1), LONG, |world, a| {
            let snapshot = world.database.snapshot();
            let module = int_of(a, 0).and_then(|id| snapshot.modules.get(&ObjectId(id)));
            let module = module.filter(|module| module.kind.is_program());
            text(module.map(|module| module.definition.clone()))
        }),
        "OBJECTPROPERTY" => ((2, 2), SqlType::Int, |world, a| int(object_property(world, a))),
        // In SQL Server the result is a `sql_variant`. Here all results are text.
        "OBJECTPROPERTYEX" => ((2, 2), NAME, |world, a| {
            text(match text_of(a, 1).eq_ignore_ascii_case("BaseType") {
                true => base_type(world, a).map(|letters| format!("{letters:<2}")),
                false => object_property(world, a).map(|number| number.to_string()),
            })
        }),
        "INDEXPROPERTY" => ((3, 3), SqlType::Int, |world, a| int(index_functions::property(world, a))),
        "INDEX_COL" => ((3, 3), NAME, |world, a| text(index_functions::column(world, a))),
        "INDEXKEY_PROPERTY" => ((4, 4), SqlType::Int, |world, a| int(index_functions::key_property(world, a))),
        "STATS_DATE" => ((2, 2), SqlType::DateTime, |world, a| index_functions::statistics_date(world, a)),
        "SCHEMA_NAME" => ((0, 1), NAME, |world, a| {
            let id = if a.is_empty() { Some(1) } else { int_of(a, 0) };
            let snapshot = world.database.snapshot();
            text(id.and_then(|id| snapshot.schema_by_id(id)).map(|schema| schema.name.clone()))
        }),
        "SCHEMA_ID" => ((0, 1), SqlType::Int, |world, a| {
            let name = if a.is_empty() { "dbo".to_owned() } else { text_of(a, 0) };
            int(world.database.snapshot().schema_id(&name).map(i64::from))
        }),
        "COL_NAME" => ((2, 2), NAME, |world, a| text(column_name(world, a))),
        "COL_LENGTH" => ((2, 2), SqlType::SmallInt, |world, a| int(column_length(world, a))),
        "COLUMNPROPERTY" => ((3, 3), SqlType::Int, |world, a| int(column_property(world, a))),
        "IDENT_SEED" => ((1, 1), IDENTITY, |world, a| decimal(identity(world, a).map(|identity| identity.seed.into()))),
        "IDENT_INCR" => {
            ((1, 1), IDENTITY, |world, a| decimal(identity(world, a).map(|identity| identity.increment.into())))
        }
        "IDENT_CURRENT" => ((1, 1), IDENTITY, |world, a| decimal(last_identity(world, &text_of(a, 0)))),
        "TYPE_NAME" => ((1, 1), NAME, |_, a| {
            text(type_names().find(|(_, id)| Some(*id) == int_of(a, 0)).map(|(name, _)| name.to_owned()))
        }),
        "TYPE_ID" => ((1, 1), SqlType::Int, |_, a| {
            let name = text_of(a, 0).to_lowercase();
            int(type_names().find(|(type_name, _)| *type_name == name).map(|(_, id)| i64::from(id)))
        }),
        "PARSENAME" => ((2, 2), NAME, |_, a| text(name_part(a))),
        _ => return None,
    })
}

fn decimal(answer: Option<i128>) -> Value {
    answer.map_or(Value::Null, Value::Decimal)
}

/// A column, stored or not, as functions describe it.
struct KnownColumn {
    id: i32,
    name: String,
    sql_type: SqlType,
    is_nullable: bool,
    is_identity: bool,
    is_rowguid: bool,
    is_computed: bool,
}

/// All columns of a table.
fn columns(table: &Table) -> impl Iterator<Item = KnownColumn> {
    let stored = table.columns.iter().map(|column| KnownColumn {
        id: column.id,
        name: column.name.clone(),
        sql_type: column.sql_type,
        is_nullable: column.nullable,
        is_identity: column.identity.is_some(),
        is_rowguid: column.is_rowguid,
        is_computed: column.computed.is_some(),
    });
    let others = table.virtual_columns.iter().map(|column| KnownColumn {
        id: column.id,
        name: column.name.clone(),
        sql_type: column.sql_type,
        is_nullable: column.nullable,
        is_identity: false,
        is_rowguid: false,
        is_computed: true,
    });
    stored.chain(others)
}

/// The columns of a system view or of a system table function. Empty if there is none with this id.
fn columns_of_view(world: &World, id: ObjectId) -> Vec<KnownColumn> {
    let views = &world.environment.views;
    let view = views.view_name(id).and_then(|(schema, name)| views.view(schema, name));
    let columns = view.iter().flat_map(|view| view.columns.iter()).zip(1..);
    let known = columns.map(|(column, id)| KnownColumn {
        id,
        name: column.name.to_owned(),
        sql_type: column.sql_type,
        is_nullable: column.nullable,
        is_identity: false,
        is_rowguid: false,
        is_computed: false,
    });
    known.collect()
}

/// The first column of a table or system view that satisfies `is_it`.
fn column_of(world: &World, id: ObjectId, is_it: impl Fn(&KnownColumn) -> bool) -> Option<KnownColumn> {
    let snapshot = world.database.snapshot();
    match snapshot.tables.get(&id) {
        Some(table) => columns(table).find(is_it),
        None => columns_of_view(world, id).into_iter().find(is_it),
    }
}

fn column_name(world: &World, arguments: &[Value]) -> Option<String> {
    let (table, id) = (int_of(arguments, 0)?, int_of(arguments, 1)?);
    column_of(world, ObjectId(table), |known| known.id == id).map(|column| column.name)
}

fn column_length(world: &World, arguments: &[Value]) -> Option<i64> {
    let (database, schema, name) = split_name(world, &text_of(arguments, 0))?;
    let snapshot = database.snapshot();
    let table = snapshot.schema_id(&schema).and_then(|schema| snapshot.table(schema, &name));
    let wanted = text_of(arguments, 1);
    let is_it = |column: &KnownColumn| name_equals(&column.name, &wanted);
    let column = match table {
        Some(table) => columns(table).find(is_it),
        None => columns_of_view(world, world.environment.views.view_id(&schema, &name)?).into_iter().find(is_it),
    };
    Some(i64::from(column?.sql_type.max_length_bytes()))
}

/// The seed and the increment of a table's identity column.
fn identity(world: &World, arguments: &[Value]) -> Option<IdentityColumn> {
    let (database, schema, name) = split_name(world, &text_of(arguments, 0))?;
    let snapshot = database.snapshot();
    let table = snapshot.table(snapshot.schema_id(&schema)?, &name)?;
    table.columns.iter().find_map(|column| column.identity)
}

fn object_id(world: &World, arguments: &[Value]) -> Option<i64> {
    let (database, schema, name) = split_name(world, &text_of(arguments, 0))?;
    let kind = text_of(arguments, 1).to_uppercase();
    let snapshot = database.snapshot();
    let wanted = |letters: &str| kind.is_empty() || kind == letters;
    let in_catalog = snapshot.schema_id(&schema).and_then(|schema| {
        let table = snapshot.table(schema, &name).filter(|table| wanted(if table.is_system { "S" } else { "U" }));
        let module = snapshot.module(schema, &name).filter(|module| module.kind.is_object());
        let module = module.filter(|module| wanted(module.kind.type_code()));
        let sequence = snapshot.sequence(schema, &name).filter(|_| wanted("SO"));
        let constraint = || {
            let mut constraints = constraints::of_database(&snapshot);
            constraints.find(|known| {
                known.table.schema == schema && name_equals(known.name, &name) && wanted(known.kind.type_code())
            })
        };
        let found = table.map(|table| table.id).or(module.map(|module| module.id));
        found.or(sequence.map(|sequence| sequence.id)).or_else(|| constraint().map(|known| known.id))
    });
    let id = in_catalog.or_else(|| world.environment.views.view_id(&schema, &name).filter(|_| wanted("V")))?;
    Some(i64::from(id.0))
}

/// The schema and name of an object.
fn object_name(world: &World, arguments: &[Value]) -> Option<(String, String)> {
    let id = ObjectId(int_of(arguments, 0)?);
    let database = match arguments.get(1) {
        Some(_) => {
            let id = u16::try_from(int_of(arguments, 1)?).ok()?;
            world.environment.instance.database_by_id(DatabaseId(id)).ok()?.seen_by(world.viewer)
        }
        None => world.database.clone(),
    };
    let snapshot = database.snapshot();
    let found = snapshot.tables.get(&id).map(|table| (table.schema, table.name.clone()));
    let found = found.or_else(|| snapshot.modules.get(&id).map(|module| (module.schema, module.name.clone())));
    let found = found.or_else(|| snapshot.sequences.get(&id).map(|known| (known.schema, known.name.clone())));
    let found = found.or_else(|| {
        let constraint = constraints::of_database(&snapshot).find(|known| known.id == id)?;
        Some((constraint.table.schema, constraint.name.to_owned()))
    });
    if let Some((schema, name)) = found {
        return Some((schema_name(&snapshot, schema), name));
    }
    let (schema, name) = world.environment.views.view_name(id)?;
    Some((schema.to_owned(), name.to_owned()))
}

fn schema_name(snapshot: &DatabaseSnapshot, id: i32) -> String {
    snapshot.schema_by_id(id).map(|schema| schema.name.clone()).unwrap_or_default()
}

fn object_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let id = ObjectId(int_of(arguments, 0)?);
    let snapshot = world.database.snapshot();
    let table = snapshot.tables.get(&id);
    let module = snapshot.modules.get(&id);
    let property = text_of(arguments, 1).to_lowercase();
    let is = |condition: bool| Some(i64::from(condition));
    if table.is_none() && module.is_none() {
        if let Some(letters) = type_of_view(world, id) {
            return match property.as_str() {
                "isview" => is(letters == "V"),
                "isinlinefunction" | "istablefunction" => is(letters == "IF"),
                "ismsshipped" => is(true),
                "istable" | "isusertable" | "issystemtable" | "isprocedure" | "isscalarfunction" => is(false),
                _ => None,
            };
        }
        return constraints::of_database(&snapshot).find(|known| known.id == id)?.property(&property);
    }
    let kind = |wanted: ModuleKind| is(module.is_some_and(|module| module.kind == wanted));
    let has =
        |kind| is(table.is_some_and(|table| constraints::of_table(table).any(|constraint| constraint.kind == kind)));
    match property.as_str() {
        "istable" if module.is_none() => is(table.is_some()),
        "isusertable" if module.is_none() => is(table.is_some_and(|table| !table.is_system)),
        "istable" | "isusertable" => kind(ModuleKind::ExternalTable),
        "issystemtable" => is(table.is_some_and(|table| table.is_system)),
        "isview" => kind(ModuleKind::View),
        "isprocedure" => kind(ModuleKind::Procedure),
        "isinlinefunction" => kind(ModuleKind::InlineFunction),
        "isscalarfunction" => kind(ModuleKind::ScalarFunction),
        "istablefunction" => {
            is(module
                .is_some_and(|module| matches!(module.kind, ModuleKind::InlineFunction | ModuleKind::TableFunction)))
        }
        "ismsshipped" => is(table.is_some_and(|table| table.is_system)),
        "tablehasidentity" => is(table.is_some_and(|table| table.identity_column().is_some())),
        "tablehasclustindex" => is(table.is_some_and(|table| table.is_clustered())),
        "tablehasnonclustindex" => is(table.is_some_and(|table| table.indexes.len() > 1)),
        "tablehasindex" => is(table.is_some_and(|table| table.is_clustered() || table.indexes.len() > 1)),
        "tablehasprimarykey" => has(ConstraintKind::PrimaryKey),
        "tablehasuniquecnst" => has(ConstraintKind::Unique),
        "tablehascheckcnst" => has(ConstraintKind::Check),
        "tablehasforeignkey" => has(ConstraintKind::ForeignKey),
        "tablehasdefaultcnst" => has(ConstraintKind::Default),
        "tablehasforeignref" => {
            let mut keys = snapshot.tables.values().flat_map(|table| &table.constraints.foreign_keys);
            is(table.is_some() && keys.any(|key| key.referenced == id))
        }
        "ownerid" | "schemaid" => table.map(|table| table.schema).or(module.map(|module| module.schema)).map(i64::from),
        _ => None,
    }
}

/// The object type of a system view, or of the system function that returns its rows.
fn type_of_view(world: &World, id: ObjectId) -> Option<&'static str> {
    let views = &world.environment.views;
    let (schema, name) = views.view_name(id)?;
    Some(if views.view(schema, name)?.parameters.is_empty() { "V" } else { "IF" })
}

/// The letters of an object's type, as in `sys.objects`.
fn base_type(world: &World, arguments: &[Value]) -> Option<&'static str> {
    let id = ObjectId(int_of(arguments, 0)?);
    let snapshot = world.database.snapshot();
    let table = snapshot.tables.get(&id).map(|table| if table.is_system { "S" } else { "U" });
    let found = table.or_else(|| snapshot.modules.get(&id).map(|module| module.kind.type_code()));
    let found = found.or_else(|| snapshot.sequences.contains_key(&id).then_some("SO"));
    let constraint =
        || constraints::of_database(&snapshot).find(|known| known.id == id).map(|known| known.kind.type_code());
    found.or_else(constraint).or_else(|| type_of_view(world, id))
}

/// The last identity value generated or set, as far as it is known without reading rows. The seed for a table without
/// rows. `None` if rows would have to be read.
fn last_identity(world: &World, name: &str) -> Option<i128> {
    let (database, schema, name) = split_name(world, name)?;
    let snapshot = database.snapshot();
    let table = snapshot.schema_id(&schema).and_then(|schema| snapshot.table(schema, &name))?;
    let identity = table.columns.iter().find_map(|column| column.identity)?;
    if let Some(state) = world.environment.identities.get((database.id(), table.id)) {
        // Before the first value, the result is that value.
        return Some(state.last.unwrap_or(state.next));
    }
    if let Some(position) = database.database().identity_position(table.id).ok()? {
        return Some(if position.used { position.next - i128::from(identity.increment) } else { position.next });
    }
    let hobts = table.base_index().partitions.iter().map(|partition| partition.hobt);
    let rows = database.database().row_count(hobts).ok()?;
    (rows == 0).then(|| i128::from(identity.seed))
}

fn column_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let wanted = text_of(arguments, 1);
    let table = ObjectId(int_of(arguments, 0)?);
    let column = column_of(world, table, |column| name_equals(&column.name, &wanted))?;
    let is = |condition: bool| Some(i64::from(condition));
    let sql_type = column.sql_type;
    match text_of(arguments, 2).to_lowercase().as_str() {
        "allowsnull" => is(column.is_nullable),
        "columnid" | "ordinal" => Some(i64::from(column.id)),
        "isidentity" => is(column.is_identity),
        "isrowguidcol" => is(column.is_rowguid),
        "iscomputed" => is(column.is_computed),
        "isdeterministic" | "isprecise" | "issparse" | "iscolumnset" | "ishidden" | "isfulltextindexed" => is(false),
        "precision" | "charmaxlen" if sql_type.is_text() || sql_type.is_binary() => {
            let bytes = i64::from(sql_type.max_length_bytes());
            Some(if sql_type.is_national() && bytes > 0 { bytes / 2 } else { bytes })
        }
        "precision" => Some(i64::from(sql_type.precision())),
        "scale" if sql_type.is_numeric() || sql_type.is_temporal() => Some(i64::from(sql_type.scale())),
        "usesansitrim" if sql_type.is_text() || sql_type.is_binary() => is(true),
        _ => None,
    }
}

/// A part of a multi-part name, counted from the right: 1 is the object, 4 the server.
fn name_part(arguments: &[Value]) -> Option<String> {
    let name = parse_name(&text_of(arguments, 0))?;
    let part = match int_of(arguments, 1)? {
        1 => Some(name.name),
        2 => name.schema,
        3 => name.database,
        4 => name.server,
        _ => None,
    };
    part.map(|part| part.value)
}
