//! Shortens texts that are too long for a prompt.

/// A text whose middle may be left out, since a request usually stands at the beginning or at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Clipped<'a> {
    pub beginning: &'a str,
    /// Bytes that are left out after the beginning.
    pub missing: usize,
    pub end: &'a str,
}

/// Cuts a text to at most `most` bytes: three quarters of them from its beginning, the rest from its end.
pub(super) fn clip(text: &str, most: usize) -> Clipped<'_> {
    if text.len() <= most {
        return Clipped { beginning: text, missing: 0, end: "" };
    }
    let cut = text.floor_char_boundary(most / 4 * 3);
    let resume = text.ceil_char_boundary(text.len() - (most - cut).min(text.len() - cut));
    Clipped { beginning: &text[..cut], missing: resume - cut, end: &text[resume..] }
}

/// Converts a text to one line of at most `most` characters, for lists.
pub(super) fn line(text: &str, most: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let flat = words.collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &flat[..at]),
        None => flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_not_clipped() {
        assert_eq!(clip("abc", 3), Clipped { beginning: "abc", missing: 0, end: "" });
        assert_eq!(clip("", 0), Clipped { beginning: "", missing: 0, end: "" });
    }

    #[test]
    fn clipped_text_keeps_beginning_and_end_and_counts_missing_bytes() {
        let text = "äöü-0123456789-äöü".repeat(50);
        for most in [0, 1, 2, 7, 100, 500, text.len() - 1] {
            let clipped = clip(&text, most);
            let kept = clipped.beginning.len() + clipped.end.len();
            assert!(kept <= most, "{kept} > {most}");
            assert_eq!(kept + clipped.missing, text.len());
            assert!(text.starts_with(clipped.beginning) && text.ends_with(clipped.end));
        }
        assert_eq!(clip("0123456789", 8), Clipped { beginning: "012345", missing: 2, end: "89" });
    }

    #[test]
    fn line_is_flattened_and_cut() {
        assert_eq!(line("a\nb\t\u{7} c", 80), "a b c");
        assert_eq!(line("äöüabc", 3), "äöü…");
    }
}
