//! Resolution of names and types: from syntax to [`Expr`].

mod expression;
mod function;
mod literal;

use std::sync::Arc;

use thermocline_tables::schema::{Argument, Schema, TableDefinition};
use thermocline_tables::table::{Charge, out_of_memory};
use thermocline_types::{Class, DataType, Error, Result, Value, parse_text};

use self::expression::folded_cast;
use super::expression::{Expr, TABLES_MAX};

pub(crate) use function::{Aggregate, AggregateKind};

/// Limit on parameters of a statement, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// First provisional position of aggregates among computed values, used until the number of group keys before them is
/// known.
pub(crate) const AGGREGATES_FROM: usize = 1 << 20;

/// Binds one statement.
pub struct Binder<'s> {
    schema: &'s Schema,
    /// Tables, by slot.
    tables: Vec<ScopeTable>,
    /// Arguments of the procedure that contains the statement; they are its first parameters.
    arguments: &'s [Argument],
    /// Type of each parameter; `None` while unknown.
    parameters: Vec<Option<DataType>>,
    /// Aggregates found so far; `None` where aggregates are not allowed.
    aggregates: Option<Vec<Aggregate>>,
    /// Charge for memory that the schema adds to the statement; `None` if not counted.
    charge: Option<&'s mut Charge>,
    /// Number of expression parts bound repeatedly for further comparisons with the same operand, and whether the
    /// current part is one.
    repeated: (u32, bool),
}

/// Limit on expression parts of a statement that are bound repeatedly.
const REPEATED_MAX: u32 = 100_000;

/// A table in scope.
pub(crate) struct ScopeTable {
    /// Its name in the statement.
    pub alias: Box<str>,
    pub table: Arc<TableDefinition>,
}

/// A bound expression and its type; `None` for NULL, string literals and untyped parameters, which take their type from
/// the context.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub data_type: Option<DataType>,
}

impl Typed {
    pub fn new(expr: Expr, data_type: DataType) -> Self {
        Self { expr, data_type: Some(data_type) }
    }

    /// The type as an operand: a literal is INTEGER if it fits, else BIGINT.
    pub fn operand_type(&self) -> Option<DataType> {
        match &self.expr {
            Expr::Literal(Value::Int(number))
                if self.data_type == Some(DataType::BigInt) && DataType::Integer.holds(*number) =>
            {
                Some(DataType::Integer)
            }
            _ => self.data_type,
        }
    }

    /// The type; TEXT if nothing decided it.
    pub fn type_or_text(&self) -> DataType {
        self.data_type.unwrap_or(DataType::Text)
    }
}

/// Estimated bytes of an expression including its heap, and of a result column.
const EXPRESSION_BYTES: usize = 288;

impl<'s> Binder<'s> {
    pub fn new(schema: &'s Schema, arguments: &'s [Argument]) -> Self {
        let parameters = arguments.iter().map(|argument| Some(argument.data_type)).collect();
        Self { schema, tables: Vec::new(), arguments, parameters, aggregates: None, charge: None, repeated: (0, false) }
    }

    /// Charges memory that the schema adds.
    pub fn with_charge(self, charge: Option<&'s mut Charge>) -> Self {
        Self { charge, ..self }
    }

    /// Charges `count` expressions that are not in the text: defaults, the columns of a star.
    pub fn add_expressions(&mut self, count: usize) -> Result<()> {
        self.add_bytes(count.saturating_mul(EXPRESSION_BYTES))
    }

    /// Charges memory of what is made from a literal, such as a LIKE pattern.
    pub fn add_bytes(&mut self, bytes: usize) -> Result<()> {
        let Some(charge) = &mut self.charge else { return Ok(()) };
        charge.grow(bytes).map_err(|full| out_of_memory("planning a statement", full))
    }

    /// The name of a column in messages: `table.column`.
    pub fn column_name(&self, slot: usize, column: usize) -> String {
        let table = self.tables.get(slot);
        let column = table.and_then(|table| table.table.columns.get(column)).map_or("?", |column| &*column.name);
        format!("{}.{column}", table.map_or("?", |table| &*table.alias))
    }

