//! Whether a program takes a library that is loaded before it (`LD_PRELOAD`): it has to be
//! dynamically linked, for the C library that this program has. A script is what runs it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Why it does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// No loader runs before it.
    #[error("{} is statically linked, so nothing can be loaded before it: build it dynamically linked", .0.display())]
    Static(PathBuf),
    /// Another C library's loader.
    #[error("{} is linked for another C library ({loader}), where neuron-mem has {own}: use a build for that", program.display(), loader = loader.display(), own = own.display())]
    OtherLibrary {
        /// The program.
        program: PathBuf,
        /// Its loader.
        loader: PathBuf,
        /// The loader of this program.
        own: PathBuf,
    },
    /// For another machine.
    #[error("{} is for another kind of machine ({what}), and the library that shows it devices is for this one", program.display())]
    OtherMachine {
        /// The program.
        program: PathBuf,
        /// Which.
        what: String,
    },
    /// It gets other rights when it starts.
    #[error("{} runs with another user's rights, and nothing is loaded before such a program: run it as that user", .0.display())]
    Privileged(PathBuf),
}

/// How many scripts run scripts, as the kernel has it.
const SCRIPTS: usize = 5;
/// Most bytes of a script's first line, and of a loader's path.
const LONGEST: usize = 4096;
/// Where this program is.
const OWN: &str = "/proc/self/exe";

/// Looks at a program as it would be started by its name: one without a slash is looked for in
/// `PATH`. One that is not there or cannot be read is fit: that it does not start will tell.
///
/// # Errors
/// Why a library that is loaded before it would not be.
pub fn check(name: &OsStr) -> Result<(), Unfit> {
    let own = loader(Path::new(OWN)).ok().flatten();
    let path = std::env::var_os("PATH");
    checked(name, path.as_deref(), own.as_deref(), SCRIPTS)
}

