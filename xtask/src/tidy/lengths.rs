//! Files and functions that are too long.

use super::input::Input;
use super::{Finding, Found};
use crate::source::{ItemKind, SourceFile};

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 80;

/// Product files with more than 600 lines, not counting their `#[cfg(test)]` modules.
pub(crate) fn long_files(input: &Input) -> Found {
    files_over(input, MAX_FILE_LINES).into()
}

/// Functions of product code with more than 80 lines, from `fn` to the closing brace.
pub(crate) fn long_functions(input: &Input) -> Found {
    functions_over(input, MAX_FUNCTION_LINES).into()
}

pub(crate) fn files_over(input: &Input, limit: usize) -> Vec<Finding> {
    let files = input.tree.product().map(|file| (file, own_lines(file)));
    let long = files.filter(|(_, lines)| *lines > limit);
    long.map(|(file, lines)| Finding::new(&file.path, 1, format!("{lines} lines"))).collect()
}

pub(crate) fn functions_over(input: &Input, limit: usize) -> Vec<Finding> {
    let mut places = Vec::new();
    for file in input.tree.product() {
        for item in file.items.items.iter().filter(|item| item.kind == ItemKind::Fn && !item.in_test) {
            let Some((_, end)) = item.body else { continue };
            let lines = file.line_of(end) + 1 - file.line_of(item.token);
            if lines > limit {
                places.push(Finding::new(&file.path, file.line_of(item.token), item.name.clone()));
            }
        }
    }
    places
}

/// The lines of a product file without those of its test modules.
pub(crate) fn own_lines(file: &SourceFile) -> usize {
    let all = file.text.lines().count();
    let tests = file.items.tests.iter().map(|(start, end)| file.line_of(*end) + 1 - file.line_of(*start));
    all - tests.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_do_not_count() {
        let text = format!("fn a() {{\n{}}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(100), "\n".repeat(900));
        let input = Input::of(&[("crates/core/src/a.rs", &text)]);
        assert!(long_files(&input).places.is_empty());
        assert_eq!(own_lines(&input.tree.files[0]), 103);
        let places = functions_over(&input, 80);
        assert_eq!(places, [Finding::new("crates/core/src/a.rs", 1, "a")]);
        assert_eq!(functions_over(&input, 102), []);
    }
}