    pub const fn schema(&self) -> &'s Schema {
        self.schema
    }

    /// A binder for a query inside the statement: the same parameters, no tables.
    pub fn inside(other: &mut Self) -> Self {
        Self {
            schema: other.schema,
            tables: Vec::new(),
            arguments: other.arguments,
            parameters: other.parameters.clone(),
            aggregates: None,
            charge: other.charge.take(),
            repeated: other.repeated,
        }
    }

    /// Takes over parameter types and the charge from a binder made with [`Binder::inside`].
    pub fn take_parameters(&mut self, inner: Self) {
        self.parameters = inner.parameters;
        self.charge = inner.charge;
    }

    /// Adds a table to the scope and returns its slot.
    pub fn add_table(&mut self, alias: Box<str>, table: Arc<TableDefinition>) -> Result<usize> {
        if self.tables.iter().any(|known| known.alias == alias) {
            return Err(Class::DuplicateAlias.error(format_args!("table name \"{alias}\" specified more than once")));
        }
        if self.tables.len() >= TABLES_MAX {
            return Err(Error::unsupported(format_args!("more than {TABLES_MAX} tables in one statement")));
        }
        self.tables.push(ScopeTable { alias, table });
        Ok(self.tables.len() - 1)
    }

    /// Removes the table that was added last.
    pub fn remove_table(&mut self) {
        self.tables.pop();
    }

    pub fn tables(&self) -> &[ScopeTable] {
        &self.tables
    }

    /// The type of each parameter; TEXT if nothing decided it.
    pub fn into_parameters(self) -> Vec<DataType> {
        self.parameters.into_iter().map(|known| known.unwrap_or(DataType::Text)).collect()
    }

    /// Runs `bind` with aggregates allowed, and returns them beside its result.
    pub fn with_aggregates<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Vec<Aggregate>)> {
        self.aggregates = Some(Vec::new());
        let result = bind(self);
        let aggregates = self.aggregates.take().unwrap_or_default();
        Ok((result?, aggregates))
    }

    /// Resolves a column name.
    fn column(&self, qualifier: Option<&str>, name: &str) -> Result<Typed> {
        let mut found = None;
        let mut qualified = false;
        for (slot, known) in self.tables.iter().enumerate() {
            if qualifier.is_some_and(|qualifier| qualifier != &*known.alias) {
                continue;
            }
            qualified = true;
            if let Some(column) = known.table.columns.iter().position(|column| &*column.name == name) {
                // Unqualified, a name denotes the column of the existing row, not of the excluded one.
                if found.is_some() && &*known.alias != EXCLUDED {
                    return Err(Class::AmbiguousColumn.error(format_args!("column reference \"{name}\" is ambiguous")));
                }
                found = found.or_else(|| {
                    let data_type = known.table.columns.get(column)?.data_type;
                    Some(Typed::new(Expr::Column { slot, column }, data_type))
                });
            }
        }
        if let Some(found) = found {
            return Ok(found);
        }
        match qualifier {
            None => self
                .argument(name)
                .ok_or_else(|| Class::UndefinedColumn.error(format_args!("column \"{name}\" does not exist"))),
            Some(qualifier) if qualified => {
                Err(Class::UndefinedColumn.error(format_args!("column {qualifier}.{name} does not exist")))
            }
            Some(qualifier) => {
                Err(Class::UndefinedTable.error(format_args!("missing FROM-clause entry for table \"{qualifier}\"")))
            }
        }
    }

    fn argument(&self, name: &str) -> Option<Typed> {
        let position = self.arguments.iter().position(|argument| &*argument.name == name)?;
        Some(Typed::new(Expr::Parameter(position), self.arguments.get(position)?.data_type))
    }

    /// A parameter by number, from 1.
    fn parameter(&mut self, number: usize) -> Result<Typed> {
        let known = if self.arguments.is_empty() { PARAMETERS_MAX } else { self.arguments.len() };
        if number == 0 || number > known {
            return Err(Class::UndefinedParameter.error(format_args!("there is no parameter ${number}")));
        }
        if self.parameters.len() < number {
            self.parameters.resize(number, None);
        }
        let position = number - 1;
        Ok(Typed { expr: Expr::Parameter(position), data_type: self.parameters.get(position).copied().flatten() })
    }

    /// Gives an expression of unknown type this type: parses a literal as such a value, and sets the type of a
    /// parameter.
    pub fn settle(&mut self, typed: Typed, to: DataType) -> Result<Typed> {
        if typed.data_type.is_some() {
            return Ok(typed);
        }
        // The general type without limits: `$1` in `smallint_column > $1` may be 100 000.
        let general = match to {
            DataType::SmallInt | DataType::Integer => DataType::BigInt,
            DataType::Decimal { .. } => DataType::Numeric,
            DataType::Varchar(_) | DataType::Char(_) => DataType::Text,
            other => other,
        };
        let expr = match typed.expr {
            Expr::Literal(Value::Text(text)) => Expr::Literal(parse_text(&text, general)?),
            Expr::Parameter(position) => {
                if let Some(known @ None) = self.parameters.get_mut(position) {
                    *known = Some(general);
                }
                Expr::Parameter(position)
            }
            other => other,
        };
        Ok(Typed { expr, data_type: Some(general) })
    }

    /// Checks the value of an assignment: settles unknown types, and rejects types that cannot be assigned without a
    /// cast.
    pub fn assignable(&mut self, typed: Typed, to: DataType, what: &str) -> Result<Expr> {
        let typed = self.settle(typed, to)?;
        let from = typed.type_or_text();
        if from.assigns_to(to) {
            return Ok(typed.expr);
        }
        // Defaults are stored as text; old ones may date from when random UUIDs had type TEXT.
        if from == DataType::Uuid && to.is_text() {
            return Ok(folded_cast(typed.expr, DataType::Text));
        }
        Err(Class::TypeMismatch
            .error(format_args!("column \"{what}\" is of type {to} but expression is of type {from}")))
    }

    /// [`Self::assignable`] for a column; a text column takes values of all types.
    pub fn assigned(&mut self, typed: Typed, to: DataType, what: &str) -> Result<Expr> {
        match typed.data_type {
            Some(from) if to.is_text() && !from.is_text() => Ok(Expr::Cast(Box::new(typed.expr), DataType::Text)),
            _ => self.assignable(typed, to, what),
        }
    }

    /// Binds a condition.
    pub fn condition(&mut self, ast: &sqlparser::ast::Expr, clause: &str) -> Result<Expr> {
        let typed = self.expression(ast)?;
        let typed = self.settle(typed, DataType::Boolean)?;
        match typed.type_or_text() {
            DataType::Boolean => Ok(typed.expr),
            other => {
                Err(Class::TypeMismatch
                    .error(format_args!("argument of {clause} must be type boolean, not type {other}")))
            }
        }
    }
}

/// Name of the row that was not inserted, in `ON CONFLICT DO UPDATE`.
pub(crate) const EXCLUDED: &str = "excluded";
