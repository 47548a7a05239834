//! The page of all error codes, `docs/errors.md`, printed from the table of codes.

use rookery_core::Code;
use rookery_core::kernel::code::SECTIONS;

use crate::http::error::{FURTHER_STATUSES, status_of};
use crate::mcp::error::ALIASES;

const FRAME: &str = include_str!("error_page.md");

/// The page as Markdown.
pub fn markdown() -> String {
    let mut codes = String::new();
    for (title, section) in SECTIONS {
        codes.push_str(&format!("## {title}\n\n| code | status | means | do |\n|---|---|---|---|\n"));
        for code in *section {
            let info = code.info();
            let (status, meaning, remedy) = (statuses(*code), info.meaning, info.remedy);
            codes.push_str(&format!("| `{}` | {status} | {meaning} | {remedy} |\n", info.text));
        }
        codes.push('\n');
    }
    let aliases =
        ALIASES.iter().map(|(code, alias)| format!("| `{alias}` | `{}` |\n", code.as_str())).collect::<String>();
    FRAME.replace("{codes}", &codes).replace("{aliases}", &aliases)
}

fn statuses(code: Code) -> String {
    let further = FURTHER_STATUSES.iter().filter(|(known, _)| *known == code).map(|(_, status)| *status);
    let all = std::iter::once(status_of(code)).chain(further);
    all.map(|status| status.as_str().to_owned()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_every_code_with_its_statuses() {
        let page = markdown();
        for code in SECTIONS.iter().flat_map(|(_, codes)| *codes) {
            assert!(page.contains(&format!("| `{}` | {}", code.as_str(), status_of(*code).as_str())), "{code:?}");
        }
        assert!(page.contains("| `TOO_LARGE` | 400, 413, 414 |"), "{page}");
        assert!(!page.contains('{') || page.contains("```json"), "{page}");
    }
}
