//! Where `libneuron_preload.so` is.

use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;

/// Names the library's file.
pub const VARIABLE: &str = "NEURON_MEM_PRELOAD";
const NAME: &str = "libneuron_preload.so";

/// The library: the file that `NEURON_MEM_PRELOAD` names, else beside this program, else in `lib` beside its folder.
///
/// # Errors
/// [`Exit::Device`] if it is nowhere.
pub fn find() -> Result<PathBuf, Failure> {
    let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let program = std::env::current_exe().ok();
    of(named, program.as_deref())
}

fn of(named: Option<PathBuf>, program: Option<&Path>) -> Result<PathBuf, Failure> {
    let missing = |places: &[PathBuf]| {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let why = format!("{NAME} is not at {}", places.join(", nor at "));
        Failure::new(Exit::Device, why)
            .with_note("`cargo build --release -p neuron-preload` builds it beside neuron-mem")
            .with_note(&format!("{VARIABLE} can name the file"))
    };
    let places = match named {
        Some(path) => vec![path],
        None => {
            let folder = program.and_then(Path::parent).unwrap_or(Path::new("."));
            let beside = folder.parent().map(|parent| parent.join("lib").join(NAME));
            [Some(folder.join(NAME)), beside].into_iter().flatten().collect()
        }
    };
    let found = places.iter().find(|place| place.is_file());
    let found = found.ok_or_else(|| missing(&places))?;
    std::path::absolute(found).map_err(|error| Failure::new(Exit::Device, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_beside_the_program_or_in_lib_or_where_it_is_said_to_be() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("bin/neuron-mem");
        std::fs::create_dir_all(root.path().join("bin")).unwrap();
        std::fs::create_dir_all(root.path().join("lib")).unwrap();
        let error = of(None, Some(&program)).unwrap_err().to_string();
        assert!(
            error.contains("bin/libneuron_preload.so") && error.contains("lib/libneuron_preload.so"),
            "{error}"
        );
        assert!(error.contains("cargo build --release -p neuron-preload"), "{error}");
        for place in ["lib", "bin"] {
            let file = root.path().join(place).join(NAME);
            std::fs::write(&file, "").unwrap();
            assert_eq!(of(None, Some(&program)).unwrap(), file);
        }
        let elsewhere = root.path().join("mine.so");
        assert!(of(Some(elsewhere.clone()), Some(&program)).is_err(), "and nowhere else then");
        std::fs::write(&elsewhere, "").unwrap();
        assert_eq!(of(Some(elsewhere.clone()), Some(&program)).unwrap(), elsewhere);
    }
}
