//! Texts as PostgreSQL can keep them. It takes every character but NUL, and agents may well send one.
//!
//! NUL and the character after it are written as two characters each, so that different texts stay different, and keep
//! their order and their prefixes.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';
const NUL: char = '\u{1}';
const ITSELF: char = '\u{2}';

/// A text as it is stored.
pub(super) fn stored(text: &str) -> String {
    if !text.contains(['\0', ESCAPE]) {
        return text.to_owned();
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => stored.extend([ESCAPE, NUL]),
            ESCAPE => stored.extend([ESCAPE, ITSELF]),
            c => stored.push(c),
        }
    }
    stored
}

/// The text that was stored so.
pub(super) fn read(stored: &str) -> Cow<'_, str> {
    if !stored.contains(ESCAPE) {
        return Cow::Borrowed(stored);
    }
    let mut text = String::with_capacity(stored.len());
    let mut chars = stored.chars();
    while let Some(c) = chars.next() {
        match c {
            ESCAPE if chars.next() == Some(NUL) => text.push('\0'),
            c => text.push(c),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_come_back_and_keep_their_order_and_prefixes(one in "[\0\u{1}\u{2}a]{0,6}", other in "[\0\u{1}\u{2}a]{0,6}") {
            prop_assert_eq!(read(&stored(&one)).into_owned(), one.clone());
            prop_assert!(!stored(&one).contains('\0'));
            prop_assert_eq!(stored(&one).cmp(&stored(&other)), one.cmp(&other));
            prop_assert_eq!(stored(&one).starts_with(&stored(&other)), one.starts_with(&other));
        }
    }
}
