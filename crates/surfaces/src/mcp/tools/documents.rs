//! Documents: text that the team of an instance writes together. Every version is kept.

use rookery_core::documents::{AppendDocument, Base, CreateDocument, DeleteDocument, WriteDocument, Writer};
use rookery_core::kernel::time::iso;
use rookery_core::model::document::{Change, Document, DocumentId, Version};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::{Code, Command, Instance, Rejection};
use rookery_engine::documents::{Changed, DocumentText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::messages::{Member, instance_of};
use crate::mcp::arguments::{Limit, name};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

/// How many files a list names.
pub const FILES_LISTED: usize = 1_000;

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "document_read",
            Reads,
            &[Context],
            "Read a shared document: the team's goals, notes and decisions. Without 'file' the one that the others are \
             reached from. Remember the version if you mean to write.",
            read,
        ),
        Tool::new(
            "document_write",
            Sets,
            &[Context],
            "Replace the text of a shared document. Give the version that you read as 'base_version': if somebody wrote \
             meanwhile you get the newer text instead of overwriting it. To add something, document_append is safer.",
            write,
        ),
        Tool::new(
            "document_append",
            Adds,
            &[Context],
            "Add to the end of a shared document, as it is: begin with a line break if you need one.",
            append,
        ),
        Tool::new(
            "document_list",
            Reads,
            &[Context],
            "List the files of the shared documents. Next: document_read.",
            list,
        ),
        Tool::new(
            "document_create",
            Adds,
            &[Context],
            "Create a shared document that is not there yet, for example findings/auth.md.",
            create,
        ),
        Tool::new(
            "document_delete",
            Ends,
            &[Context],
            "Delete a shared document. Its versions stay readable by document_history.",
            delete,
        ),
        Tool::new(
            "document_history",
            Reads,
            &[Context],
            "See who changed a document when, newest first; or, with 'version', its text as it was then.",
            history,
        ),
    ]
}

/// The document that a caller means.
struct RequestedDocument {
    id: DocumentId,
    is_entry: bool,
}

