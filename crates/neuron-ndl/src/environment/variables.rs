//! The values, and what follows where nothing is set.

use std::ffi::OsString;
use std::ops::Range;

use neuron_abi::arch::Generation;
use neuron_softdev::Instance;

use super::backend::{BACKEND, BackendName};
use super::cores::{self, CoreLayout, CoreList, VISIBLE};
use super::error::EnvironmentError;
use super::instance::{self, INSTANCE};
use super::value::{Held, switch};

const NUM_CORES: &str = "NEURON_RT_NUM_CORES";
const LOGICAL: &str = "NEURON_LOGICAL_NC_CONFIG";
const VIRTUAL: &str = "NEURON_RT_VIRTUAL_CORE_SIZE";
const RESET_CORES: &str = "NEURON_RT_RESET_CORES";
const MAP_HBM: &str = "NEURON_RT_MAP_HBM";
const ZERO_COPY: &str = "NEURON_RT_DBG_ZEROCOPY";
const DIRECT_WRITE: &str = "NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE";
const SCRATCHPAD_PAGE: &str = "NEURON_SCRATCHPAD_PAGE_SIZE";
const CONTIGUOUS: &str = "NEURON_RT_CONTIGUOUS_SCRATCHPAD";

/// The variables that are read here.
pub const VARIABLES: [&str; 12] = [
    BACKEND,
    INSTANCE,
    VISIBLE,
    NUM_CORES,
    LOGICAL,
    VIRTUAL,
    RESET_CORES,
    MAP_HBM,
    ZERO_COPY,
    DIRECT_WRITE,
    SCRATCHPAD_PAGE,
    CONTIGUOUS,
];

/// The largest write that goes through the HBM window where nothing is set, bytes: 0x1000, on
/// V2 0 (`spec/ndl.md` 7, `NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE`).
pub const fn default_direct_write(generation: Generation) -> u32 {
    match generation {
        Generation::V2 => 0,
        Generation::V3 | Generation::V4 => 0x1000,
    }
}

/// What the environment asks for; `None` where it says nothing. A variable that is set to
/// nothing counts as not set (our choice).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// `NEURON_MEM_BACKEND`: where devices are looked for.
    pub backend: Option<BackendName>,
    /// `NEURON_MEM_INSTANCE`: the machine that the software backend presents; ours.
    pub instance: Option<&'static Instance>,
    /// `NEURON_RT_VISIBLE_CORES`: the logical cores of the machine that this process sees.
    pub visible_cores: Option<CoreList>,
    /// `NEURON_RT_NUM_CORES`: how many logical cores to take; 0 counts as not set.
    pub num_cores: Option<u32>,
    /// `NEURON_LOGICAL_NC_CONFIG` or `NEURON_RT_VIRTUAL_CORE_SIZE`: physical cores that make
    /// a logical one, 1 or 2.
    pub logical_size: Option<u32>,
    /// `NEURON_RT_RESET_CORES`: whether cores are reset at the start.
    pub reset_cores: Option<bool>,
    /// `NEURON_RT_MAP_HBM`: whether HBM is mapped into the process.
    pub map_hbm: Option<bool>,
    /// `NEURON_RT_DBG_ZEROCOPY`: whether copies go without a bounce.
    pub zero_copy: Option<bool>,
    /// `NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE`: the largest write that goes through the HBM
    /// window, bytes. What does not fit in 32 bits is the most that does.
    pub direct_write: Option<u32>,
    /// `NEURON_SCRATCHPAD_PAGE_SIZE`, in bytes (the variable counts MiB).
    pub scratchpad_page: Option<u64>,
    /// `NEURON_RT_CONTIGUOUS_SCRATCHPAD`: whether the scratchpad is one run of pages.
    pub contiguous_scratchpad: Option<bool>,
}

/// An environment with everything that is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What is right; a wrong value counts as not set.
    pub environment: Environment,
    /// What is wrong, in the order of [`VARIABLES`].
    pub errors: Vec<EnvironmentError>,
    /// The variables that are set, right or wrong, with their values fit for a terminal.
    pub set: Vec<(&'static str, String)>,
}

impl Environment {
    /// That of this process, as it is now.
    ///
    /// # Errors
    /// The first variable that cannot be followed: none is taken for another value than it has.
    pub fn from_process() -> Result<Self, EnvironmentError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// As `variable` has it.
    ///
    /// # Errors
    /// As [`from_process`](Self::from_process).
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, EnvironmentError> {
        let Reading { environment, mut errors, .. } = Self::read(variable);
        if errors.is_empty() { Ok(environment) } else { Err(errors.swap_remove(0)) }
    }