fn checked(name: &OsStr, path: Option<&OsStr>, own: Option<&Path>, scripts: usize) -> Result<(), Unfit> {
    let Some(program) = found(name, path) else { return Ok(()) };
    let Ok(start) = start(&program) else { return Ok(()) };
    if let Some(line) = start.strip_prefix(b"#!") {
        let Some(deeper) = scripts.checked_sub(1) else { return Ok(()) };
        return runs(line).iter().try_for_each(|runs| checked(runs, path, own, deeper));
    }
    if !start.starts_with(b"\x7fELF") {
        return Ok(());
    }
    if let Ok(metadata) = program.metadata()
        && metadata.mode() & 0o6000 != 0
        && !is_same_user(&metadata)
    {
        return Err(Unfit::Privileged(program));
    }
    if let Some(what) = other_machine(&start) {
        return Err(Unfit::OtherMachine { program, what });
    }
    let Ok(loader) = loader(&program) else { return Ok(()) };
    let Some(loader) = loader else { return Err(Unfit::Static(program)) };
    match own {
        Some(own) if own.file_name() != loader.file_name() => {
            Err(Unfit::OtherLibrary { program, loader, own: own.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Whether the program's owner, whose rights it would run with, is this user and group.
fn is_same_user(metadata: &std::fs::Metadata) -> bool {
    let Ok(own) = std::fs::metadata("/proc/self") else { return false };
    (metadata.mode() & 0o4000 == 0 || own.uid() == metadata.uid())
        && (metadata.mode() & 0o2000 == 0 || own.gid() == metadata.gid())
}

/// The file that a name means.
fn found(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let folders = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
    };
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(is_program)
}

/// The first bytes of a file.
fn start(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LONGEST];
    let file = File::open(file)?;
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// What a script's first line runs: its interpreter, and what `env` looks for.
fn runs(line: &[u8]) -> Vec<OsString> {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let text = |word: &[u8]| OsString::from_vec(word.to_vec());
    let Some(interpreter) = words.next().map(text) else { return Vec::new() };
    let mut all = vec![interpreter];
    if all.iter().any(|interpreter| Path::new(interpreter).file_name() == Some(OsStr::new("env"))) {
        let is_program = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
        all.extend(words.find(is_program).map(text));
    }
    all
}

/// The kind of machine that an ELF file is for, unless it is this one.
fn other_machine(header: &[u8]) -> Option<String> {
    let own = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        _ => return None,
    };
    let bits = header.get(4).copied()?;
    let machine = header.get(18..20).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)?;
    if bits != 2 {
        return Some("one of 32 bits".to_owned());
    }
    (machine != own).then(|| match machine {
        62 => "x86-64".to_owned(),
        183 => "arm64".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("ELF machine {other}"),
    })
}

/// The loader that an ELF file of 64 bits names; `None` of one that names none.
fn loader(program: &Path) -> io::Result<Option<PathBuf>> {
    const HEADER: usize = 64;
    const ENTRY: usize = 56;
    const PT_INTERP: u32 = 3;
    let file = File::open(program)?;
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let table = number(&header, 32, 8);
    let (size, count) = (number(&header, 54, 2), number(&header, 56, 2));
    for index in 0..count {
        let mut entry = [0; ENTRY];
        let at = index.checked_mul(size).and_then(|offset| table.checked_add(offset));
        file.read_exact_at(&mut entry, at.ok_or(io::ErrorKind::InvalidData)?)?;
        if number(&entry, 0, 4) != u64::from(PT_INTERP) {
            continue;
        }
        let mut path = vec![0; usize::try_from(number(&entry, 32, 8)).unwrap_or(LONGEST).min(LONGEST)];
        file.read_exact_at(&mut path, number(&entry, 8, 8))?;
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        return Ok(Some(PathBuf::from(OsStr::from_bytes(path))));
    }
    Ok(None)
}

/// A number of so many bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const GLIBC: &str = "/lib64/ld-linux-x86-64.so.2";

    /// An ELF file for this machine, with a loader if there is to be one.
    fn elf(loader: Option<&str>) -> Vec<u8> {
        let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&2_u16.to_le_bytes());
        file[64..68].copy_from_slice(&1_u32.to_le_bytes());
        if let Some(loader) = loader {
            let (at, end) = (file.len() as u64, loader.len() as u64 + 1);
            file[120..124].copy_from_slice(&3_u32.to_le_bytes());
            file[128..136].copy_from_slice(&at.to_le_bytes());
            file[152..160].copy_from_slice(&end.to_le_bytes());
            file.extend(loader.bytes().chain([0]));
        }
        file
    }

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn program(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
            let file = self.0.path().join(name);
            std::fs::write(&file, bytes).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            file
        }

        fn checked(&self, name: impl AsRef<OsStr>) -> Result<(), Unfit> {
            checked(name.as_ref(), Some(self.0.path().as_os_str()), Some(Path::new(GLIBC)), SCRIPTS)
        }
    }

    #[test]
    fn a_program_is_fit_if_it_names_the_same_loader() {
        let folder = Folder::new();
        folder.program("fit", elf(Some(GLIBC)));
        folder.program("moved", elf(Some("/nix/store/x/lib/ld-linux-x86-64.so.2")));
        assert_eq!((folder.checked("fit"), folder.checked("moved")), (Ok(()), Ok(())));
        let stat = folder.program("static", elf(None));
        assert_eq!(folder.checked(&stat), Err(Unfit::Static(stat.clone())));
        assert_eq!(folder.checked("static"), Err(Unfit::Static(stat)), "as found in PATH");
        folder.program("musl", elf(Some("/lib/ld-musl-x86_64.so.1")));
        let error = folder.checked("musl").unwrap_err().to_string();
        assert!(error.contains("ld-musl-x86_64.so.1") && error.contains(GLIBC), "{error}");
    }

    #[test]
    fn a_program_for_another_machine_is_told_as_that() {
        let folder = Folder::new();
        let mut other = elf(Some(GLIBC));
        other[18..20].copy_from_slice(&243_u16.to_le_bytes());
        folder.program("other", &other);
        assert!(folder.checked("other").unwrap_err().to_string().contains("RISC-V"));
        other[4] = 1;
        folder.program("small", &other);
        assert!(folder.checked("small").unwrap_err().to_string().contains("32 bits"));
    }

    #[test]
    fn a_script_is_what_runs_it() {
        let folder = Folder::new();
        let stat = folder.program("static", elf(None));
        folder.program("fit", elf(Some(GLIBC)));
        let env = folder.program("env", elf(Some(GLIBC)));
        folder.program("script", format!("#! {} -x\nrest", stat.display()));
        assert_eq!(folder.checked("script"), Err(Unfit::Static(stat.clone())));
        folder.program("twice", format!("#!{}\n", folder.0.path().join("script").display()));
        assert_eq!(folder.checked("twice"), Err(Unfit::Static(stat.clone())));
        folder.program("by_env", format!("#!{} -S A=b static -u\n", env.display()));
        assert_eq!(folder.checked("by_env"), Err(Unfit::Static(stat)));
        folder.program("fine", format!("#!{} fit\n", env.display()));
        assert_eq!(folder.checked("fine"), Ok(()));
        folder.program("itself", format!("#!{}\n", folder.0.path().join("itself").display()));
        assert_eq!(folder.checked("itself"), Ok(()), "the system says what is wrong");
    }

    #[test]
    fn what_cannot_be_looked_at_is_left_to_the_system() {
        let folder = Folder::new();
        folder.program("text", "echo");
        folder.program("empty", "");
        folder.program("cut", &elf(Some(GLIBC))[..100]);
        for name in ["text", "empty", "cut", "none", "/no/such/program"] {
            assert_eq!(folder.checked(name), Ok(()), "{name}");
        }
        let mut far = elf(Some(GLIBC));
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        folder.program("far", &far);
        assert_eq!(folder.checked("far"), Ok(()));
    }

    /// Only root can give files away.
    #[test]
    fn a_program_with_anothers_rights_is_told_as_that() {
        let folder = Folder::new();
        let program = folder.program("other", elf(Some(GLIBC)));
        if std::os::unix::fs::chown(&program, Some(1), Some(1)).is_err() {
            println!("skipped: files can only be given away by root");
            return;
        }
        for (mode, fit) in [(0o755, true), (0o4755, false), (0o2755, false)] {
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
            let expected = if fit { Ok(()) } else { Err(Unfit::Privileged(program.clone())) };
            assert_eq!(folder.checked("other"), expected, "{mode:o}");
        }
    }

    /// Programs that are there wherever these tests run.
    #[test]
    fn this_program_is_fit_and_so_is_a_shell() {
        assert_eq!(check(OsStr::new(OWN)), Ok(()));
        assert_eq!(check(OsStr::new("sh")), Ok(()));
        assert_eq!(check(OsStr::new("no such program")), Ok(()));
    }
}
