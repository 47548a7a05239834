//! What can be read and followed besides calling tools: an agent's inbox, messages to it that are too large to be shown
//! there, and documents.

use std::fmt::Write;

use rmcp::model::{Resource, ResourceTemplate};
use rookery_core::model::document::{Document, DocumentId};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::model::handoff::Handoff;
use rookery_core::{Actor, AgentId, Authority, Caller, Code, Instance, MessageId, Rejection};
use rookery_engine::query::HandoffFilter;
use serde_json::{Value, json};

use super::call::Call;
use super::error::ToolError;
use super::tools::documents::FILES_LISTED;
use super::tools::messages::{InboxMessage, instance_of_caller};
use super::unread::count;

const PREFIX: &str = "rookery://agents/";
const SUFFIX: &str = "/inbox";
const DOCUMENTS: &str = "rookery://documents/";
const MESSAGES: &str = "rookery://messages/";
const JSON: &str = "application/json";
const TEXT: &str = "text/markdown";

/// What an address names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResourceAddress {
    Inbox(AgentId),
    Document(DocumentId),
    Message(MessageId),
}

impl ResourceAddress {
    pub fn of(address: &str) -> Option<ResourceAddress> {
        let document = || document_at(address).map(ResourceAddress::Document);
        owner(address)
            .map(ResourceAddress::Inbox)
            .or_else(document)
            .or_else(|| message_at(address).map(ResourceAddress::Message))
    }

    pub fn mime_type(&self) -> &'static str {
        match self {
            ResourceAddress::Inbox(_) | ResourceAddress::Message(_) => JSON,
            ResourceAddress::Document(_) => TEXT,
        }
    }
}

/// The address of an agent's inbox.
pub fn inbox(agent: &AgentId) -> String {
    format!("{PREFIX}{agent}{SUFFIX}")
}

/// The agent whose inbox an address names; `None` if it names something else.
pub fn owner(address: &str) -> Option<AgentId> {
    let agent = address.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (!agent.is_empty() && !agent.contains('/')).then(|| AgentId::from(agent))
}

/// The address of a message.
pub fn message(id: &MessageId) -> String {
    format!("{MESSAGES}{}", escaped(id.as_str()))
}

fn message_at(address: &str) -> Option<MessageId> {
    let id = unescaped(address.strip_prefix(MESSAGES)?)?;
    (!id.is_empty()).then(|| MessageId::new(id))
}

/// The address of a document.
pub fn document(id: &DocumentId) -> String {
    format!("{DOCUMENTS}{}/{}", escaped(Instance::of_run(&id.run).name()), escaped(id.path.as_str()))
}

fn document_at(address: &str) -> Option<DocumentId> {
    let (instance, file) = address.strip_prefix(DOCUMENTS)?.split_once('/')?;
    let instance = Some(unescaped(instance)?).filter(|name| !name.is_empty())?;
    let path = DocumentPath::parse(&unescaped(file)?).ok()?;
    Some(DocumentId::new(Instance::new(instance).run(), path))
}

/// What may stand in an address as it is stays so; every other byte is written as `%` and two digits.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/@:+,()!$&'*;=".contains(&byte);
    text.bytes().fold(String::with_capacity(text.len()), |mut written, byte| {
        if plain(byte) {
            written.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(written, "%{byte:02X}");
        }
        written
    })
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// What a caller is shown without having asked for anything: its inbox, and the documents of its instance.
pub async fn listed(call: &Call, caller: &Caller) -> Result<Vec<Resource>, ToolError> {
    let own = caller.actor.agent().map(|agent| {
        Resource::new(inbox(agent), format!("inbox of {agent}"))
            .with_description("What waits for this agent: unread messages and handoffs offered to it.")
            .with_mime_type(JSON)
    });
    let documents = call.engine().documents().list(&instance_of_caller(caller).run()).await?.value;
    let document = |known: &Document| {
        let about = format!("A shared document, last changed by {}.", known.author);
        Resource::new(document(&known.id), known.id.path.to_string()).with_description(about).with_mime_type(TEXT)
    };
    Ok(own.into_iter().chain(documents.iter().take(FILES_LISTED).map(document)).collect())
}

pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{PREFIX}{{id}}{SUFFIX}"), "inbox")
            .with_description("What waits for an agent. Subscribe to be told when something new does.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{DOCUMENTS}{{instance}}/{{file}}"), "document")
            .with_description("A shared document. Subscribe to be told when somebody changes it.")
            .with_mime_type(TEXT),
        ResourceTemplate::new(format!("{MESSAGES}{{id}}"), "message")
            .with_description(
                "The whole of a message of the Clutch protocol to you, where the inbox shows its beginning.",
            )
            .with_mime_type(JSON),
    ]
}