    /// As `variable` has it, with all that is wrong with it.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Reading {
        let mut reader = Reader { variable, errors: Vec::new(), set: Vec::new() };
        let environment = reader.environment();
        Reading { environment, errors: reader.errors, set: reader.set }
    }

    /// Physical cores that make a logical core of this generation: 1 on V2, else 2 unless set
    /// (`spec/nrt-abi.md` 7).
    pub const fn logical_size(&self, generation: Generation) -> u32 {
        cores::logical_size(generation, self.logical_size)
    }

    /// The largest write that goes through the HBM window, bytes: that of the generation unless
    /// set.
    pub const fn direct_write(&self, generation: Generation) -> u32 {
        match self.direct_write {
            Some(bytes) => bytes,
            None => default_direct_write(generation),
        }
    }

    /// The logical cores of the machine that this process sees: those listed, or the first of
    /// so many as asked for, or all (`spec/nrt-abi.md` 5).
    ///
    /// # Errors
    /// The entry, or the number, that asks for what is not there.
    pub fn visible(&self, layout: CoreLayout) -> Result<Range<u32>, EnvironmentError> {
        if let Some(list) = &self.visible_cores {
            return list.resolve(layout);
        }
        let total = layout.logical_total();
        match self.num_cores {
            Some(value) if value > total => {
                let present = cores::present(layout);
                Err(EnvironmentError::TooMany { variable: NUM_CORES, value, present })
            }
            Some(count) => Ok(0..count),
            None => Ok(0..total),
        }
    }

    /// Settings that have no effect because of others, a sentence each. `generation` is that of
    /// the machine, if it is known.
    pub fn without_effect(&self, generation: Option<Generation>) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(backend @ (BackendName::Kernel | BackendName::Unix(_))) = &self.backend
            && self.instance.is_some()
        {
            found.push(format!("{INSTANCE} has no effect with {BACKEND} {backend}"));
        }
        if self.visible_cores.is_some() && self.num_cores.is_some() {
            found.push(format!("{NUM_CORES} has no effect beside {VISIBLE}"));
        }
        if self.logical_size == Some(2) && generation == Some(Generation::V2) {
            let name = "a logical core size of 2";
            found.push(format!(
                "{name} has no effect on trn1 and inf2, whose logical cores are one core each"
            ));
        }
        if self.direct_write.is_some() && self.zero_copy == Some(false) {
            found.push(format!("{DIRECT_WRITE} has no effect with {ZERO_COPY} off"));
        }
        if self.scratchpad_page.is_some() && self.contiguous_scratchpad == Some(true) {
            found.push(format!("{SCRATCHPAD_PAGE} has no effect with {CONTIGUOUS} on"));
        }
        found
    }
}

/// Reads one variable after the other and keeps what is wrong.
struct Reader<F> {
    variable: F,
    errors: Vec<EnvironmentError>,
    set: Vec<(&'static str, String)>,
}

impl<F: Fn(&str) -> Option<OsString>> Reader<F> {
    fn environment(&mut self) -> Environment {
        const SIZE: &str = "1 or 2";
        const PAGE: &str = "a multiple of 512 up to 3584 (MiB)";
        const MIB: u64 = 1 << 20;
        Environment {
            backend: self.take(BACKEND, |held| BackendName::from_value(held.value)),
            instance: self.take(INSTANCE, instance::from_held),
            visible_cores: self.take(VISIBLE, CoreList::from_held),
            num_cores: self
                .take(NUM_CORES, |held| {
                    held.number(0..=u32::MAX.into(), "a number of cores, or 0 for all").map(|n| n as u32)
                })
                .filter(|&cores| cores > 0),
            logical_size: {
                let [logical, virtual_size] = [LOGICAL, VIRTUAL]
                    .map(|name| self.take(name, |held| held.number(1..=2, SIZE).map(|size| size as u32)));
                self.one(logical, virtual_size)
            },
            reset_cores: self.take(RESET_CORES, switch),
            map_hbm: self.take(MAP_HBM, switch),
            zero_copy: self.take(ZERO_COPY, switch),
            direct_write: self.take(DIRECT_WRITE, |held| {
                let bytes = held.number(0..=u64::MAX, "a number of bytes, such as 4096 or 0x1000")?;
                Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
            }),
            scratchpad_page: self.take(SCRATCHPAD_PAGE, |held| {
                let mib = held.number(512..=3584, PAGE)?;
                if mib.is_multiple_of(512) { Ok(mib * MIB) } else { Err(held.wrong(PAGE)) }
            }),
            contiguous_scratchpad: self.take(CONTIGUOUS, switch),
        }
    }

    fn take<T>(
        &mut self,
        variable: &'static str,
        parse: impl FnOnce(Held<'_>) -> Result<T, EnvironmentError>,
    ) -> Option<T> {
        let value = (self.variable)(variable).filter(|value| !value.is_empty())?;
        let held = Held { variable, value: &value };
        self.set.push((variable, held.shown()));
        parse(held).map_err(|error| self.errors.push(error)).ok()
    }

    /// The value of a setting with two names.
    fn one(&mut self, logical: Option<u32>, virtual_size: Option<u32>) -> Option<u32> {
        if let (Some(first_value), Some(second_value)) = (logical, virtual_size)
            && first_value != second_value
        {
            let (first, second) = (LOGICAL, VIRTUAL);
            self.errors.push(EnvironmentError::Differ { first, first_value, second, second_value });
            return None;
        }
        logical.or(virtual_size)
    }
}
