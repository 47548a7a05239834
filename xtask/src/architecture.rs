//! ARCHITECTURE.md names the tests that hold the invariants, and docs/security.md those that hold its promises. This keeps
//! the pages honest: each of the tests exists.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn tests_named_by_the_architecture_page_exist() {
        check_page("ARCHITECTURE.md");
    }

    #[test]
    fn tests_named_by_the_security_page_exist() {
        check_page("docs/security.md");
    }

    fn check_page(path: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = fs::read_to_string(root.join(path)).unwrap();
        let code: String = sources(root).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let named: Vec<&str> = rows_with_tests(&page).into_iter().flat_map(tests_in).collect();
        assert!(named.len() >= 10, "{path} names {named:?}");
        let missing: Vec<&&str> = named.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
        assert!(missing.is_empty(), "{path} names tests that do not exist: {missing:?}");
    }

    /// The rows of tables that have a column for tests.
    fn rows_with_tests(page: &str) -> Vec<&str> {
        let tables = page.split("\n\n").filter(|block| block.starts_with('|'));
        let of_tests = tables.filter(|table| {
            let header = table.lines().next().unwrap_or_default();
            header.contains("test") || header.contains("held by")
        });
        of_tests.flat_map(|table| table.lines().skip(2)).collect()
    }

    /// The words in backticks that read like the name of a test, without the module that it is in.
    fn tests_in(line: &str) -> impl Iterator<Item = &str> {
        let words = line.split('`').skip(1).step_by(2).map(|word| word.rsplit("::").next().unwrap_or(word));
        words.filter(|word| word.matches('_').count() >= 2 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    }

    fn sources(root: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![root.join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    found.push(path);
                }
            }
        }
        found
    }
}