async fn meant(call: &Call, instance: &Instance, file: Option<&str>) -> Result<RequestedDocument, ToolError> {
    let entry = call.engine().documents().entry_path(instance).await?;
    let path = match file {
        Some(file) => DocumentPath::parse(file.trim()).map_err(Rejection::from)?,
        None => entry.clone(),
    };
    Ok(RequestedDocument { is_entry: path == entry, id: DocumentId::new(instance.run(), path) })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentReadArgs {
    /// Which file, for example todos.md.
    #[serde(default, deserialize_with = "name")]
    file: Option<String>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DocumentReadResult {
    file: String,
    content: String,
    /// 0 if there is no document yet.
    version: u64,
}

async fn read(call: Call, asked: DocumentReadArgs) -> ToolAnswer<DocumentReadResult> {
    let member = Member::or_guest(&call, asked.agent_id.as_deref()).await?;
    let RequestedDocument { id, is_entry } =
        meant(&call, &instance_of(&call, member.as_ref()), asked.file.as_deref()).await?;
    let content = match call.engine().documents().text(&id).await? {
        Some(DocumentText { version, text }) => {
            DocumentReadResult { file: id.path.to_string(), content: text, version: version.version }
        }
        None if is_entry => DocumentReadResult { file: id.path.to_string(), content: String::new(), version: 0 },
        None => return Err(not_there(&id)),
    };
    Ok(ToolReply::with_text(content.content.clone(), content))
}

fn not_there(id: &DocumentId) -> ToolError {
    Rejection::new(Code::DocumentNotFound, format!("there is no document '{}'", id.path)).into()
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentWriteArgs {
    /// The new text, which replaces the old one.
    content: String,
    /// Which file, for example todos.md.
    #[serde(default, deserialize_with = "name")]
    file: Option<String>,
    /// The version that you have read; 0 if there was none.
    base_version: Option<u64>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentAppendArgs {
    /// What to add.
    content: String,
    /// Which file, for example todos.md.
    #[serde(default, deserialize_with = "name")]
    file: Option<String>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentCreateArgs {
    /// Its path: relative, ending in .md, .markdown or .txt.
    file: String,
    /// Its first text.
    content: String,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentDeleteArgs {
    /// Which file.
    file: String,
    /// The version that you have read.
    base_version: Option<u64>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DocumentChangeResult {
    file: String,
    version: u64,
}

async fn write(call: Call, asked: DocumentWriteArgs) -> ToolAnswer<DocumentChangeResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let id = meant(&call, &member.instance, asked.file.as_deref()).await?.id;
    let command =
        WriteDocument { id: id.clone(), text: asked.content, writer: writer(&member), base: base(asked.base_version) };
    change(&call, member, id, command, "written").await
}

async fn append(call: Call, asked: DocumentAppendArgs) -> ToolAnswer<DocumentChangeResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let id = meant(&call, &member.instance, asked.file.as_deref()).await?.id;
    let command = AppendDocument { id: id.clone(), text: asked.content, writer: writer(&member) };
    change(&call, member, id, command, "appended").await
}

async fn create(call: Call, asked: DocumentCreateArgs) -> ToolAnswer<DocumentChangeResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let id = meant(&call, &member.instance, Some(named(&asked.file)?)).await?.id;
    let command = CreateDocument { id: id.clone(), text: asked.content, writer: writer(&member) };
    change(&call, member, id, command, "created").await
}

async fn delete(call: Call, asked: DocumentDeleteArgs) -> ToolAnswer<DocumentChangeResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let id = meant(&call, &member.instance, Some(named(&asked.file)?)).await?.id;
    let command = DeleteDocument { id: id.clone(), writer: writer(&member), base: base(asked.base_version) };
    change(&call, member, id, command, "deleted").await
}

/// A file where one must be named.
fn named(file: &str) -> Result<&str, ToolError> {
    if file.trim().is_empty() { Err(ToolError::invalid("argument 'file': must not be empty")) } else { Ok(file) }
}

fn writer(member: &Member) -> Writer {
    Writer::Named(member.id.clone())
}

fn base(version: Option<u64>) -> Base {
    version.map_or(Base::Unsaid, Base::Version)
}

async fn change<C>(
    call: &Call,
    member: Member,
    id: DocumentId,
    command: C,
    word: &str,
) -> ToolAnswer<DocumentChangeResult>
where
    C: Command<Reply = Document>,
{
    match call.engine().documents().change(&id, call.request(member.caller, command)).await? {
        Changed::Done(Document { id, version, .. }) => {
            Ok(ToolReply::with_text(word, DocumentChangeResult { file: id.path.to_string(), version }))
        }
        Changed::Stale { refusal, newer } => {
            let newer = newer.map(|DocumentText { version, text }| {
                json!({"version": version.version, "author": version.author, "content": text})
            });
            Err(ToolError::from(refusal).detailed(json!({ "newer": newer })))
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentListArgs {
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DocumentListResult {
    files: Vec<String>,
}

async fn list(call: Call, asked: DocumentListArgs) -> ToolAnswer<DocumentListResult> {
    let member = Member::or_guest(&call, asked.agent_id.as_deref()).await?;
    let documents = call.engine().documents().list(&instance_of(&call, member.as_ref()).run()).await?.value;
    let left_out = documents.len().saturating_sub(FILES_LISTED);
    let files: Vec<String> = documents.iter().take(FILES_LISTED).map(|document| document.id.path.to_string()).collect();
    let text = serde_json::to_string(&files).map_err(|_| ToolError::unexpected())?;
    let note = (left_out > 0).then(|| format!("{left_out} more are left out."));
    Ok(ToolReply::with_text(text, DocumentListResult { files }).with_note(note))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DocumentHistoryArgs {
    /// Which file, for example todos.md.
    #[serde(default, deserialize_with = "name")]
    file: Option<String>,
    /// The version whose text you want.
    version: Option<u64>,
    /// At most so many changes, the newest. 100 unless said, 1000 at most.
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DocumentHistoryResult {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    versions: Vec<DocumentVersionView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DocumentVersionView {
    version: u64,
    author: String,
    timestamp: String,
    /// created, written, appended or deleted.
    change: String,
    /// SHA-256 of the text after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

fn past(version: &Version) -> DocumentVersionView {
    let change = match version.change {
        Change::Created => "created",
        Change::Written => "written",
        Change::Appended => "appended",
        Change::Deleted => "deleted",
    };
    DocumentVersionView {
        version: version.version,
        author: version.author.clone(),
        timestamp: iso(version.at),
        change: change.to_owned(),
        hash: version.hash.clone(),
    }
}

async fn history(call: Call, asked: DocumentHistoryArgs) -> ToolAnswer<DocumentHistoryResult> {
    let member = Member::or_guest(&call, asked.agent_id.as_deref()).await?;
    let id = meant(&call, &instance_of(&call, member.as_ref()), asked.file.as_deref()).await?.id;
    let file = id.path.to_string();
    let Some(version) = asked.version else {
        let versions = call.engine().documents().history(&id, asked.limit.map(Limit::get)).await?.value;
        let versions: Vec<DocumentVersionView> = versions.iter().map(past).collect();
        let text = serde_json::to_string(&versions).map_err(|_| ToolError::unexpected())?;
        return Ok(ToolReply::with_text(text, DocumentHistoryResult { file, content: None, versions }));
    };
    let Some(DocumentText { version, text }) = call.engine().documents().text_at(&id, version).await? else {
        let missing = format!("document '{file}' has no text at version {version}");
        return Err(ToolError::from(Rejection::new(Code::DocumentNotFound, missing))
            .suggest("document_history without 'version' shows the versions that there are"));
    };
    Ok(ToolReply::with_text(
        text.clone(),
        DocumentHistoryResult { file, content: Some(text), versions: vec![past(&version)] },
    ))
}
