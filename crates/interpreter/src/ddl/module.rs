//! Views, functions and procedures: their text is checked and then stored. Drops them, and external tables, too.

use hobt_base::{SqlError, errors};
use hobt_catalog::{ModuleKind, name_equals};
use hobt_engine::{ModuleDefinition, Replace};
use hobt_tsql::ast::{
    ColumnKind, CreateFunction, CreateMode, CreateProcedure, CreateView, Declaration, DeclarationKind, FunctionBody,
    ObjectKind, ObjectName, Parameter, Statement, StatementKind,
};
use hobt_tsql::check_variables;

use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::interpreter::Outcome;
use crate::program::{Program, Step, redeclared};

impl Definitions<'_, '_> {
    pub(crate) fn create_view(&mut self, create: &CreateView, statement: &Statement) -> Result<Outcome, Failure> {
        if create.check_option {
            return Err(SqlError::not_supported("CREATE VIEW … WITH CHECK OPTION").into());
        }
        check_prefix(&create.name, "CREATE/ALTER VIEW")?;
        self.batch.bind_view(create)?;
        self.create_module(&create.name, ModuleKind::View, create.mode, statement)
    }

    pub(crate) fn create_function(
        &mut self,
        create: &CreateFunction,
        statement: &Statement,
    ) -> Result<Outcome, Failure> {
        check_prefix(&create.name, "CREATE/ALTER FUNCTION")?;
        match &create.body {
            FunctionBody::Inline { .. } => {
                self.check_parameters(&create.parameters)?;
                check_variables(&self.batch.text, &[], |name| is_parameter(&create.parameters, name))?;
                self.batch.bind_inline_function(create)?;
                self.create_module(&create.name, ModuleKind::InlineFunction, create.mode, statement)
            }
            FunctionBody::Scalar { .. } => Err(SqlError::not_supported("A scalar function").into()),
            FunctionBody::MultiStatement { .. } => {
                Err(SqlError::not_supported("A multi-statement table-valued function").into())
            }
        }
    }

    pub(crate) fn create_procedure(
        &mut self,
        create: &CreateProcedure,
        statement: &Statement,
    ) -> Result<Outcome, Failure> {
        check_prefix(&create.name, "CREATE/ALTER PROCEDURE")?;
        let steps = check_body(&create.statements)?;
        check_variables(&self.batch.text, &create.statements, |name| is_parameter(&create.parameters, name))?;
        self.check_types(create, &steps)?;
        self.create_module(&create.name, ModuleKind::Procedure, create.mode, statement)
    }

    /// Checks the types of a procedure's parameters and variables.
    ///
    /// # Errors
    /// 2715 for an unknown type; 134 for a variable with the name of a parameter.
    fn check_types(&self, create: &CreateProcedure, steps: &Program<'_>) -> Result<(), SqlError> {
        self.check_parameters(&create.parameters)?;
        for Declaration { name, kind } in steps.declarations() {
            if is_parameter(&create.parameters, &name.value) {
                return Err(redeclared(name));
            }
            match kind {
                DeclarationKind::Scalar { data_type, .. } => {
                    self.batch.data_type(data_type)?;
                }
                DeclarationKind::Table(definition) => {
                    for column in &definition.columns {
                        if let ColumnKind::Typed(data_type) = &column.kind {
                            self.batch.data_type(data_type)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the types of a module's parameters.
    ///
    /// # Errors
    /// 2715 for an unknown type.
    fn check_parameters(&self, parameters: &[Parameter]) -> Result<(), SqlError> {
        parameters.iter().try_for_each(|parameter| self.batch.data_type(&parameter.data_type).map(|_| ()))
    }

    fn create_module(
        &mut self,
        name: &ObjectName,
        kind: ModuleKind,
        mode: CreateMode,
        statement: &Statement,
    ) -> Result<Outcome, Failure> {
        let place = self.batch.place(name)?;
        let definition = ModuleDefinition {
            schema: place.schema,
            name: place.name,
            kind,
            definition: statement.span.text(&self.batch.text).to_owned(),
            replace: match mode {
                CreateMode::Create => Replace::No,
                CreateMode::CreateOrAlter => Replace::IfExists,
                CreateMode::Alter => Replace::Must,
            },
        };
        let database = place.database;
        self.batch.in_context(&database, |_, context| {
            let created = database.database().create_module(context, &definition);
            Ok(created.map_err(|error| error.to_sql_error().at(name.position()))?)
        })?;
        Ok(Outcome::QUIET)
    }

    pub(super) fn drop_module(&mut self, kind: ObjectKind, name: &ObjectName) -> Result<(), Failure> {
        let word = match kind {
            ObjectKind::View => "view",
            ObjectKind::Procedure => "procedure",
            ObjectKind::ExternalTable => "external table",
            ObjectKind::ExternalFileFormat => "external file format",
            _ => "function",
        };
        if kind != ObjectKind::ExternalTable {
            check_prefix(name, &format!("DROP {}", word.to_uppercase()))?;
        }
        let mut place = self.batch.place(name)?;
        if kind == ObjectKind::ExternalFileFormat {
            "sys".clone_into(&mut place.schema);
        }
        let found = {
            let snapshot = place.database.snapshot();
            let schema = snapshot.schema_id(&place.schema);
            schema.and_then(|schema| snapshot.module(schema, &place.name)).map(|module| module.kind)
        };
        let fits = |module: ModuleKind| match kind {
            ObjectKind::View => module == ModuleKind::View,
            ObjectKind::Procedure => module == ModuleKind::Procedure,
            ObjectKind::ExternalTable => module == ModuleKind::ExternalTable,
            ObjectKind::ExternalFileFormat => module == ModuleKind::FileFormat,
            _ => module.is_program() && !matches!(module, ModuleKind::View | ModuleKind::Procedure),
        };
        let Some(module) = found.filter(|module| fits(*module)) else {
            return Err(errors::DROP_DOES_NOT_EXIST.with([&word, &name.name.value]).into());
        };
        self.batch.in_context(&place.database, |_, context| {
            Ok(place
                .database
                .database()
                .drop_module(context, &place.schema, &place.name, module)
                .map_err(SqlError::from)?)
        })
    }
}

/// Whether a name is that of a parameter.
fn is_parameter(parameters: &[Parameter], name: &str) -> bool {
    parameters.iter().any(|known| name_equals(&known.name.value, name))
}

/// Checks that a module's name has no database: modules are created, changed and dropped in the current database,
/// against whose names their text is checked.
///
/// # Errors
/// 166 for a name with a database.
fn check_prefix(name: &ObjectName, statement: &str) -> Result<(), SqlError> {
    let Some(database) = &name.database else { return Ok(()) };
    Err(errors::DATABASE_PREFIX.with([&statement]).at(database.position))
}

/// Checks a procedure's body before its names are resolved.
///
/// # Errors
/// 154 for `USE`: a procedure runs in the database that contains it. Those of jumps and declarations.
fn check_body(statements: &[Statement]) -> Result<Program<'_>, SqlError> {
    let program = Program::compile(statements)?;
    let is_use = |step: &Step<'_>| matches!(step, Step::Run(Statement { kind: StatementKind::Use { .. }, .. }));
    match program.steps.iter().map(|placed| placed.step).find(is_use) {
        Some(Step::Run(statement)) => Err(errors::USE_IN_MODULE.error().at(statement.span.position)),
        _ => Ok(program),
    }
}
