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
}

const NEEDS: &[Need] = &[
    Need { found_by: Probe::Program("git"), package: "git" },
    Need { found_by: Probe::Program("python3"), package: "python3" },
    // Debian splits this out of python3: without it `python3 -m venv` makes an environment that has no pip.
    Need { found_by: Probe::PythonModule("ensurepip"), package: "python3-venv" },
];

impl Probe {
    fn succeeds(&self) -> bool {
        match self {
            Self::Program(name) => process::find(name).is_some(),
            Self::PythonModule(name) => {
                Program::new("python3").args(["-c", &format!("import {name}")]).probe().is_some()
            }
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name) => write!(f, "the program {name}"),
            Self::PythonModule(name) => write!(f, "the Python module {name}"),
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
    apt_get()?.arg("update").run()?;
    apt_get()?.args(["install", "-y", "--no-install-recommends"]).args(packages).run()
}

fn apt_get() -> Result<Program> {
    let program = if rustix::process::geteuid().is_root() {
        Program::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive")
    } else if process::find("sudo").is_some() {
        Program::new("sudo").args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"])
    } else {
        bail!("installing needs root, and there is no sudo");
    };
    Ok(program)
}
