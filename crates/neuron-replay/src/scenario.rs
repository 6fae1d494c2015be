//! What a trace is run against: the pools of an instance, and what is different from them.

use neuron_abi::arch::{Geometry, PAGE_SIZE, Product, VENDOR_ID};
use neuron_driver::pool::PoolParams;
use neuron_softdev::{INSTANCES, Instance};

pub use crate::pools::Fit;

/// Pools to run against.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How it is called.
    pub name: String,
    instance: &'static Instance,
    geometry: &'static Geometry,
    params: PoolParams,
    align: Align,
    fit: Fit,
    page: u64,
    order: Order,
}

/// What alignment requests get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// The one they ask for.
    #[default]
    AsAsked,
    /// None.
    None,
    /// At least so many bytes.
    AtLeast(u64),
}

/// In which order a run of allocations, without a free between them, is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the trace.
    #[default]
    Trace,
    /// Largest first.
    LargestFirst,
    /// Smallest first.
    SmallestFirst,
}

/// One thing that is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pools of another instance.
    Instance(&'static str),
    /// Another alignment of device memory.
    Align(Align),
    /// Bytes of each HBM's small pool; 0 for none.
    SmallPool(u64),
    /// Largest size that goes to the small pool first.
    SmallMax(u64),
    /// Another choice of holes.
    Fit(Fit),
    /// A larger page: what sizes and addresses are multiples of.
    Page(u64),
    /// Another order.
    Order(Order),
}

/// A scenario that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No such instance.
    #[error("unknown instance type `{name}`; known are {}", known())]
    UnknownInstance {
        /// What was asked for.
        name: String,
    },
    /// A page that is none.
    #[error("a page of {bytes} B; it is a power of two from {PAGE_SIZE} to 1073741824 (1 GiB)")]
    Page {
        /// What was asked for.
        bytes: u64,
    },
    /// A small pool that the driver would not make.
    #[error("a small pool of {bytes} B; it is a multiple of {PAGE_SIZE} and smaller than the HBM's {hbm} B")]
    SmallPool {
        /// What was asked for.
        bytes: u64,
        /// Bytes of an HBM.
        hbm: u64,
    },
}

fn known() -> String {
    let names: Vec<&str> = INSTANCES.iter().map(|instance| instance.name).collect();
    names.join(", ")
}

fn geometry(instance: &Instance) -> Option<&'static Geometry> {
    let product = Product::from_pci(VENDOR_ID, instance.product.device_id())?;
    Some(product.generation.geometry())
}

impl Scenario {
    /// The driver's pools on this instance type, called by its name.
    ///
    /// # Errors
    /// [`ScenarioError::UnknownInstance`].
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        let unknown = || ScenarioError::UnknownInstance { name: name.to_owned() };
        let instance = Instance::by_name(name).ok_or_else(unknown)?;
        Ok(Self {
            name: name.to_owned(),
            instance,
            geometry: geometry(instance).ok_or_else(unknown)?,
            params: PoolParams::default(),
            align: Align::default(),
            fit: Fit::default(),
            page: PAGE_SIZE,
            order: Order::default(),
        })
    }

    /// The same with these changes, under this name.
    ///
    /// # Errors
    /// [`ScenarioError`] for what cannot be.
    pub fn with(&self, name: &str, changes: &[Change]) -> Result<Self, ScenarioError> {
        let mut new = Self { name: name.to_owned(), ..self.clone() };
        for change in changes {
            match *change {
                Change::Instance(name) => {
                    let other = Self::named(name)?;
                    (new.instance, new.geometry) = (other.instance, other.geometry);
                }
                Change::Align(align) => new.align = align,
                Change::SmallPool(bytes) => new.params.small_pool_size = bytes,
                Change::SmallMax(bytes) => new.params.small_alloc_max = bytes,
                Change::Fit(fit) => new.fit = fit,
                Change::Page(bytes) => new.page = bytes,
                Change::Order(order) => new.order = order,
            }
        }
        if !new.page.is_power_of_two() || !(PAGE_SIZE..=1 << 30).contains(&new.page) {
            return Err(ScenarioError::Page { bytes: new.page });
        }
        let (bytes, hbm) = (new.params.small_pool_size, new.geometry.hbm.first().map_or(0, |hbm| hbm.size));
        if bytes >= hbm || !bytes.is_multiple_of(PAGE_SIZE) {
            return Err(ScenarioError::SmallPool { bytes, hbm });
        }
        Ok(new)
    }

    /// The instance type.
    pub const fn instance(&self) -> &'static Instance {
        self.instance
    }

    /// Each of its devices.
    pub const fn geometry(&self) -> &'static Geometry {
        self.geometry
    }

    /// The pools' parameters.
    pub const fn params(&self) -> &PoolParams {
        &self.params
    }

    /// Which hole a request goes to.
    pub const fn fit(&self) -> Fit {
        self.fit
    }

    /// Bytes of a page.
    pub const fn page(&self) -> u64 {
        self.page
    }

    /// The order.
    pub const fn order(&self) -> Order {
        self.order
    }

    /// The alignment that a request for device memory gets.
    pub fn align(&self, asked: u64) -> u64 {
        match self.align {
            Align::AsAsked => asked,
            Align::None => 0,
            Align::AtLeast(bytes) => asked.max(bytes),
        }
    }

    /// The name of a known instance type, to keep.
    ///
    /// # Errors
    /// [`ScenarioError::UnknownInstance`].
    pub fn instance_name(name: &str) -> Result<&'static str, ScenarioError> {
        Self::named(name).map(|scenario| scenario.instance.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_pools() {
        for instance in INSTANCES {
            let scenario = Scenario::named(instance.name).unwrap();
            assert_eq!(scenario.instance().name, instance.name);
            assert!(!scenario.geometry().hbm.is_empty());
        }
        let error = Scenario::named("p5.48xlarge").unwrap_err().to_string();
        assert!(error.contains("`p5.48xlarge`") && error.contains("trn1.2xlarge"), "{error}");
    }

    #[test]
    fn changes_that_cannot_be_are_refused() {
        let base = Scenario::named("trn1.2xlarge").unwrap();
        for bytes in [0, 1024, 5000, 1 << 31] {
            assert_eq!(base.with("x", &[Change::Page(bytes)]).unwrap_err(), ScenarioError::Page { bytes });
        }
        assert!(base.with("x", &[Change::SmallPool(16 << 30)]).is_err());
        assert!(base.with("x", &[Change::SmallPool(1)]).is_err());
        // Only together with an instance whose HBMs are larger.
        let both = [Change::SmallPool(16 << 30), Change::Instance("trn2.3xlarge")];
        assert_eq!(base.with("x", &both).unwrap().params().small_pool_size, 16 << 30);
    }

    #[test]
    fn alignment_is_as_asked_or_none_or_more() {
        let base = Scenario::named("trn1.2xlarge").unwrap();
        let aligned = |align| base.with("x", &[Change::Align(align)]).unwrap();
        assert_eq!(base.align(64), 64);
        assert_eq!(aligned(Align::None).align(64), 0);
        assert_eq!([32, 256].map(|asked| aligned(Align::AtLeast(128)).align(asked)), [128, 256]);
    }
}
