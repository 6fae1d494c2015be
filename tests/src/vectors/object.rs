//! A JSON object of a case. It remembers which fields were looked at, so that none is
//! forgotten: [`Object::finish`] refuses what nobody compared.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Mismatch;
use crate::machine::{Access, Op};

/// An object and the fields of it that were read.
#[derive(Debug)]
pub struct Object<'a> {
    fields: &'a Map<String, Value>,
    seen: RefCell<BTreeSet<String>>,
}

/// What a field has to be, for messages.
fn wrong(key: &str, wanted: &str, value: Option<&Value>) -> Mismatch {
    match value {
        None => Mismatch::new(format!("the case has no field {key:?}")),
        Some(value) => Mismatch::new(format!("field {key:?} is no {wanted}: {value}")),
    }
}

impl<'a> Object<'a> {
    /// The object with these fields, none of them read.
    pub fn new(fields: &'a Map<String, Value>) -> Self {
        Self { fields, seen: RefCell::default() }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.seen.borrow_mut().insert(key.to_owned());
        self.fields.get(key)
    }

    fn required<T>(
        &self,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Mismatch> {
        let value = self.get(key);
        value.and_then(convert).ok_or_else(|| wrong(key, wanted, value))
    }

    /// Whether the field is there. Does not count as reading it.
    pub fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// Counts a field as read that says nothing to compare.
    pub fn skip(&self, key: &str) {
        self.seen.borrow_mut().insert(key.to_owned());
    }

    /// Counts all fields as read: nothing of them is compared.
    pub fn skip_all(&self) {
        self.seen.borrow_mut().extend(self.fields.keys().cloned());
    }

    /// An unsigned number, plain or as `"0x.."`.
    ///
    /// # Errors
    /// If it is missing or no such number.
    pub fn number(&self, key: &str) -> Result<u64, Mismatch> {
        self.required(key, "unsigned number", number)
    }

    /// An unsigned number of 32 bits. Negative ones are taken modulo 2^32: a C `int` was
    /// passed where the callee takes it as unsigned.
    ///
    /// # Errors
    /// If it is missing or does not fit.
    pub fn word(&self, key: &str) -> Result<u32, Mismatch> {
        self.required(key, "32-bit number", |value| match value.as_i64() {
            Some(signed) if signed < 0 => i32::try_from(signed).ok().map(i32::cast_unsigned),
            _ => number(value).and_then(|number| u32::try_from(number).ok()),
        })
    }

    /// A signed number.
    ///
    /// # Errors
    /// If it is missing or no such number.
    pub fn signed(&self, key: &str) -> Result<i64, Mismatch> {
        self.required(key, "number", Value::as_i64)
    }

    /// A number, or `None` for `null`.
    ///
    /// # Errors
    /// If it is missing or neither.
    pub fn nullable(&self, key: &str) -> Result<Option<u64>, Mismatch> {
        self.required(key, "number or null", |value| match value.is_null() {
            true => Some(None),
            false => number(value).map(Some),
        })
    }

    /// Whether the field is there and `null`. Counts as reading it.
    pub fn is_null(&self, key: &str) -> bool {
        self.get(key).is_some_and(Value::is_null)
    }

    /// 0 or 1.
    ///
    /// # Errors
    /// If it is missing or another number.
    pub fn flag(&self, key: &str) -> Result<bool, Mismatch> {
        self.required(key, "0 or 1", |value| match number(value) {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        })
    }

    /// Text.
    ///
    /// # Errors
    /// If it is missing or no text.
    pub fn text(&self, key: &str) -> Result<&'a str, Mismatch> {
        self.required(key, "text", Value::as_str)
    }

    /// Raw bytes of memory.
    ///
    /// # Errors
    /// If it is missing or no hex.
    pub fn raw(&self, key: &str) -> Result<Vec<u8>, Mismatch> {
        self.required(key, "hex", bytes)
    }

    /// A list.
    ///
    /// # Errors
    /// If it is missing or no list.
    pub fn list(&self, key: &str) -> Result<&'a [Value], Mismatch> {
        self.required(key, "list", |value| value.as_array().map(Vec::as_slice))
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// If it is missing or holds anything else.
    pub fn numbers(&self, key: &str) -> Result<Vec<u64>, Mismatch> {
        self.list(key)?
            .iter()
            .map(|value| number(value).ok_or_else(|| wrong(key, "numbers", Some(value))))
            .collect()
    }

