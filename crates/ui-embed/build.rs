//! Puts the built web UI into the program, if it is there. Cargo never runs npm: `cargo xtask ui` builds it beforehand.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const SOURCE: &str = "dist/app";

fn main() -> io::Result<()> {
    tell("rerun-if-changed=build.rs");
    tell("rerun-if-changed=dist");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join(SOURCE);
    let mut files = Vec::new();
    if root.join("index.html").is_file() {
        collect(&root, &mut files)?;
        files.sort();
    } else {
        tell("warning=the web UI is not built: `cargo xtask ui` builds it, and this program then carries it");
    }
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?).join("assets.rs");
    fs::write(out, table(&root, &files)?)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    tell(&format!("rerun-if-changed={}", folder.display()));
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            tell(&format!("rerun-if-changed={}", path.display()));
            files.push(path);
        }
    }
    Ok(())
}

/// The list of assets as Rust. Compressed forms belong to the file that they are of.
fn table(root: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut text = String::from("pub static ASSETS: &[Asset] = &[\n");
    for file in files.iter().filter(|file| !is_compressed(file)) {
        let name = file.strip_prefix(root).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        let form = |ending: &str| {
            let path = PathBuf::from(format!("{}.{ending}", file.display()));
            if files.contains(&path) { format!("Some(include_bytes!({path:?}))") } else { "None".to_owned() }
        };
        let _ = writeln!(
            text,
            "    Asset {{ path: {name:?}, mime: {:?}, etag: {:?}, bytes: include_bytes!({file:?}), gzip: {}, brotli: {} }},",
            mime(&name),
            etag(&fs::read(file)?),
            form("gz"),
            form("br"),
        );
    }
    text.push_str("];\n");
    Ok(text)
}

fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "gz" || ending == "br")
}

fn mime(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Tells one content of a file from another; nobody is kept out by it.
fn etag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("\"{:016x}-{:x}\"", hasher.finish(), bytes.len())
}

fn tell(line: &str) {
    println!("cargo:{line}");
}
