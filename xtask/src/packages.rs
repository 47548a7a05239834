//! The programs that the tests call, and the Debian packages that bring them.

use std::fmt;

use anyhow::{Context, Result, bail};

use crate::process::{self, Program};
use crate::say;

/// One thing the tests need from the system.
struct Need {
    found_by: Probe,
    package: &'static str,
}

/// How we know that it is there.
enum Probe {
    Program(&'static str),
    PythonModule(&'static str),
    PostgresServer,
}

const POSTGRESQL: &str = "postgresql";

const NEEDS: &[Need] = &[
    Need { found_by: Probe::Program("git"), package: "git" },
    Need { found_by: Probe::Program("python3"), package: "python3" },
    // Debian splits this out of python3: without it `python3 -m venv` makes an environment that has no pip.
    Need { found_by: Probe::PythonModule("ensurepip"), package: "python3-venv" },
    Need { found_by: Probe::Program("npm"), package: "npm" },
    // What agents are kept in.
    Need { found_by: Probe::Program("bwrap"), package: "bubblewrap" },
    Need { found_by: Probe::Program("chromium"), package: "chromium" },
    Need { found_by: Probe::PostgresServer, package: POSTGRESQL },
];

impl Probe {
    fn succeeds(&self) -> bool {
        match self {
            Self::Program(name) => process::find(name).is_some(),
            Self::PythonModule(name) => {
                Program::new("python3").args(["-c", &format!("import {name}")]).probe().is_some()
            }
            Self::PostgresServer => rookery_testdb::Programs::find().is_ok(),
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name) => write!(f, "the program {name}"),
            Self::PythonModule(name) => write!(f, "the Python module {name}"),
            Self::PostgresServer => write!(f, "a PostgreSQL server"),
        }
    }
}

/// Installs what is missing, and touches nothing if nothing is.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.found_by.succeeds()).collect();
    if missing.is_empty() {
        say::note("everything is there");
        return Ok(());
    }
    for need in &missing {
        say::note(format_args!("missing: {}", need.found_by));
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    install(&packages).with_context(|| {
        let list = packages.join(" ");
        format!(
            "the tests need more programs: run `sudo apt-get install -y {list}`, or install them in your system's way"
        )
    })?;
    match missing.iter().find(|need| !need.found_by.succeeds()) {
        Some(need) => bail!("{} is still missing although the package {} is installed", need.found_by, need.package),
        None => Ok(()),
    }
}

fn install(packages: &[&str]) -> Result<()> {
    if process::find("apt-get").is_none() {
        bail!("there is no apt-get here to install them with");
    }
    as_root("apt-get")?.arg("update").run()?;
    let install = || as_root("apt-get")?.args(["install", "-y", "--no-install-recommends"]).args(packages).run();
    if packages.contains(&POSTGRESQL) { without_a_cluster(install) } else { install() }
}

/// Debian's PostgreSQL creates and starts a server of its own when it is installed. The tests start theirs, and a
/// developer's machine should not get a service that nobody asked for.
fn without_a_cluster(install: impl FnOnce() -> Result<()>) -> Result<()> {
    let folder = "/etc/postgresql-common/createcluster.d";
    let file = format!("{folder}/rookery-tests.conf");
    let write = format!("mkdir -p {folder} && echo 'create_main_cluster = false' >{file}");
    as_root("sh")?.args(["-c", &write]).run()?;
    let installed = install();
    // Later installations are none of our business.
    as_root("rm")?.args(["-f", &file]).run()?;
    installed
}

fn as_root(program: &str) -> Result<Program> {
    if rustix::process::geteuid().is_root() {
        Ok(Program::new(program).env("DEBIAN_FRONTEND", "noninteractive"))
    } else if process::find("sudo").is_some() {
        Ok(Program::new("sudo").args(["env", "DEBIAN_FRONTEND=noninteractive", program]))
    } else {
        bail!("installing needs root, and there is no sudo")
    }
}
