//! Texts that are longer than a message may be: they become a document, and the message tells its beginning and where
//! the rest is.

use rookery_core::Rejection;
use rookery_core::documents::{CreateDocument, Writer};
use rookery_core::kernel::limit;
use rookery_core::messages::mentions;
use rookery_core::model::document::DocumentId;
use rookery_core::model::document_path::DocumentPath;

use super::messages::Member;
use crate::mcp::{Call, ToolError};

/// How much of the text the message shows.
const EXCERPT_CHARACTERS: usize = 2_000;

/// The text of a message, or what stands for it if it is too long to be one.
pub async fn fitting(call: &Call, member: &Member, text: String) -> Result<String, ToolError> {
    if text.len() <= limit::TEXT_BYTES {
        return Ok(text);
    }
    let path = DocumentPath::parse(&format!("messages/{}.md", call.engine().mint("text_"))).map_err(Rejection::from)?;
    let id = DocumentId::new(member.instance.run(), path);
    let mut excerpt: String = text.chars().take(EXCERPT_CHARACTERS).collect();
    let shown = mentions(&excerpt, &member.instance);
    let missing: Vec<String> = mentions(&text, &member.instance)
        .iter()
        .filter(|agent| !shown.contains(agent))
        .map(|agent| format!("@{}", member.instance.calls(agent)))
        .collect();
    let (bytes, writer) = (text.len(), Writer::Named(member.id.clone()));
    let written = call.submit(member.caller.clone(), CreateDocument { id, text, writer }).await?;
    // By its row: a repeated call finds the document that the first one made.
    let path = written.reply.id.path;
    excerpt.push_str(&format!("…\n\n[{bytes} bytes in all: document_read {{\"file\": \"{path}\"}}]"));
    if !missing.is_empty() {
        excerpt.push_str(&format!("\n{}", missing.join(" ")));
    }
    Ok(excerpt)
}
