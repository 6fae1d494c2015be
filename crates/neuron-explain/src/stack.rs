//! Which generation a log is of, told or presumed, and what room that leaves
//! (`spec/report.md` 6, 6.2; `spec/dmem.md` 5.3).

use neuron_abi::arch::{FIRMWARE_RESERVE, Generation};
use neuron_dmem::report::Size;
use serde::Serialize;

use crate::facts::{Facts, Row, Scope};

const GIB: u64 = 1 << 30;

/// A generation, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The generation.
    pub generation: Generation,
    /// Why it is presumed; `None` if it was told.
    pub because: Option<&'static str>,
}

/// What a row leaves of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RoomLeft {
    /// The row's.
    pub scope: Scope,
    /// 2, 3 or 4.
    pub arch: u32,
    /// The stack less the firmware's 16 MiB.
    pub pool_bytes: u64,
    /// The same less the small pool of 1 GiB.
    pub main_pool_bytes: u64,
    /// Pool less the printed total; 0 if that is more.
    pub free: Size,
    /// Main pool less the printed total. What is used in the small pool is in that total too, so
    /// that this may be too little; negative if the small pool is in use for certain.
    pub main_left: i64,
    /// The printed total is more than the pool has: the generation is another.
    pub contradiction: bool,
}

impl Stack {
    /// As told, else as `spec/report.md` 6.2 presumes.
    pub fn of(facts: &Facts, told: Option<Generation>) -> Option<Self> {
        told.map(|generation| Self { generation, because: None }).or_else(|| presumed(facts))
    }

    /// The number in JSON.
    pub const fn arch(&self) -> u32 {
        self.generation.raw()
    }

    /// Bytes of an HBM.
    pub fn stack_bytes(&self) -> u64 {
        self.generation.geometry().hbm.first().map_or(0, |hbm| hbm.size)
    }

    /// What is left beside a row.
    pub fn room(&self, row: &Row) -> Option<RoomLeft> {
        let hbm = self.generation.geometry().hbm.first()?;
        let total = row.total?;
        let pool_bytes = hbm.size - FIRMWARE_RESERVE;
        let small = hbm.small_pool();
        let main_pool_bytes = pool_bytes - (small.end - small.start);
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        Some(RoomLeft {
            scope: row.scope,
            arch: self.arch(),
            pool_bytes,
            main_pool_bytes,
            free: Size { bytes: pool_bytes.saturating_sub(total.bytes), tol: total.tol },
            main_left: signed(main_pool_bytes).saturating_sub(signed(total.bytes)),
            contradiction: total.bytes > pool_bytes.saturating_add(total.tol),
        })
    }

    /// Whether two cores of a device share an HBM.
    pub fn share(&self, core: u32, other: u32) -> bool {
        let hbm = |core| self.generation.geometry().hbm_of_core(core);
        hbm(core).is_some() && hbm(core) == hbm(other)
    }
}

fn presumed(facts: &Facts) -> Option<Stack> {
    let of = |generation, because| Some(Stack { generation, because: Some(because) });
    let totals = facts.usage.iter().filter_map(|row| row.total);
    let totals = totals.chain(facts.memory_blocks.iter().map(|block| block.current_total));
    let largest = totals.map(|total| total.bytes).max().unwrap_or(0);
    let rows = facts.usage.iter().map(|row| row.scope);
    let failures = facts.failures.iter().map(|it| Scope { device: it.device, hbm: it.hbm, core: it.core });
    let blocks = facts.memory_blocks.iter().map(|it| Scope {
        device: Some(it.device),
        hbm: None,
        core: Some(it.core),
    });
    let scopes: Vec<Scope> = rows.chain(failures).chain(blocks).collect();
    let alone = facts.cores_on_hbm.len() == 1 && facts.lnc_size == Some(1);
    if largest > 24 * GIB {
        return of(Generation::V4, "a total above 24 GiB");
    }
    if scopes.iter().any(|scope| scope.core.is_some_and(|core| core > 1)) {
        return of(Generation::V3, "a core above 1");
    }
    if scopes.iter().any(|scope| scope.hbm.is_some_and(|hbm| hbm > 1)) {
        return of(Generation::V3, "an HBM above 1");
    }
    if facts.lnc_size.is_some() && !alone {
        return of(Generation::V3, "cores that share an HBM");
    }
    if largest > 16 * GIB {
        return of(Generation::V3, "a total above 16 GiB");
    }
    // Our own reports say so where one core has the HBM to itself (`spec/report.md` 3.2).
    if alone {
        return of(Generation::V2, "a core that has its HBM to itself");
    }
    let list = facts.usage.iter().any(|row| row.table.is_none());
    if list { of(Generation::V2, "a list by core, as older runtimes print") } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(total: &str, hbm: Option<u32>, core: Option<u32>, table: Option<usize>) -> Facts {
        let row = Row {
            scope: Scope { device: Some(0), hbm, core },
            total: total.parse().ok(),
            table,
            ..Row::default()
        };
        Facts { usage: vec![row], ..Facts::default() }
    }

    fn arch(facts: &Facts) -> Option<u32> {
        Stack::of(facts, None).map(|stack| stack.arch())
    }

    #[test]
    fn each_rule_of_the_presumption() {
        assert_eq!(arch(&row("24.001GB", None, Some(0), None)), Some(4));
        assert_eq!(arch(&row("1.000GB", None, Some(2), None)), Some(3));
        assert_eq!(arch(&row("1.000GB", Some(2), None, Some(0))), Some(3));
        assert_eq!(arch(&row("16.001GB", Some(0), None, Some(0))), Some(3));
        assert_eq!(arch(&row("15.000GB", None, Some(1), None)), Some(2));
        assert_eq!(arch(&row("15.000GB", Some(1), None, Some(0))), None);
        let mut shared = row("1.000GB", Some(0), None, Some(0));
        (shared.lnc_size, shared.cores_on_hbm) = (Some(1), vec![0, 1]);
        assert_eq!(arch(&shared), Some(3));
        shared.cores_on_hbm = vec![0];
        assert_eq!(arch(&shared), Some(2));
        assert_eq!(Stack::of(&shared, Some(Generation::V4)).unwrap().because, None);
    }

    #[test]
    fn room_is_pool_less_total() {
        let facts = row("23.853GB", Some(2), None, Some(0));
        let room = Stack::of(&facts, None).unwrap().room(&facts.usage[0]).unwrap();
        assert_eq!((room.pool_bytes, room.main_pool_bytes), (25_753_026_560, 24_679_284_736));
        assert_eq!(room.free, Size { bytes: 141_062_832, tol: 536_871 });
        assert!(room.main_left < 0 && !room.contradiction);
        let told = Stack::of(&facts, Some(Generation::V2)).unwrap();
        assert!(told.room(&facts.usage[0]).unwrap().contradiction);
    }
}
