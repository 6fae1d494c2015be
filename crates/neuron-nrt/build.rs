//! The library's name for the linker, and the revision that it tells.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // What programs that link with `-lnrt` ask for at their start.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnrt.so.1");
    // A device in software has threads, which must not lose their code to a `dlclose`.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    let revision = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=NEURON_NRT_REVISION={revision}");
}
