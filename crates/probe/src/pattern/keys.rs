//! The keys of a trial's line: named once, read and written by the same function.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

use crate::tokens::Token;
use crate::wire::{Fields, Value, WireError};

/// A pair as it would stand on a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) key: &'static str,
    pub(super) value: Value,
    /// Does it stand there also with the value that an absent key has?
    pub(super) stated: bool,
}

/// The keys of a line that is read, or of one that is written. A pattern names each of its keys with the place of its
/// value: what is read goes there, what is written comes from there.
pub struct Keys<'a> {
    mode: Mode<'a>,
}

enum Mode<'a> {
    Read(Fields<'a>),
    Write(Vec<Pair>),
}

impl<'a> Keys<'a> {
    pub(super) fn of_line(fields: Fields<'a>) -> Keys<'a> {
        Keys { mode: Mode::Read(fields) }
    }

    /// What `named` writes.
    pub(super) fn written(named: impl FnOnce(&mut Keys<'_>) -> Result<(), WireError>) -> Vec<Pair> {
        let mut keys = Keys { mode: Mode::Write(Vec::new()) };
        // Only what is read can be wrong.
        let _ = named(&mut keys);
        match keys.mode {
            Mode::Write(pairs) => pairs,
            Mode::Read(_) => Vec::new(),
        }
    }

    /// The fields of a line that is read, less those that were taken.
    pub(super) fn into_fields(self) -> Option<Fields<'a>> {
        match self.mode {
            Mode::Read(fields) => Some(fields),
            Mode::Write(_) => None,
        }
    }

    pub(super) fn reads(&self) -> bool {
        matches!(self.mode, Mode::Read(_))
    }

    /// One value: `read` takes it from the fields, `value` is what is written of it.
    fn one<T>(
        &mut self,
        key: &'static str,
        place: &mut T,
        read: impl FnOnce(&mut Fields<'a>) -> Result<Option<T>, WireError>,
        value: impl FnOnce(&T) -> Option<Value>,
    ) -> Result<(), WireError> {
        match &mut self.mode {
            Mode::Read(fields) => {
                if let Some(read) = read(fields)? {
                    *place = read;
                }
            }
            Mode::Write(pairs) => {
                pairs.extend(value(place).map(|value| Pair { key, value, stated: false }));
            }
        }
        Ok(())
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// When what is read is none.
    pub fn int(&mut self, key: &'static str, place: &mut u64) -> Result<(), WireError> {
        self.one(key, place, |f| f.int(key), |value| Some(Value::Int((*value).into())))
    }

    /// 0 or 1.
    ///
    /// # Errors
    /// When what is read is neither.
    pub fn flag(&mut self, key: &'static str, place: &mut bool) -> Result<(), WireError> {
        let flag = |value| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::new(format!("trial: {key}={value} must be from 0 to 1"))),
        };
        self.one(
            key,
            place,
            |f| f.int(key)?.map(flag).transpose(),
            |value| Some(Value::Int(u8::from(*value).into())),
        )
    }

    /// A byte that may be absent.
    ///
    /// # Errors
    /// When what is read is none.
    pub fn byte(&mut self, key: &'static str, place: &mut Option<u8>) -> Result<(), WireError> {
        let byte = |v: u64| {
            u8::try_from(v).map_err(|_| WireError::new(format!("trial: {key}={v} must be from 0 to 255")))
        };
        self.one(
            key,
            place,
            |f| Ok(f.int(key)?.map(byte).transpose()?.map(Some)),
            |value| value.map(|byte| Value::Int(byte.into())),
        )
    }

    /// A word of a list.
    ///
    /// # Errors
    /// When what is read is none of it.
    pub fn token<T: Token>(&mut self, key: &'static str, place: &mut T) -> Result<(), WireError> {
        self.one(key, place, |f| f.one_of(key), |value| Some(Value::Token(value.word().to_owned())))
    }

    /// A word of a list that stands on the line whatever it is.
    ///
    /// # Errors
    /// When what is read is none of it.
    pub fn stated<T: Token>(&mut self, key: &'static str, place: &mut T) -> Result<(), WireError> {
        self.token(key, place)?;
        if let Mode::Write(pairs) = &mut self.mode
            && let Some(last) = pairs.last_mut()
        {
            last.stated = true;
        }
        Ok(())
    }

    /// A word of a list that may be absent.
    ///
    /// # Errors
    /// When what is read is none of it.
    pub fn optional<T: Token>(&mut self, key: &'static str, place: &mut Option<T>) -> Result<(), WireError> {
        self.one(
            key,
            place,
            |f| Ok(f.one_of(key)?.map(Some)),
            |value| value.map(|value| Value::Token(value.word().to_owned())),
        )
    }

    /// Text with a notation of its own.
    ///
    /// # Errors
    /// When what is read is none.
    pub fn text<T: Display>(
        &mut self,
        key: &'static str,
        place: &mut T,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<(), WireError> {
        let read = |text| parse(text).map_err(|what| WireError::new(format!("trial: {key}: {what}")));
        self.one(
            key,
            place,
            |f| f.text(key)?.map(read).transpose(),
            |value| Some(Value::Text(value.to_string())),
        )
    }

    /// Unsigned integers; an empty list stands on no line.
    ///
    /// # Errors
    /// When what is read is none.
    pub fn list(&mut self, key: &'static str, place: &mut Vec<u64>) -> Result<(), WireError> {
        self.one(
            key,
            place,
            |f| f.list(key).map(Some),
            |list| match list.as_slice() {
                [] => None,
                [one] => Some(Value::Int((*one).into())),
                all => Some(Value::List(all.iter().map(|&v| v.into()).collect())),
            },
        )
    }
}
