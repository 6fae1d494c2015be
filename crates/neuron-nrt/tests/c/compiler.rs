//! A C compiler, and the library as it would be installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder to compile in, with the library beside it.
pub(crate) struct Compiler {
    folder: TempDir,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Runs a program that has to succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}

/// Whether the program is there.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

impl Compiler {
    /// `None`, with the reason printed, where there is no C compiler. In CI there has to be one.
    pub(crate) fn find() -> Option<Self> {
        if !is_there("cc") {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "CI needs a C compiler: install cc"
            );
            println!("skipped: there is no C compiler (cc)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let built = std::env::current_exe().unwrap().parent().unwrap().join("libnrt.so");
        assert!(built.exists(), "{} was not built with this test", built.display());
        let lib = folder.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::os::unix::fs::symlink(&built, lib.join("libnrt.so.1")).unwrap();
        std::os::unix::fs::symlink("libnrt.so.1", lib.join("libnrt.so")).unwrap();
        Some(Self { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn lib(&self) -> PathBuf {
        self.folder().join("lib")
    }

    /// Writes a source.
    pub(crate) fn source(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Compiles and links; any warning is an error.
    pub(crate) fn link(&self, source: &Path) -> PathBuf {
        let program = self.folder().join("program");
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]);
        command.arg("-I").arg(root().join("include")).arg(source).arg("-o").arg(&program);
        command.arg("-L").arg(self.lib()).arg(format!("-Wl,-rpath,{}", self.lib().display())).arg("-lnrt");
        run(&mut command);
        program
    }

    /// Runs a program in an environment in which only this is set of what the library reads.
    pub(crate) fn clean(program: &Path) -> Command {
        let mut command = Command::new(program);
        let ours = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| name.to_string_lossy().starts_with("NEURON"));
        for name in ours {
            command.env_remove(name);
        }
        command.env("NEURON_RT_OOM_DUMP_DIRECTORY", "");
        command
    }
}