/// Lets everybody see documents, and an agent its own inbox and what was sent to it; the lead's credential and people see all
/// inboxes.
pub async fn may_see(call: &Call, named: &ResourceAddress) -> Result<(), ToolError> {
    let agent = match named {
        ResourceAddress::Inbox(agent) => agent,
        // Whether a message is for the caller is told by reading it.
        ResourceAddress::Document(_) | ResourceAddress::Message(_) => return call.reader().await.map(|_| ()),
    };
    let caller = reader(call, agent)?;
    call.engine().liveness().touch(&caller).await?;
    if caller.actor.agent() == Some(agent) {
        // Whoever looks at its own inbox wants to be reached. One that gave no name is only believed to be that agent.
        return call.arrive(&call.caller(None)?).await;
    }
    if caller.power >= Authority::Lead {
        return Ok(());
    }
    Err(Rejection::new(Code::Forbidden, format!("the inbox of '{agent}' is not yours")).into())
}

/// Who reads an inbox: the caller, or whoever gave no name and thereby says that it is the inbox's agent.
fn reader(call: &Call, agent: &AgentId) -> Result<Caller, ToolError> {
    let caller = call.caller(None)?;
    if caller.actor == Actor::Anonymous { call.caller(Some(agent.as_str())) } else { Ok(caller) }
}

pub async fn read(call: &Call, named: &ResourceAddress) -> Result<String, ToolError> {
    match named {
        ResourceAddress::Inbox(agent) => read_inbox(call, agent).await,
        ResourceAddress::Document(id) => match call.engine().documents().text(id).await? {
            Some(document) => Ok(document.text),
            None => Err(Rejection::new(Code::DocumentNotFound, format!("there is no document '{}'", id.path)).into()),
        },
        ResourceAddress::Message(id) => read_message(call, id).await,
    }
}

/// A message to the caller, in its own words.
async fn read_message(call: &Call, id: &MessageId) -> Result<String, ToolError> {
    let caller = call.caller(None)?;
    let mail = match caller.actor.agent() {
        Some(agent) => call.engine().inbox().message(agent, id).await?,
        None => None,
    };
    let unknown = || Rejection::new(Code::MessageNotFound, format!("there is no message '{id}' to you"));
    Ok(mail.and_then(|mail| mail.envelope).ok_or_else(unknown)?.to_string())
}

/// A handoff that waits for an answer.
fn offered_handoff(handoff: Handoff) -> Value {
    json!({
        "id": handoff.id.as_str(),
        "from_agent": handoff.from.as_str(),
        "to_agent": handoff.to,
        "task_id": handoff.task.as_str(),
        "status": handoff.status.as_str(),
        "summary": handoff.note.summary,
        "files_modified": handoff.note.files_modified,
        "files_created": handoff.note.files_created,
        "context": handoff.note.context,
        "blockers": handoff.note.blockers,
        "created_at": handoff.created_at.0,
    })
}

/// The inbox as JSON. Looking at it marks nothing.
async fn read_inbox(call: &Call, agent: &AgentId) -> Result<String, ToolError> {
    let pending = HandoffFilter { status: Some("pending"), to: Some(agent.clone()), ..HandoffFilter::default() };
    let offered = call.engine().query().handoffs(&pending).await?;
    let handoffs: Vec<_> = offered.value.into_iter().map(offered_handoff).collect();
    let waiting = call.engine().inbox().peek(agent, None).await?;
    let here = Instance::of(agent);
    let messages = InboxMessage::all(&waiting, &here, call.engine().clock().now());
    let unread = call.engine().inbox().count_unread(agent).await?;
    Ok(json!({"agent_id": agent.as_str(), "unread": count(&unread), "messages": messages, "handoffs": handoffs})
        .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_agent() {
        assert_eq!(owner(&inbox(&"reviewer@pr-1".into())), Some("reviewer@pr-1".into()));
        for other in ["rookery://agents//inbox", "rookery://agents/a/b/inbox", "rookery://agents/a", "file:///etc"] {
            assert_eq!(ResourceAddress::of(other), None, "{other}");
        }
    }

    #[test]
    fn an_address_names_one_message() {
        for (id, address) in [("msg_1", "rookery://messages/msg_1"), ("a b/ü", "rookery://messages/a%20b/%C3%BC")] {
            assert_eq!(
                (message(&id.into()).as_str(), ResourceAddress::of(address)),
                (address, Some(ResourceAddress::Message(id.into())))
            );
        }
        assert_eq!(ResourceAddress::of("rookery://messages/"), None);
    }

    #[test]
    fn an_address_names_one_document() {
        for (file, address) in [
            ("notes.md", "rookery://documents/pr-1/notes.md"),
            ("findings/memory leak.md", "rookery://documents/pr-1/findings/memory%20leak.md"),
            ("100%#?.md", "rookery://documents/pr-1/100%25%23%3F.md"),
            ("ärger.md", "rookery://documents/pr-1/%C3%A4rger.md"),
        ] {
            let id = DocumentId::new(Instance::new("pr-1").run(), DocumentPath::parse(file).unwrap());
            assert_eq!(
                (document(&id).as_str(), ResourceAddress::of(address)),
                (address, Some(ResourceAddress::Document(id)))
            );
        }
        for other in [
            "rookery://documents/notes.md",
            "rookery://documents/x/../y.md",
            "rookery://documents/x/%2",
            "rookery://documents//a.md",
        ] {
            assert_eq!(ResourceAddress::of(other), None, "{other}");
        }
    }
}