    /// An object inside.
    ///
    /// # Errors
    /// If it is missing or no object.
    pub fn object(&self, key: &str) -> Result<Object<'a>, Mismatch> {
        self.required(key, "object", Value::as_object).map(Object::new)
    }

    /// A list of objects.
    ///
    /// # Errors
    /// If it is missing or holds anything else.
    pub fn objects(&self, key: &str) -> Result<Vec<Object<'a>>, Mismatch> {
        let one = |value: &'a Value| value.as_object().map(Object::new);
        self.list(key)?
            .iter()
            .map(|value| one(value).ok_or_else(|| wrong(key, "objects", Some(value))))
            .collect()
    }

    /// All fields as numbers by name: a map such as that of chunk addresses.
    ///
    /// # Errors
    /// If a field is no number.
    pub fn all_numbers(&self) -> Result<Vec<(&'a str, u64)>, Mismatch> {
        self.fields.iter().map(|(key, _)| Ok((key.as_str(), self.number(key)?))).collect()
    }

    /// Register accesses, `[op, bar, offset, value]` each.
    ///
    /// # Errors
    /// If it is missing or holds anything else.
    pub fn accesses(&self, key: &str) -> Result<Vec<Access>, Mismatch> {
        self.list(key)?
            .iter()
            .map(|value| access(value).ok_or_else(|| wrong(key, "access", Some(value))))
            .collect()
    }

    /// Register values, `[offset, value]` each.
    ///
    /// # Errors
    /// If it is missing or holds anything else.
    pub fn registers(&self, key: &str) -> Result<Vec<(u64, u32)>, Mismatch> {
        self.list(key)?
            .iter()
            .map(|value| register(value).ok_or_else(|| wrong(key, "register value", Some(value))))
            .collect()
    }

    /// Whether every field was read.
    ///
    /// # Errors
    /// Names the fields that were not: they would have gone uncompared.
    pub fn finish(&self) -> Result<(), Mismatch> {
        let seen = self.seen.borrow();
        let unread: Vec<_> = self.fields.keys().filter(|key| !seen.contains(*key)).collect();
        if unread.is_empty() {
            Ok(())
        } else {
            Err(Mismatch::new(format!("fields not compared: {unread:?}")))
        }
    }
}

/// An unsigned number, plain or as `"0x.."`.
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    }
}

/// Raw bytes: hex digits in memory order, no prefix.
pub fn bytes(value: &Value) -> Option<Vec<u8>> {
    let digits = value.as_str()?.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}

fn access(value: &Value) -> Option<Access> {
    let [op, bar, offset, value] = value.as_array()?.as_slice() else { return None };
    Some(Access {
        op: match op.as_str()? {
            "r" => Op::Read,
            "w" => Op::Write,
            _ => return None,
        },
        bar: u8::try_from(number(bar)?).ok()?,
        offset: number(offset)?,
        value: u32::try_from(number(value)?).ok()?,
    })
}

fn register(value: &Value) -> Option<(u64, u32)> {
    let [offset, value] = value.as_array()?.as_slice() else { return None };
    Some((number(offset)?, u32::try_from(number(value)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: &Value) -> &Map<String, Value> {
        value.as_object().unwrap()
    }

    #[test]
    fn numbers_come_plain_and_in_hex() {
        let value = json!({"a": 7, "b": "0xff", "c": -1, "d": null, "e": "ff", "f": "0xffffffffffffffff"});
        let object = Object::new(fields(&value));
        assert_eq!((object.number("a"), object.number("b")), (Ok(7), Ok(255)));
        assert_eq!((object.word("c"), object.signed("c")), (Ok(u32::MAX), Ok(-1)));
        assert_eq!((object.nullable("d"), object.nullable("a")), (Ok(None), Ok(Some(7))));
        assert_eq!(object.number("f"), Ok(u64::MAX));
        assert!(object.number("e").is_err() && object.number("c").is_err() && object.number("x").is_err());
        assert!(object.word("f").is_err());
    }

    #[test]
    fn bytes_are_in_memory_order() {
        assert_eq!(bytes(&json!("0100ffA0")), Some(vec![1, 0, 0xff, 0xa0]));
        assert_eq!((bytes(&json!("010")), bytes(&json!("0x01")), bytes(&json!(1))), (None, None, None));
        assert_eq!(bytes(&json!("")), Some(vec![]));
    }

    #[test]
    fn an_access_has_exactly_four_parts() {
        let value = json!({"mmio": [["w", 0, "0x10", 3], ["r", 0, 20, "0x4"]], "bad": [["x", 0, 0, 0]]});
        let object = Object::new(fields(&value));
        assert_eq!(object.accesses("mmio"), Ok(vec![Access::write(16, 3), Access::read(20, 4)]));
        assert!(object.accesses("bad").is_err());
    }

    #[test]
    fn nothing_recorded_differs_from_recorded_as_nothing() {
        let value = json!({"ring": null, "preload": [["0x10", 3]], "bad": [[1]]});
        let object = Object::new(fields(&value));
        assert!(object.is_null("ring") && !object.is_null("preload") && !object.is_null("other"));
        assert_eq!(object.registers("preload"), Ok(vec![(16, 3)]));
        assert!(object.registers("bad").is_err() && object.registers("other").is_err());
    }

    #[test]
    fn a_field_that_nobody_read_is_told() {
        let value = json!({"ret": 0, "new": 1});
        let object = Object::new(fields(&value));
        object.signed("ret").unwrap();
        assert!(object.has("new"));
        assert!(object.finish().unwrap_err().to_string().contains("new"));
        object.skip("new");
        assert_eq!(object.finish(), Ok(()));
        let again = Object::new(fields(&value));
        again.skip_all();
        assert_eq!(again.finish(), Ok(()));
    }
}
