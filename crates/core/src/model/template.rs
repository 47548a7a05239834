//! The template row: a plan with placeholders, from which runs are made.

use serde::{Deserialize, Serialize};

use super::task::Details;
use super::{Column, ColumnValue, Entity, Key, Row, Undecided, View};
use crate::kernel::code::Code;
use crate::kernel::id::{Seq, TemplateId, Timestamp};
use crate::kernel::rejection::Rejection;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Template {
    pub id: TemplateId,
    pub title: String,
    pub description: String,
    pub tasks: Vec<Step>,
    /// Everything that must be given to apply it.
    pub variables: Vec<String>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub created: Seq,
}

/// A task of a template. Others are named by their place, so that a redacted name breaks nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub title: String,
    pub description: String,
    pub resources: Vec<String>,
    pub depends_on: Vec<usize>,
    pub context_from: Vec<usize>,
    pub details: Details,
}

impl Entity for Template {
    type Id = TemplateId;

    const TABLE: &'static str = "templates";
    const COLUMNS: &'static [Column] = &[Column::integer("created"), Column::text("name")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.created.0.into(), self.title.as_str().into()]
    }
}

impl View {
    pub(crate) fn template_known(&self, id: &TemplateId) -> Result<&Template, Undecided> {
        match self.get(&Key::Template(id.clone()))? {
            Some(Row::Template(template)) => Ok(template),
            _ => Err(Rejection::new(Code::TemplateNotFound, "Template not found")
                .hint("list the templates to see their ids")
                .into()),
        }
    }
}
